"""Several child processes as one, and the signals that stop their supervisor."""

import queue
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Literal, Self

from common.events import Event
from common.processes.managed import ManagedProcess, Output


class ProcessGroup:
    """Several child processes whose events come as one stream. As a context, all are stopped.

    Args:
        grace_seconds: Time for all of them to end after SIGTERM when the context ends.

    Attributes:
        processes: Those started, in that order; the caller may remove or replace some.
    """

    def __init__(self, grace_seconds: float = 10.0) -> None:
        self.processes: list[ManagedProcess] = []
        self._grace_seconds = grace_seconds
        self._inbox: queue.SimpleQueue[tuple[ManagedProcess, Event]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all(self._grace_seconds)

    def start(
        self,
        command: Sequence[str],
        *,
        name: str = "",
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        cpus: Sequence[int] = (),
        stdin: bool = False,
        stdout: Output = "inherit",
        stderr: Output | Literal["stdout"] = "inherit",
        emits: bool = True,
    ) -> ManagedProcess:
        """Start a process of the group; the arguments are those of `ManagedProcess`."""
        process = ManagedProcess(
            command, name=name, cwd=cwd, env=env, cpus=cpus, stdin=stdin, stdout=stdout,
            stderr=stderr, emits=emits, inbox=self._inbox,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def next_event(self, timeout_seconds: float) -> tuple[ManagedProcess, Event] | None:
        """Wait for the next event of any process; None where there was none in time."""
        try:
            return self._inbox.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None

    def terminate(self) -> None:
        """Send SIGTERM to all."""
        for process in self.processes:
            process.terminate()

    def stop_all(self, grace_seconds: float) -> None:
        """Send SIGTERM to all, and SIGKILL to those left after one grace time for all."""
        self.terminate()
        deadline = time.monotonic() + grace_seconds
        for process in self.processes:
            process.wait_or_kill(deadline - time.monotonic())


class StopSignals:
    """Records SIGINT, SIGTERM and SIGHUP while its context lasts, in place of ending the process.

    For a supervisor that stops its children itself. Use it in the main thread.

    Attributes:
        received: The number of the last such signal; None while none came.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, signal.Handlers | int | Callable[..., object] | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that stopped because of it."""
        return None if self.received is None else 128 + self.received

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
