"""Distributed training: workers, rendezvous, trainer, checkpoints, and the local launcher."""

import common.import_path  # noqa: F401 - it comes first: see there
