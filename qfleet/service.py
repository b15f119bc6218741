"""The service from a script or a notebook: training in worker processes, as `qfleet train` does.

    import qfleet.service as qf

    run = qf.train(data=frame, qubits=8, workers=2)
    run.metrics             # {"test": {"mse": 0.02, "accuracy": 0.99}, ...}
    run.history             # one dict per epoch
    run.report()            # path of the report
    qf.load("hybrid").model # the Keras model

Everything runs in child processes, so that a notebook can be interrupted and TensorFlow is imported
by workers only.
"""

import hashlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qfleet import _front
from qfleet.errors import LibraryError

if TYPE_CHECKING:
    from common.runs.loading import LoadedRun

__all__ = ["ServiceError", "TrainedRun", "load", "train"]

TABLES = Path("qfleet-tables")
"""Folder of tables that were given as frames or arrays. Inference and a resumed run read them."""

_SILENT = ("worker_started", "checkpoint_saved", "error")
"""Events that are not shown: of the log, and the one that is raised."""

_NOT_WRITTEN = (ValueError, TypeError, ArithmeticError, NotImplementedError)
"""Errors of pandas and Arrow for columns that a table can't hold."""

Scalar = str | int | float | bool | os.PathLike[str] | None
Value = Scalar | Sequence[Scalar] | Mapping[str, Scalar]


class ServiceError(LibraryError):
    """A command of the service failed; the message is its own.

    Attributes:
        exit_code: 2 if something must be changed, 128 or more if the same call helps.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
        name: RUN.
        storage: STORAGE, a folder or gs://bucket/path.
        metrics: Split (train, validation, test) -> metric -> value.
        seconds: Duration of the training, in seconds.
        history: One row per epoch: epoch, loss and metrics of the training and the validation.
    """

    name: str
    storage: str
    metrics: Mapping[str, Mapping[str, float]]
    seconds: float
    history: Sequence[Mapping[str, Any]]

    def report(self, *, progress: bool = True) -> Path:
        """Return the path of the report; inference on the test split writes it.

        Args:
            progress: Print what inference reports.

        Raises:
            ServiceError: Inference failed, or STORAGE is a bucket.
        """
        if "://" in self.storage:
            raise ServiceError(f"the report of {self.name} is in {self.storage}: open it there", 2)
        page = Path(self.storage) / self.name / "predictions" / "report.html"
        if not page.is_file():
            _run(["infer", f"STORAGE={self.storage}", f"RUN={self.name}"], progress=progress)
        return page

    def load(self, **options: str) -> "LoadedRun":
        """Return the run with its Keras model and circuits; see `load`."""
        return load(self.name, self.storage, **options)

    def __str__(self) -> str:
        test = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics["test"].items())
        return f"{self.name} in {self.storage}: test {test}"


def train(*, data: object = None, progress: bool = True, **settings: Value) -> TrainedRun:
    """Train in worker processes of this machine, and return the finished run.

    The same call resumes a run that was interrupted.

    Args:
        data: A built-in data set, the path of a table, a pandas or polars frame, or a pair of
            arrays: features float [n, columns] and labels [n], whose column is `label`.
        progress: Print what the training reports; epochs share one line.
        settings: Settings of `qfleet train` by name, such as qubits=8 or model="my_model:build";
            lists as classes=["a", "b"], pairs as noise={"depolarizing": 0.01}.

    Returns:
        The run.

    Raises:
        ServiceError: A setting or the data can't be used, or the training failed.
        KeyboardInterrupt: The training was interrupted and has saved a checkpoint.
    """
    if data is not None:
        settings["data"] = _path_of(data)
    words = [f"{name.upper()}={_text(value)}" for name, value in settings.items()]
    events = _run(["train", *words], progress=progress)
    finished = next(event for event in events if event["event"] == "run_finished")
    name, storage = finished["run"], finished["storage"]
    history = _history(storage, name)
    return TrainedRun(name, storage, finished["metrics"], finished["seconds"], history)


def load(run: str, storage: str = "runs", **options: str) -> "LoadedRun":
    """Load a finished run: its Keras model, circuits, record and splits.

    Args:
        run: Name of the run, or path of its folder.
        storage: STORAGE, if `run` is a name.
        options: `model`: the factory, module:name, of an own model whose source has changed since
            the training. `checkpoint`: "last", or "best" for the epoch that KEEP_BEST=true kept.

    Raises:
        ServiceError: The service is not installed, or another module is called `common`.
        Exception: The run can't be read or is not finished; the message is one sentence.
    """
    place = _place()
    other = getattr(sys.modules.get("common"), "__file__", None)
    if other and not Path(other).is_relative_to(place):
        raise ServiceError(f"a module of yours is called common ({other}): rename it", 2)
    before = list(sys.path)
    _front.lead(place)
    try:
        loaded: LoadedRun = importlib.import_module("common.runs.loading").load(
            run, storage, **options
        )
    finally:
        sys.path[:] = before
    return loaded


