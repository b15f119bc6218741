"""Processes that train the parts of a generation side by side."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Self, cast, final

import numpy as np

from qfleet.errors import LibraryError
from qfleet.search.records import Candidate
from qfleet.search.training import Part, PartTrainer, Trained


@final
class Crew:
    """A trainer, and processes that have one like it. A context.

    Processes start with the first generation that has several parts, and end with the context or
    with this process. Each has as many threads as this one, since rounding depends on threads.
    Results do not depend on the number of processes.

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
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._connections: list[Connection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
            process.join()

    def train(self, candidates: Sequence[Candidate], random: np.random.Generator) -> list[Trained]:
        """Train a generation.

        Args:
            candidates: The candidates.
            random: Source of the angles of further starts.

        Raises:
            LibraryError: As the trainer; or a process was killed.
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
        while len(self._processes) < min(self._workers, len(parts)):
            self._start()
        waiting, idle = list(range(len(parts))), list(self._connections)
        busy: dict[Connection, int] = {}
        found: dict[int, list[Trained]] = {}
        while len(found) < len(parts):
            while waiting and idle:
                number, connection = waiting.pop(0), idle.pop()
                with _expecting_process():
                    connection.send(parts[number])
                busy[connection] = number
            for ready in cast(list[Connection], wait(list(busy))):
                found[busy.pop(ready)] = _result(ready)
                idle.append(ready)
        return [found[number] for number in range(len(parts))]

    def _start(self) -> None:
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
        self._processes.append(process)
        self._connections.append(here)


def _result(connection: Connection) -> list[Trained]:
    with _expecting_process():
        found = connection.recv()
    if isinstance(found, LibraryError):
        raise found
    return cast(list[Trained], found)


@contextlib.contextmanager
def _expecting_process() -> Iterator[None]:
    """Name a process that has ended as the cause."""
    try:
        yield
    except (EOFError, OSError):
        raise LibraryError(
            "a process that trained candidates was killed: start the same search again, which"
            " continues the history of its file, or with fewer workers if memory was short"
        ) from None


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
