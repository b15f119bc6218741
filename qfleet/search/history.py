"""The file of a history: a line that names the search, and a line of JSON per result."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

import cirq

from qfleet.errors import ArgumentError, LibraryError
from qfleet.search.data_task import DataTask
from qfleet.search.methods import SearchMethod
from qfleet.search.records import Result, complete
from qfleet.search.space import Space
from qfleet.search.training import Training


def identity_of(
    problem: cirq.PauliSum | DataTask,
    space: Space,
    method: SearchMethod,
    seed: int,
    training: Training,
    exact: float | None,
) -> str:
    """Return the first line of a file: what a history belongs to.

    Args:
        problem: The energy, or the data.
        space: The space.
        method: The method, with its options.
        seed: Seed of all random numbers.
        training: How candidates are trained.
        exact: The reference of errors.
    """
    settings = {
        name: repr(value)
        for name, value in sorted(vars(method).items())
        if name not in ("invalid", "generations")
    }
    if isinstance(problem, DataTask):
        words = [problem.digest]
    else:
        words = sorted(f"{one / one.coefficient} {complex(one.coefficient):.9g}" for one in problem)
    content = [
        words,
        [str(one.operations) + one.feature for one in space.gates],
        [str(one) for one in space.start],
        space.ordered,
        type(method).__name__,
        settings,
        [training.name, training.evaluations, training.tolerance, training.starts],
        None if exact is None else round(exact, 6),
        *([training.reduction] if training.reduction > 1 else []),
    ]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({"search": digest, "method": method.name, "seed": seed})


class History:
    """The results of a file, and the file to append to. A context.

    A file that exists is replaced by a copy of its complete generations. A process that wrote it
    before, and was stopped meanwhile, appends to the old one only, and finds that it was replaced.

    Args:
        file: Its path; None for none.
        identity: Its first line.

    Attributes:
        found: The results of the file.

    Raises:
        ArgumentError: The file can't be read or written, or is of another search.
    """

    def __init__(self, file: str | Path | None, identity: str) -> None:
        self._path = None if file is None else Path(os.path.realpath(file))
        self._shown = f"file {str(file)!r:.80}"
        self._identity = identity
        self._opened: IO[str] | None = None
        self.found: list[Result] = []
        if self._path is not None and self._path.exists():
            self.found = self._read(self._path)
            self._replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()

    def append(self, results: Sequence[Result]) -> None:
        """Write the results of a generation.

        Raises:
            ArgumentError: The file can't be written, or another search writes it.
        """
        if self._path is None:
            return
        try:
            if self._opened is None:
                self._opened = self._path.open("x", encoding="utf-8")
                self._opened.write(f"{self._identity}\n")
            self._opened.write(_lines(results))
            self._opened.flush()
            is_own = os.path.samestat(os.fstat(self._opened.fileno()), self._path.stat())
        except FileExistsError:
            is_own = False
        except OSError as error:
            raise self._unwritable(error) from None
        if not is_own:
            raise ArgumentError(
                f"{self._shown} is written by another search, which has taken it over: wait for it,"
                " or pass another file"
            )

    def _read(self, path: Path) -> list[Result]:
        """Return the results of a file without a generation that is not complete."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{self._shown} can't be read: {error!s:.80}") from None
        if len(lines) == 1 and self._identity.startswith(lines[0]):
            return []  # the process was killed while it made the file
        if lines[0] != self._identity:
            raise ArgumentError(
                f"{self._shown} has the history of another search: pass another file, or the same"
                " problem, space, method, options and seed"
            )
        results = []
        for line in lines[1:]:
            if line:
                try:
                    results.append(Result.from_json(line))
                except LibraryError:
                    if line is not lines[-1]:  # the last line may be cut off
                        raise
        return complete(results)

    def _replace(self, path: Path) -> None:
        copy = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._opened = copy.open("w", encoding="utf-8")
            self._opened.write(f"{self._identity}\n{_lines(self.found)}")
            self._opened.flush()
            copy.replace(path)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> ArgumentError:
        return ArgumentError(f"{self._shown} can't be written: {error.strerror}")


def _lines(results: Sequence[Result]) -> str:
    return "".join(f"{one.to_json()}\n" for one in results)
