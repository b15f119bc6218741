"""The kinds of events, their fields, and one event as an object and as a line."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

RESERVED = ("event", "time", "rank", "message")
_NUMBER: tuple[type, ...] = (int, float, type(None))  # null is NaN or infinite


@dataclass(frozen=True, slots=True)
class Kind:
    """The fields of one kind of event: name -> accepted JSON types."""

    required: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    optional: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


KINDS: Mapping[str, Kind] = {
    # A log record. `stream` is set for a line of foreign text that a process printed there.
    "log": Kind({"level": (str,)}, {"stream": (str,)}),
    # The first event of a training worker, before TensorFlow is imported.
    "worker_started": Kind({"workers": (int,)}),
    # Training. Epochs count from 1; `step` of run_resumed counts completed steps of that epoch.
    "run_started": Kind({"run": (str,), "storage": (str,), "attempt": (int,)}),
    "run_resumed": Kind(
        {"run": (str,), "storage": (str,), "attempt": (int,), "epoch": (int,), "step": (int,)}
    ),
    "epoch": Kind({"epoch": (int,), "epochs": (int,)}, {"metrics": (dict,), "phase": (str,)}),
    # `step` of `steps` in epoch `epoch` are done. For displays; it has no message.
    "progress": Kind(
        {"epoch": (int,), "epochs": (int,), "step": (int,), "steps": (int,)}, {"phase": (str,)}
    ),
    "waiting": Kind({"missing": (list,)}, {"seconds": _NUMBER}),  # ranks not at the rendezvous
    "elastic_start": Kind({"members": (list,), "missing": (list,)}),  # ranks, see MIN_WORKERS
    "checkpoint_saved": Kind({"run": (str,), "step": (int,)}),  # step of the whole run
    # `commands` are what the user may run next, such as "make inference RUN=...".
    "run_finished": Kind(
        {"run": (str,), "storage": (str,), "metrics": (dict,)},
        {"seconds": _NUMBER, "commands": (list,)},
    ),
    # Supervision. `worker` is absent from `restarting` where all workers restart together.
    "worker_lost": Kind({"worker": (int,), "exit_code": (int,)}),
    "restarting": Kind({"restart": (int,), "max_restarts": (int,)}, {"worker": (int,)}),
    # Inference. `first`, `last` and `index` count chunks from 0; `done` were predicted before.
    "chunks_assigned": Kind(
        {"worker": (int,), "first": (int,), "last": (int,), "total": (int,), "done": (int,)}
    ),
    "chunk_done": Kind(
        {"worker": (int,), "index": (int,), "total": (int,), "rate": _NUMBER, "unit": (str,)},
        {"examples": (int,)},
    ),
    # `state` of a part of a cluster is ok, missing or unknown.
    "check": Kind({"part": (str,), "state": (str,)}),
    # The client of a cluster. It repeats `job_phase` while it follows a job; the last one is
    # Succeeded or Failed. `emulator` is the address of a storage emulator, or empty.
    "job_phase": Kind({"job": (str,), "phase": (str,)}),
    "storage_open": Kind({"storage": (str,), "emulator": (str,)}),
    # Step benchmarks and planning.
    "benchmark_ready": Kind(),
    "measurement": Kind({"result": (dict,)}),
    "nodes": Kind({"nodes": (list,)}),  # node name by rank
    "workload": Kind({"workload": (dict,)}),
    "plan": Kind({"settings": (dict,), "reason": (str,)}),
    # The end. A program emits `error`; `ManagedProcess` adds `exit`, always as the last event.
    "error": Kind({"exit_code": (int,)}),
    "exit": Kind({"exit_code": (int,), "reason": (str,)}),
}

LOG_ONLY_KINDS = frozenset({"worker_started", "checkpoint_saved"})
"""Kinds for the logs of workers and pods; displays do not print them."""

LAST_KINDS = frozenset({"error", "run_finished"})
"""Kinds after which no epoch follows; a bar ends before them."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        kind: A key of KINDS.
        time: Unix time in seconds.
        rank: The worker that emitted it, where there are several.
        message: Text for people; may be empty.
        fields: Fields of this kind. Required ones are present and of the right type.
    """

    kind: str
    time: float
    rank: int | None = None
    message: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """Return a field that holds text."""
        value = self.fields.get(name, default)
        return value if isinstance(value, str) else default

    def integer(self, name: str, default: int = 0) -> int:
        """Return a field that holds an integer."""
        value = self.fields.get(name, default)
        return value if isinstance(value, int) else default

    def number(self, name: str, default: float = math.nan) -> float:
        """Return a field that holds a number; NaN where the emitter had NaN or an infinity."""
        value = self.fields.get(name, default)
        return float(value) if isinstance(value, int | float) else math.nan

    def mapping(self, name: str) -> Mapping[str, object]:
        """Return a field that holds an object; empty where it is absent."""
        value = self.fields.get(name)
        return value if isinstance(value, dict) else {}

    def items(self, name: str) -> list[object]:
        """Return a field that holds a list; empty where it is absent."""
        value = self.fields.get(name)
        return value if isinstance(value, list) else []

    def to_json(self) -> str:
        """Return the event as one line without its line break, in strict JSON."""
        line: dict[str, object] = {"event": self.kind, "time": round(self.time, 6)}
        if self.rank is not None:
            line["rank"] = self.rank
        return json.dumps({**line, "message": self.message, **self.fields}, allow_nan=False)


def parse(line: str | bytes) -> Event | None:
    """Read a line. Never raises.

    Args:
        line: Text, or UTF-8 bytes; a line break at its end is ignored.

    Returns:
        The event; None for anything else: foreign text, a line that was cut, an unknown kind, a
        kind without its required fields. `foreign` makes a log event of such a line.
    """
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if not text.startswith("{"):
        return None
    try:
        read: object = json.loads(text)
        plain = _plain(read)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    kind, when, rank, message = (plain.pop(name, None) for name in RESERVED)
    if not isinstance(kind, str) or _problem(kind, plain, strict=False):
        return None
    if not isinstance(when, int | float) or not isinstance(rank, int | None):
        return None
    # A lone surrogate could not be printed.
    shown = message.encode("utf-8", "replace").decode() if isinstance(message, str) else ""
    return Event(kind, float(when), rank, shown, plain)


def foreign(line: str | bytes, stream: str = "stdout", *, rank: int | None = None) -> Event:
    """Return a log event for a line of text that is not an event.

    Args:
        line: The line.
        stream: Where it was printed, "stdout" or "stderr"; kept in the field `stream`.
        rank: The worker that printed it.
    """
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return Event("log", time.time(), rank, text.rstrip("\r\n"), {"level": "INFO", "stream": stream})


def checked_fields(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return an event's fields as strict JSON has them.

    Raises:
        ValueError: The kind is unknown, or its fields are not those of KINDS.
    """
    plain = {name: _plain(value) for name, value in fields.items()}
    if problem := _problem(kind, plain, strict=True):
        raise ValueError(problem)
    return plain


def _problem(kind: str, fields: Mapping[str, object], *, strict: bool) -> str:
    """Return what is wrong with an event's fields, or nothing; `strict` refuses unknown ones."""
    if kind not in KINDS:
        return f"{kind!r} is not a kind of event: choose one of {', '.join(KINDS)}"
    types = {**KINDS[kind].required, **KINDS[kind].optional}
    for name in KINDS[kind].required:
        if name not in fields:
            return f"an event of kind {kind} needs the field {name}"
    for name, value in fields.items():
        if name in types:
            if not isinstance(value, types[name]) or isinstance(value, bool):
                return f"the field {name} of an event of kind {kind} can't be {value!r:.100}"
        elif strict:
            return f"an event of kind {kind} has no field {name}"
    return ""


def _plain(value: object) -> object:
    """Return the value as strict JSON has it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if callable(convert := getattr(value, "tolist", None)):  # NumPy, without importing it
        return _plain(convert())
    return str(value)
