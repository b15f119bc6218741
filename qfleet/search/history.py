"""The file of a history: a line that names the search, and a line of JSON per result."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

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


def resumed(file: str | Path | None, identity: str) -> list[Result]:
    """Return the results of a file, and drop a generation that is not complete.

    Args:
        file: Its path; None for none.
        identity: Its first line.

    Raises:
        ArgumentError: The file can't be read, or is of another search.
    """
    if file is None or not Path(file).exists():
        return []
    try:
        lines = Path(file).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"file {str(file)!r:.80} can't be read: {error!s:.80}") from None
    if len(lines) == 1 and identity.startswith(lines[0]):
        return []  # the process was killed while it made the file
    if lines[0] != identity:
        raise ArgumentError(
            f"file {str(file)!r:.80} has the history of another search: pass another file, or the"
            " same problem, space, method, options and seed"
        )
    results = []
    for line in lines[1:]:
        if line:
            try:
                results.append(Result.from_json(line))
            except LibraryError:
                if line is not lines[-1]:  # the last line may be cut off
                    raise
    kept = complete(results)
    if len(kept) < len(results) or lines[-1]:
        text = "".join(f"{one.to_json()}\n" for one in kept)
        Path(file).write_text(f"{identity}\n{text}", encoding="utf-8")
    return kept


def append(
    file: str | Path | None, identity: str, results: Sequence[Result], *, first: bool
) -> None:
    """Write the results of a generation.

    Args:
        file: The path of the file; None for none.
        identity: Its first line.
        results: The results.
        first: If they are the first, so that the file is a new one.

    Raises:
        ArgumentError: The file can't be written.
    """
    if file is None:
        return
    text = "".join(f"{one.to_json()}\n" for one in results)
    try:
        with open(file, "w" if first else "a", encoding="utf-8") as opened:
            opened.write(f"{identity}\n{text}" if first else text)
    except OSError as error:
        raise ArgumentError(f"file {str(file)!r:.80} can't be written: {error.strerror}") from None
