"""Structured events: what programs of qfleet report to the process that started them.

An event is one JSON object per line:

    {"event": "epoch", "time": 1767225600.1, "rank": 0, "message": "epoch 3/170", ...fields}

`message` is for people and may change at any time. Programs read only the fields of KINDS. The
environment variable QFLEET_EVENTS names the destination of a process's events:

    unset     the console: `render(event)` on stdout, errors on stderr
    fd:N      the inherited pipe N, which the parent's `ManagedProcess` reads
    stdout    JSON lines on stdout, for pods whose logs the client reads

A destination that fails never raises, and a slow reader delays an event by at most STALL_SECONDS.
"""

from common.events.destinations import (
    MAX_LINE_BYTES,
    STALL_SECONDS,
    LineSplitter,
    render,
    write_available,
)
from common.events.emitter import (
    ENVIRONMENT_VARIABLE,
    LogHandler,
    emit,
    encode,
    flush,
    forward,
    interrupt,
    is_read_by_parent,
    is_streaming,
    log_event,
    start,
)
from common.events.schema import KINDS, LAST_KINDS, LOG_ONLY_KINDS, Event, Kind, foreign, parse

__all__ = [
    "ENVIRONMENT_VARIABLE", "KINDS", "LAST_KINDS", "LOG_ONLY_KINDS", "MAX_LINE_BYTES",
    "STALL_SECONDS", "Event", "Kind", "LineSplitter", "LogHandler", "emit", "encode", "flush",
    "foreign", "forward", "interrupt", "is_read_by_parent", "is_streaming", "log_event", "parse",
    "render", "start", "write_available",
]  # fmt: skip
