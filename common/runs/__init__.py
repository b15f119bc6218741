"""Runs in storage: layout and commit points, claiming, listing and loading.

`make runs` (`cli/runs.py`) lists, compares, exports and deletes runs.
"""

from common.runs.aliases import aliases, promote
from common.runs.attempts import AttemptRecord, Attempts, backoff_seconds
from common.runs.claim import ClaimedRun, FinishedRun, claim_for_training, next_name, numbered
from common.runs.loading import LoadedCircuit, LoadedRun, RunSplit, load
from common.runs.registry import (
    FAILED,
    RunComparison,
    RunSummary,
    compare,
    delete,
    expand,
    find,
    latest_finished,
    list_runs,
    names,
    resolve,
)
from common.runs.run import DATASETS, Run, read_model

__all__ = [
    "DATASETS",
    "FAILED",
    "AttemptRecord",
    "Attempts",
    "ClaimedRun",
    "FinishedRun",
    "LoadedCircuit",
    "LoadedRun",
    "Run",
    "RunComparison",
    "RunSplit",
    "RunSummary",
    "aliases",
    "backoff_seconds",
    "claim_for_training",
    "compare",
    "delete",
    "expand",
    "find",
    "latest_finished",
    "list_runs",
    "load",
    "names",
    "next_name",
    "numbered",
    "promote",
    "read_model",
    "resolve",
]
