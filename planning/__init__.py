"""Planning: measure and predict the time, memory and cost of a training."""

import common.import_path  # noqa: F401 - it comes first: see there
