"""Log output of a worker: events or console text, and one text log per worker and attempt."""

import logging
import os
import sys
import traceback
from pathlib import Path

from common import events
from common.errors import as_qfleet_error, one_line

log = logging.getLogger("qfleet")


def start_console(rank: int, *, verbose: bool) -> None:
    """Send log records to this process's event destination, which by default is the console.

    Args:
        rank: Rank of this worker; the console prefixes lines of ranks other than 0 with it.
        verbose: Include debug messages.
    """
    events.start(rank)
    handler = events.LogHandler(verbose=verbose)
    if rank:
        handler.addFilter(lambda record: not getattr(record, "is_shared", False))
    log.handlers = [handler]
    log.setLevel(logging.DEBUG)
    log.propagate = False


def log_shared(text: str, level: int = logging.INFO) -> None:
    """Log what all workers find alike: each text log has it, the console the chief's line only."""
    log.log(level, "%s", text, extra={"is_shared": True})


def add_log_file(file: Path, *, verbose: bool) -> logging.Handler:
    """Write all log records, with their time, to a text file as well.

    Output of TensorFlow's native code on stderr is redirected to the file, unless `verbose`.
    Python's own stderr stays where it is.

    Returns:
        The handler of the file.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    stream = file.open("a", buffering=1, encoding="utf-8")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    if not verbose:
        sys.stderr.flush()
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
        os.dup2(stream.fileno(), 2)
    return handler


def log_exit(handler: logging.Handler, error: BaseException) -> None:
    """Write the reason for this worker's exit to its text log; `run_main` reports it elsewhere."""
    if as_qfleet_error(error):
        text = one_line(error)
    else:
        text = "".join(traceback.format_exception(error)).rstrip()
    handler.handle(log.makeRecord(log.name, logging.ERROR, "", 0, text, (), None))
