"""Errors that a user or an operator can act on, and the exit codes of programs.

    QfleetError
    ├── UserError                2    the user must change something
    │   ├── SettingsError             a setting: its name, its value and the allowed values
    │   ├── DataError                 a data set: the file, column or row
    │   ├── SimulationError           a circuit: the gate, moment and qubits, or its memory
    │   ├── WeightsError              weights or a checkpoint that do not fit or were altered
    │   ├── StorageError              no such bucket, permission denied
    │   │   └── StorageFull           a disk or a quota is full
    │   ├── RunError                  a run that is in use, missing, or has other settings
    │   ├── TrainingDiverged          a loss, gradient or weight that is infinite or NaN
    │   └── ClusterError              a Kubernetes that refuses, is unreachable, or has no room
    └── RetryableError          >=128  the job itself is sound: start it again
        ├── PeerLost            138   another worker of the process group ended
        ├── Preempted           143   SIGTERM: the machine is needed elsewhere (128 + 15)
        ├── RendezvousTimeout   144   not all workers joined the rendezvous in time
        ├── StorageUnavailable  145   storage does not respond
        ├── DeadlineReached     146   DEADLINE seconds have passed
        ├── Stalled             147   a worker made no progress within a limit
        ├── ReplicasDiffer      149   the weights of the workers are not equal
        └── DeviceLost          150   a GPU failed while it computed

The exceptions of the library (`qfleet.errors`) carry no exit codes; `as_qfleet_error` converts them
to these. Any other exception is a bug and exits with 1 and a traceback. The Kubeflow operator
restarts a pod on exit codes of 128 or more and fails the job permanently on 1 to 127.

The text of every error is one sentence: cause, location, allowed values, next command.
"""

import atexit
import contextlib
import gc
import logging
import re
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from common import events
from common.text import printable
from qfleet import errors as library

EXIT_OK = 0
EXIT_BUG = 1
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

TERMINATION_LOG = Path("/dev/termination-log")
"""File in a pod whose content Kubernetes copies into the pod's status."""

MAX_TERMINATION_MESSAGE = 4000
"""Characters of a termination message; Kubernetes keeps 4096 bytes."""

NO_SPACE = "no space left"
"""In the text of each StorageFull, by which the parent of a process recognises it."""

OUT_OF_MEMORY = (
    "the memory of this machine is too small: use fewer QUBITS, fewer WORKERS on this machine or a"
    " smaller BATCH"
)
"""The text of an error where the engine did not count the bytes before."""

EXIT_REPEAT_SECONDS = 1.0
"""Interval in which SystemExit is raised again after a signal, until it is handled."""

GC_THRESHOLD = 10_000
"""Garbage collection threshold of programs. Importing TensorFlow and Cirq allocates many long-lived
objects; the default threshold of 700 rescans them repeatedly, a sixth of the start-up time."""


class QfleetError(Exception):
    """An error that a user or an operator can act on. Abstract: raise a subclass."""

    exit_code: int


class UserError(QfleetError):
    """The user must change something; running again would end the same way."""

    exit_code = 2


class SettingsError(UserError):
    """A setting is unknown, of the wrong type or out of bounds."""


class DataError(UserError):
    """A data set can't be read, or its content can't be used for training."""


class SimulationError(UserError):
    """A circuit can't be simulated."""


class WeightsError(UserError):
    """Weights or a checkpoint are missing, altered, or belong to another model."""


class StorageError(UserError):
    """Storage refuses access: no such bucket, permission denied."""


class StorageFull(StorageError):
    """A disk or a quota has no space left: a restart makes no room."""


class RunError(UserError):
    """A run can't be used in the requested way."""


class TrainingDiverged(UserError):
    """The loss, the gradient, the weights or a metric became infinite or NaN."""


class ClusterError(UserError):
    """The cluster refuses, does not respond, or can't run the job."""


class RetryableError(QfleetError):
    """The job itself is sound; the same command resumes it."""

    exit_code = 128


class PeerLost(RetryableError):
    """Another worker of this process group ended during a step, so all of them restart."""

    exit_code = 138


class Preempted(RetryableError):
    """SIGTERM: the machine is needed elsewhere."""

    exit_code = 143


class RendezvousTimeout(RetryableError):
    """Not all workers joined the rendezvous in time."""

    exit_code = 144


class StorageUnavailable(RetryableError):
    """Storage does not respond, or reports that it is busy, after retries."""

    exit_code = 145


class DeadlineReached(RetryableError):
    """DEADLINE seconds have passed; a checkpoint was saved."""

    exit_code = 146


class Stalled(RetryableError):
    """The main thread of this worker made no progress within the limit of its stage."""

    exit_code = 147


class ReplicasDiffer(RetryableError):
    """The workers' copies of the weights or of the optimizer's state are not equal."""

    exit_code = 149


class DeviceLost(RetryableError):
    """A GPU failed while it computed. A process that is started again can use it, or names why not.

    A GPU that can't be used at the start of a process is a UserError.
    """

    exit_code = 150


def one_line(error: BaseException) -> str:
    """Return the error's text without line breaks, for a terminal, a log or a pod's status.

    Control characters are escaped, since the text may contain values of other people's files.
    """
    return printable(" ".join(str(error).split()))


