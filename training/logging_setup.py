"""What a worker says: on its output, and in the run's text log of this worker and attempt."""

import logging
import os
import sys
import traceback
from pathlib import Path

from common.errors import as_qfleet_error, one_line

log = logging.getLogger("qfleet")


def start_console(rank: int, *, verbose: bool) -> None:
    """Say things on stdout; workers other than the chief put their number first."""
    prefix = f"worker {rank}: " if rank else ""
    console = logging.StreamHandler(sys.stdout)
    console.setFormatter(logging.Formatter(f"{prefix}%(message)s"))
    console.setLevel(logging.DEBUG if verbose else logging.INFO)
    log.handlers = [console]
    log.setLevel(logging.DEBUG)
    log.propagate = False


def add_log_file(file: Path, *, verbose: bool) -> logging.Handler:
    """Keep all that is said from now on in a text file too, with the time.

    What TensorFlow's native code says goes there alone, unless `verbose`: the person sees what
    Python writes to stderr, and nothing else.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    stream = file.open("a", buffering=1, encoding="utf-8")
    kept = logging.StreamHandler(stream)
    kept.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(kept)
    if not verbose:
        sys.stderr.flush()
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
        os.dup2(stream.fileno(), 2)
    return kept


def log_exit(kept: logging.Handler, error: BaseException) -> None:
    """Write into the text log how this worker ended; its output gets that from `run_main`."""
    if (known := as_qfleet_error(error)) is not None:
        text = one_line(known)
    else:
        text = "".join(traceback.format_exception(error)).rstrip()
    kept.handle(log.makeRecord(log.name, logging.ERROR, "", 0, text, (), None))
