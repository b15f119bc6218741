"""CPUs, environment, ports and exit codes of processes."""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def usable_cpus() -> list[int]:
    """Return the numbers of the CPUs that this thread may run on (all, where that is unknown)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cpu_count() -> int:
    """Return the number of CPUs that this thread may run on."""
    return len(usable_cpus())


def cpu_sets(workers: int, cpus_per_worker: int = 0) -> list[list[int]]:
    """Return CPUs for the workers on this machine, which share CPUs only if there are too few.

    Args:
        workers: Number of workers.
        cpus_per_worker: CPUs of each worker; 0 divides all CPUs among the workers.
    """
    cpus = usable_cpus()
    count = min(cpus_per_worker or max(1, len(cpus) // workers), len(cpus))
    return [[cpus[(rank * count + i) % len(cpus)] for i in range(count)] for rank in range(workers)]


@contextlib.contextmanager
def pinned(cpus: Sequence[int]) -> Iterator[None]:
    """Pin this thread, and what it starts meanwhile, to CPUs.

    Args:
        cpus: CPU numbers; nothing is pinned where there are none, or where the system can't.
    """
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def clean_environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without settings (QFLEET_*), other workers and events.

    A child gets its settings as arguments.

    Args:
        extra: Variables to add.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("QFLEET_") and name not in ("TF_CONFIG", "WORKER_ADDRESSES")
    }
    return {**kept, **extra}


def exit_code(returncode: int) -> int:
    """Convert a return code of `subprocess` to an exit code: 128 + n where signal n ended it."""
    return 128 - returncode if returncode < 0 else returncode


def describe_exit(returncode: int, detail: str = "") -> str:
    """Describe how a process ended.

    Args:
        returncode: Of `subprocess`: negative where a signal ended it.
        detail: Put in parentheses after an exit code that is not 0.

    Returns:
        For example "killed by SIGKILL" or "exit code 2 (BATCH=0 is not allowed)".
    """
    if returncode < 0:
        try:
            return f"killed by {signal.Signals(-returncode).name}"
        except ValueError:  # a real-time signal
            return f"killed by signal {-returncode}"
    return f"exit code {returncode}" + (f" ({detail})" if returncode and detail else "")


@contextlib.contextmanager
def free_ports(count: int, host: str = "127.0.0.1") -> Iterator[list[int]]:
    """Choose TCP ports that no process uses, and hold them until the context ends.

    The system gives a held port to no other process. A server that reuses addresses, as those of
    Python, gRPC and Go do, may listen on it meanwhile. Only Linux allows that: on other systems the
    ports are not held.

    Args:
        count: How many different ports.
        host: The address that they are free on.
    """
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            holder = held.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((host, 0))
            ports.append(int(holder.getsockname()[1]))
        if sys.platform != "linux":
            held.close()
        yield ports


def find_child(
    pid: int, matches: Callable[[Mapping[str, str]], bool], *, recursive: bool = False
) -> "psutil.Process | None":
    """Find a living child of a process by its environment; None where there is none.

    Args:
        pid: The parent.
        matches: Called with a child's environment; a KeyError or ValueError means no match.
        recursive: Search children of children too.
    """
    import psutil

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=recursive):
            with contextlib.suppress(KeyError, ValueError, psutil.Error):
                if matches(child.environ()):
                    return child
    return None


def descendant_killers(pid: int) -> list[Callable[[], None]]:
    """Return functions that kill what a process started, also in other sessions."""
    try:
        import psutil
    except ImportError:  # the cluster client's environment has none, and starts no such trees
        return []
    with contextlib.suppress(psutil.Error):
        return [_killer(child) for child in psutil.Process(pid).children(recursive=True)]
    return []


def _killer(process: "psutil.Process") -> Callable[[], None]:
    import psutil

    def kill() -> None:
        with contextlib.suppress(psutil.Error):
            process.kill()

    return kill
