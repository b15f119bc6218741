"""Immutable records of a search: what is evaluated, and what was found; as lines of JSON."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from qfleet.errors import ArgumentError

_SHOWN_DIGITS = 12


@dataclass(frozen=True)
class Candidate:
    """A circuit of a space with first values of its angles.

    Attributes:
        gates: Numbers of its gates in the space, in order.
        angles: First values of all its angles, one gate after another.
        circuit: Cirq JSON of the circuit instead, if it is not one of the space; its symbols are
            a0, a1, ....
        origin: How it came about, such as "grow".
    """

    gates: tuple[int, ...]
    angles: tuple[float, ...]
    circuit: str = ""
    origin: str = ""

    @property
    def key(self) -> str:
        """A hash of its structure: equal for equal gates, whatever the angles."""
        content = self.circuit or " ".join(map(str, self.gates))
        return hashlib.sha256(content.encode()).hexdigest()[:_SHOWN_DIGITS]

    def trained(self, angles: Iterable[float]) -> "Candidate":
        """Return the candidate with other angles."""
        return replace(self, angles=tuple(map(float, angles)))


@dataclass(frozen=True)
class Result:
    """A candidate that was trained.

    Attributes:
        candidate: It, with its trained angles.
        energy: Its expectation value; of a task of data, the loss of the validation rows.
        error: Its energy minus the reference; the energy without a reference. Of data, the part
            of the validation rows that is classified wrong, or the mean squared error.
        two_qubit_gates: CNOTs of its circuit, as `circuit_cost` counts them.
        depth: CNOTs one after another, as `circuit_cost` counts them.
        fidelity: Predicted fidelity on the device; None without a calibration.
        evaluations: How often its energy and gradient were computed.
        generation: Number of its generation, from 0.
        size: Number of results of this generation.
        head: Of a task of data, the trained weights of the head; see `DataTask.outputs`.
        duration: Wall time of a run of its circuit on the device in nanoseconds; None without a
            calibration.
    """

    candidate: Candidate
    energy: float
    error: float
    two_qubit_gates: int
    depth: int
    fidelity: float | None
    evaluations: int
    generation: int
    size: int
    head: tuple[float, ...] = ()
    duration: float | None = None

    def to_json(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> "Result":
        """Return the result that `to_json` wrote.

        Raises:
            ArgumentError: The line is another one.
        """
        try:
            content: dict[str, Any] = json.loads(line)
            found = content.pop("candidate")
            candidate = Candidate(
                tuple(map(int, found["gates"])),
                tuple(map(float, found["angles"])),
                str(found["circuit"]),
                str(found["origin"]),
            )
            head = tuple(map(float, content.pop("head", ())))
            return cls(candidate, **content, head=head)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ArgumentError(
                f"the history has the line {line[:60]!r}, which no search wrote: pass another file"
            ) from None


def complete(results: Sequence[Result]) -> list[Result]:
    """Return the results of the generations that all results are there of."""
    counts: dict[int, int] = {}
    for one in results:
        counts[one.generation] = counts.get(one.generation, 0) + 1
    return [one for one in results if counts[one.generation] == one.size]
