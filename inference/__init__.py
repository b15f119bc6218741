"""Inference: predictions of a trained model for examples, and a report about them."""

import common.import_path  # noqa: F401 - it comes first: see there