def _place() -> str:
    place = _front.service()
    if place is None:
        raise ServiceError(_front.MISSING, 2)
    return place


def _run(words: Sequence[str], *, progress: bool) -> list[dict[str, Any]]:
    """Run `qfleet WORDS`, and return its events.

    Raises:
        ServiceError: It failed.
        KeyboardInterrupt: It was interrupted, and has ended.
    """
    environment = {**os.environ, **_front.variables(_place())}
    found: list[dict[str, Any]] = []
    display = _Display(shown=progress)
    with subprocess.Popen(
        [sys.executable, "-m", "qfleet", *words, "--json"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that it receives one SIGINT, from here
    ) as child:
        try:
            for event in _events(child):
                found.append(event)
                display.show(event)
        except BaseException as error:
            child.send_signal(signal.SIGINT)  # it saves a checkpoint
            if isinstance(error, KeyboardInterrupt):
                for event in _events(child):
                    display.show(event)
            raise
    code = child.returncode
    if code:
        errors = [event["message"] for event in found if event["event"] == "error"]
        lines = [event["message"] for event in found]
        raise ServiceError((errors or lines or [f"exit code {code}"])[-1], code)
    return found


def _events(child: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """Yield the events that a process prints; other lines are log events."""
    assert child.stdout is not None
    for line in child.stdout:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or "event" not in event:
            event = {"event": "log", "message": line.rstrip("\n")}
        yield event


class _Display:
    """Prints events; an epoch replaces the one before it. An error is raised, not printed."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._is_open = False  # the cursor is at the end of an epoch's line

    def show(self, event: Mapping[str, Any]) -> None:
        """Print an event's message."""
        text, kind = str(event.get("message", "")), event["event"]
        if not self._shown or not text or kind in _SILENT or event.get("level") == "DEBUG":
            return
        if kind in ("epoch", "step"):
            print(f"\r{text:<100}", end="")
            self._is_open = True
        else:
            print("\n" * self._is_open + text)
            self._is_open = False
        sys.stdout.flush()


def _history(storage: str, name: str) -> list[Mapping[str, Any]]:
    if "://" in storage:
        return []
    file = Path(storage) / name / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    is_flag = type(value).__name__ in ("bool", "bool_")  # of Python, or of NumPy
    return str(value).lower() if is_flag else str(value)


def _path_of(data: object) -> str:
    """Return DATA for a path, a frame or arrays; frames are written once, by their content."""
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    if isinstance(data, tuple):
        if len(data) != 2:
            raise ServiceError(f"data is a tuple of {len(data)}: give features and labels", 2)
        data = _frame_of(*data)
    content = _parquet(data)
    path = TABLES / f"{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    try:
        TABLES.mkdir(exist_ok=True)
        if not path.exists():
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(content)
            unfinished.replace(path)
    except OSError as error:
        raise ServiceError(
            f"the folder {TABLES} can't be written ({error.strerror}): change to a folder of yours",
            2,
        ) from None
    return str(path)


def _parquet(frame: Any) -> bytes:
    """Return a frame as the content of a Parquet file.

    Raises:
        ServiceError: It is not a frame, or a table can't hold it.
    """
    buffer = io.BytesIO()
    if hasattr(frame, "write_parquet"):  # polars
        frame.write_parquet(buffer)
        return buffer.getvalue()
    if not hasattr(frame, "to_parquet"):  # pandas
        raise ServiceError(
            f"data is a {type(frame).__name__}: give a name, a path, a frame of pandas or polars,"
            " or a pair of arrays (features, labels)",
            2,
        )
    names = list(map(str, frame.columns))
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ServiceError(f"data has two columns named {repeated[0]!r}: rename one of them", 2)
    try:
        frame.to_parquet(buffer, index=False)
    except _NOT_WRITTEN:
        columns = (name for name in frame.columns if not _is_written(frame[[name]]))
        raise ServiceError(
            f"column {str(next(columns, ''))!r} of data has values of several types, or of one that"
            " no table has: give numbers, or texts as labels and identifiers",
            2,
        ) from None
    return buffer.getvalue()


def _is_written(frame: Any) -> bool:
    try:
        frame.to_parquet(io.BytesIO(), index=False)
    except _NOT_WRITTEN:
        return False
    return True


def _frame_of(features: object, labels: object = None) -> object:
    """Return a frame of the columns x0, x1, ... and label."""
    import numpy as np
    import pandas as pd

    try:
        columns, answers = np.asarray(features), np.asarray(labels)
    except ValueError:
        raise ServiceError("data has rows of different lengths: give arrays", 2) from None
    if columns.ndim != 2 or answers.shape != columns.shape[:1]:
        raise ServiceError(
            f"the arrays have shapes {columns.shape} and {answers.shape}: give features"
            " [n, columns] and labels [n]",
            2,
        )
    frame = pd.DataFrame(columns, columns=[f"x{index}" for index in range(columns.shape[1])])
    frame["label"] = answers
    return frame