def as_qfleet_error(error: BaseException) -> QfleetError | None:
    """Return the error as one with an exit code.

    Args:
        error: Any exception.

    Returns:
        The error itself; a UserError for an error of the library or too little memory, or
        DeviceLost; None for a bug.
    """
    original: BaseException | None = error
    # AutoGraph replaces an error in traced code; the original is its context.
    while type(original).__name__ == "StagingError":
        assert original is not None
        original = original.__context__
    if isinstance(original, QfleetError):
        return original
    if isinstance(original, library.LibraryError):
        return _from_library(original)
    if found := from_operation(original):
        return found
    # NumPy's error is a MemoryError, TensorFlow's is known by its name.
    if isinstance(original, MemoryError) or type(original).__name__ == "ResourceExhaustedError":
        return SimulationError(OUT_OF_MEMORY)
    return None


_ENGINE_TEXT = re.compile(r"\bqfleet_[a-z_]+: ([^\n\[{]*)")
"""A sentence of the engine's C interface, which TensorFlow wraps in its own text."""


_OPERATION_ERRORS: dict[str, type[QfleetError]] = {
    "UnavailableError": DeviceLost,
    "FailedPreconditionError": SettingsError,
    "InvalidArgumentError": SettingsError,
    "ResourceExhaustedError": SimulationError,
}
"""Exceptions of TensorFlow for a qfleet_status (qfleet/native/tensorflow/program_op.cc)."""


def from_operation(error: BaseException | None) -> QfleetError | None:
    """Return the failure of an operation of the engine, which has its own code; else None.

    Args:
        error: Any exception. TensorFlow's are known by their names, as it may not be installed.
    """
    kind = _OPERATION_ERRORS.get(type(error).__name__)
    if not kind or not (found := _ENGINE_TEXT.search(str(error))):
        return None
    sentence = found[1].strip()
    if kind is SimulationError:
        return SimulationError(f"{sentence}; see QUBITS, WORKERS and BATCH")
    return kind(sentence)


def _from_library(error: library.LibraryError) -> QfleetError:
    """Convert an error of the library and add the setting to change."""
    if isinstance(error, library.DeviceLostError):
        return DeviceLost(str(error))
    if isinstance(error, library.ShardingError):
        return SimulationError(f"{error}, or set STATE_SHARDS=1")
    if isinstance(error, library.MemoryLimitError):
        return SimulationError(f"{error}; see QUBITS and WORKERS")
    if isinstance(error, library.CircuitError):
        return SimulationError(str(error))
    if isinstance(error, library.TfqMissingError):
        mend = "a checkout's `make training SIMULATOR=tfq` installs it in .venv-tfq"
        return SettingsError(f"SIMULATOR=tfq: {error}; {mend}, SIMULATOR=qfleet does not need it")
    return SettingsError(str(error))


def run_main(main: Callable[[], int | None]) -> int:
    """Call a program's main function and convert its end to an exit code.

    A QfleetError is emitted as an event, which is one line on stderr where no other process reads
    the events. Any other exception is a bug and keeps its traceback. In a pod, either becomes the
    termination message.

    Args:
        main: The program. Its return value is the exit code; None is 0.

    Returns:
        The exit code for sys.exit.
    """
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # the last collection takes a second of a process with TensorFlow
    events.start()
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see qfleet.__main__
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return main() or EXIT_OK
    except SystemExit:
        signal.setitimer(signal.ITIMER_REAL, 0)  # of exit_on_signals
        raise
    except KeyboardInterrupt:
        events.emit("error", "interrupted", exit_code=EXIT_INTERRUPTED)
        return EXIT_INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _has_lost_reader():
            return EXIT_OK  # as in `| head`
        known = as_qfleet_error(error)
        if known is None:
            return _report_bug(error)
        text = one_line(known)
        events.emit("error", text, exit_code=known.exit_code)
        write_termination_message(text)
        return known.exit_code


def _has_lost_reader() -> bool:
    """Return True if no process reads this one's output any more."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or not a file
            poll.register(stream.fileno(), 0)
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0))


def _report_bug(error: Exception) -> int:
    logging.getLogger("qfleet").debug("a bug", exc_info=True)
    traceback.print_exc()
    text = f"a bug: {error!r}"
    if events.is_streaming():
        events.emit("error", text, exit_code=EXIT_BUG)
    write_termination_message(text)
    return EXIT_BUG


def exit_on_signals() -> None:
    """Turn SIGTERM and SIGHUP into SystemExit, so that `finally` ends child processes.

    A second signal does not interrupt what runs in `finally` because of the first one. Python
    ignores an exception in a destructor or a callback, so SystemExit is raised again every second
    until it is handled. `run_main` ends this.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_with_signal)


def _exit_with_signal(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGALRM, lambda *_: _raise_exit(number))
    signal.setitimer(signal.ITIMER_REAL, EXIT_REPEAT_SECONDS, EXIT_REPEAT_SECONDS)
    _raise_exit(number)


def _raise_exit(number: int) -> None:
    """Raise SystemExit, unless it is being handled."""
    handled = sys.exception()
    while handled is not None:
        if isinstance(handled, SystemExit):
            return
        handled = handled.__context__
    events.interrupt(lambda: sys.exit(128 + number))


def write_termination_message(text: str) -> None:
    """Write the message into the pod's status, if this is a pod; it replaces an earlier one."""
    if TERMINATION_LOG.is_file():
        # The pod's log has the same text, so a failure here is harmless.
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(text[:MAX_TERMINATION_MESSAGE], encoding="utf-8")
