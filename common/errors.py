"""Every error a person can meet, and the exit code that it ends the process with.

    QfleetError
    ├── UserError                2    the person must change something
    │   ├── SettingsError             a setting: its name, its value, what is allowed
    │   ├── DataError                 a data set: which file, column or row
    │   ├── CircuitError              a circuit: which gate, moment and qubits
    │   ├── WeightsError              weights or a checkpoint that do not fit or were altered
    │   ├── StorageError              no such bucket, permission denied, disk full
    │   ├── RunError                  a run that is taken, missing, or made with other settings
    │   └── ClusterError              a Kubernetes that refuses, is away, or can't place the job
    └── RetryableError          >=128  nothing is wrong with the job: start it again
        ├── PeerLost            138   a worker of the gang went away
        ├── Preempted           143   SIGTERM: the machine is wanted back (128 + 15)
        ├── RendezvousTimeout   144   the gang was not complete at the deadline
        ├── StorageUnavailable  145   storage does not answer
        └── DeadlineReached     146   DEADLINE seconds have passed

Anything else is a bug and leaves with 1 and a traceback. The Kubeflow operator restarts a pod
whose code is 128 or more and fails the job for good on 1 to 127, which is why the codes are these.

The text of every error is one sentence: what, where, what is allowed, what to do next.
"""

import contextlib
import gc
import logging
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from common import events

EXIT_OK = 0
EXIT_BUG = 1

TERMINATION_LOG = Path("/dev/termination-log")
"""In a pod, the file whose content Kubernetes keeps in the pod's status."""

# Importing TensorFlow and Cirq makes objects that stay; by default (after 700 new ones) they are
# looked through again and again for garbage, which is a sixth of a program's start.
GC_THRESHOLD = 10_000


class QfleetError(Exception):
    """An error that a person or an operator can act on. Abstract: raise one of its leaves."""

    exit_code: int


class UserError(QfleetError):
    """The person must change something; starting again would end the same way."""

    exit_code = 2


class SettingsError(UserError):
    """A setting is unknown, of the wrong type or out of bounds."""


class DataError(UserError):
    """A data set can't be read, or holds what training can't use."""


class CircuitError(UserError):
    """A circuit holds what the simulator can't take."""


class WeightsError(UserError):
    """Weights or a checkpoint are missing, altered, or belong to another model."""


class StorageError(UserError):
    """Storage refuses: no such bucket, permission denied, disk full."""


class RunError(UserError):
    """The run that was named can't be used in this way."""


class ClusterError(UserError):
    """The cluster refuses, does not answer, or can't run the job as it was asked for."""


class RetryableError(QfleetError):
    """Nothing is wrong with the job; the same command started again goes on."""

    exit_code = 128


class PeerLost(RetryableError):
    """A worker of this gang went away in mid-step, so the gang restarts as a whole."""

    exit_code = 138


class Preempted(RetryableError):
    """SIGTERM: the machine is wanted back."""

    exit_code = 143


class RendezvousTimeout(RetryableError):
    """Not every worker came to the start gate in time."""

    exit_code = 144


class StorageUnavailable(RetryableError):
    """Storage does not answer, or answers that it is busy, after retries."""

    exit_code = 145


class DeadlineReached(RetryableError):
    """DEADLINE seconds have passed; a checkpoint was left."""

    exit_code = 146


def one_line(error: BaseException) -> str:
    """The error's text without line breaks, for a terminal, a log line or a termination message."""
    return " ".join(str(error).split())


def run_main(main: Callable[[], int | None]) -> int:
    """Call a program's main function and turn how it ended into an exit code.

    A QfleetError is printed as one line on stderr; any other exception is a bug and keeps its
    traceback. In a pod that line is its termination message, too.

    Args:
        main: The program. Its return value is the exit code; None is 0.

    Returns:
        The exit code for sys.exit.
    """
    events.start()
    gc.set_threshold(GC_THRESHOLD)
    try:
        return main() or EXIT_OK
    except QfleetError as error:
        events.emit("error", one_line(error), exit_code=error.exit_code)
        write_termination_message(one_line(error))
        return error.exit_code
    except KeyboardInterrupt:
        print("qfleet: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`); there is nobody left to tell.
        return EXIT_OK
    except Exception as error:
        logging.getLogger("qfleet").debug("a bug", exc_info=True)
        traceback.print_exc()
        write_termination_message(f"a bug: {error!r}")
        return EXIT_BUG


def exit_on_signals() -> None:
    """SIGTERM and SIGHUP end this process by way of `finally`, and with it what it has started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def write_termination_message(text: str) -> None:
    """Leave a sentence in the pod's status, where this is a pod; the newest one stays."""
    if TERMINATION_LOG.is_file():
        # The same stands in the pod's log, so a file that can't be written costs nothing.
        with contextlib.suppress(OSError):
            TERMINATION_LOG.write_text(text[:4000], encoding="utf-8")
