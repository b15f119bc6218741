"""What runs leave behind: their layout and commit points, which one is meant, list and load.

`python -m common.runs` (`make runs`) lists, compares and deletes them.
"""

from common.runs.catalogue import (
    Comparison,
    Summary,
    compare,
    delete,
    find,
    latest_finished,
    list_runs,
    names,
    resolve,
)
from common.runs.loading import LoadedCircuit, LoadedRun, load
from common.runs.opening import Finished, HeldRun, next_name, numbered, open_for_training
from common.runs.run import DATASETS, Run

__all__ = [
    "DATASETS",
    "Comparison",
    "Finished",
    "HeldRun",
    "LoadedCircuit",
    "LoadedRun",
    "Run",
    "Summary",
    "compare",
    "delete",
    "find",
    "latest_finished",
    "list_runs",
    "load",
    "names",
    "next_name",
    "numbered",
    "open_for_training",
    "resolve",
]
