"""Processes that train the parts of a generation side by side."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Self, cast, final

import numpy as np

from qfleet.errors import LibraryError
from qfleet.search.records import Candidate
from qfleet.search.training import Part, PartTrainer, Trained

STOPPED_SECONDS = 20.0
"""Time after which a process that a signal has stopped is killed."""

MAX_LOST = 3
"""Most processes that are lost in a generation, before the search ends with an error."""

_POLL_SECONDS = 1.0


@final
class Crew:
    """A trainer, and processes that have one like it. A context.

    Processes start with the first generation that has several parts, and end with the context or
    with this process. Each has as many threads as this one, since rounding depends on threads.
    Results do not depend on the number of processes. A part whose process was killed, or was
    stopped for STOPPED_SECONDS, is trained again in a new one.

    Args:
        make: Makes a trainer: a class or a function of a module.
        args: Its arguments, which are sent to the processes.
        workers: Most parts at a time; 1 for no processes.
    """

    def __init__(
        self, make: Callable[..., PartTrainer], args: tuple[Any, ...], workers: int
    ) -> None:
        self.trainer = make(*args)
        self._make, self._args, self._workers = make, args, workers
        self._processes: dict[Connection, BaseProcess] = {}
        self._stopped: dict[Connection, float] = {}  # seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in [*self._processes]:
            self._end(connection)

    def train(self, candidates: Sequence[Candidate], random: np.random.Generator) -> list[Trained]:
        """Train a generation.

        Args:
            candidates: The candidates.
            random: Source of the angles of further starts.

        Raises:
            LibraryError: As the trainer; or more than MAX_LOST processes were lost.
        """
        parts = self.trainer.parts(candidates, random)
        if min(self._workers, len(parts)) > 1:
            results = self._train_in_processes(parts)
        else:
            results = [self.trainer.train_part(part) for part in parts]
        found: dict[int, Trained] = {}
        for part, trained in zip(parts, results, strict=True):
            found |= dict(zip(part.members, trained, strict=True))
        return [found[at] for at in range(len(candidates))]

    def _train_in_processes(self, parts: Sequence[Part]) -> list[list[Trained]]:
        most, lost = min(self._workers, len(parts)), 0
        waiting, idle = list(range(len(parts))), list(self._processes)
        busy: dict[Connection, int] = {}
        found: dict[int, list[Trained]] = {}
        checked = time.monotonic()
        while len(found) < len(parts):
            while waiting and (idle or len(busy) < most):
                connection = idle.pop() if idle else self._start()
                busy[connection] = waiting.pop(0)
                with contextlib.suppress(OSError):  # has ended, which is found below
                    connection.send(parts[busy[connection]])
            for ready in cast(list[Connection], wait(list(busy), _POLL_SECONDS)):
                number = busy.pop(ready)
                result = _result(ready)
                if result is not None:
                    found[number] = result
                    idle.append(ready)
                    continue
                self._end(ready)
                waiting.insert(0, number)
                lost += 1
                if lost > MAX_LOST:
                    raise LibraryError(
                        f"{lost} processes that trained candidates were killed: start the same"
                        " search again, which continues the history of its file, or with fewer"
                        " workers if memory was short"
                    )
            now = time.monotonic()
            self._kill_stopped(busy, min(now - checked, _POLL_SECONDS))  # this one may be stopped
            checked = now
        return [found[number] for number in range(len(parts))]

    def _kill_stopped(self, busy: Iterable[Connection], passed: float) -> None:
        """Kill processes that have been stopped for too long, some seconds after the last time."""
        for one in busy:
            process = self._processes[one]
            stopped = self._stopped.get(one, 0.0) + passed if _is_stopped(process) else 0.0
            self._stopped[one] = stopped
            if stopped > STOPPED_SECONDS:
                process.kill()

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")  # a fork would have dead engine threads
        here, there = context.Pipe()
        process = context.Process(
            target=_work,
            args=(there, self._make, self._args),
            daemon=True,
            name="qfleet-search",
        )
        process.start()
        there.close()
        self._processes[here] = process
        return here

    def _end(self, connection: Connection) -> None:
        process = self._processes.pop(connection)
        self._stopped.pop(connection, None)
        process.kill()  # a stopped process does not receive SIGTERM
        process.join()
        connection.close()


def _result(connection: Connection) -> list[Trained] | None:
    """Return what a process sent; None if it has ended."""
    try:
        found = connection.recv()
    except (EOFError, OSError):
        return None
    if isinstance(found, LibraryError):
        raise found
    return cast(list[Trained], found)


def _is_stopped(process: BaseProcess) -> bool:
    """Return if a signal has stopped a child; False where the system does not report it."""
    pid = process.pid
    if pid is None or not hasattr(os, "waitid"):
        return False
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _work(connection: Connection, make: Callable[..., PartTrainer], args: tuple[Any, ...]) -> None:
    """Train parts until the other process closes the connection or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    trainer = make(*args)
    with contextlib.suppress(EOFError, OSError):
        while True:
            part: Part = connection.recv()
            try:
                connection.send(trainer.train_part(part))
            except LibraryError as error:
                connection.send(error)
