"""Results of a search: history, front, best result, circuits, a table."""

from dataclasses import dataclass, field, replace

import cirq
import sympy

from qfleet.circuits.circuit_json import from_json
from qfleet.errors import ArgumentError
from qfleet.search.external import resolved
from qfleet.search.methods import objective
from qfleet.search.pareto import pareto_front
from qfleet.search.records import Candidate, Result
from qfleet.search.space import Space, super_circuit_of

_MOST_ROWS = 40  # of a table


@dataclass(frozen=True)
class SearchResult:
    """The results of a search.

    Attributes:
        history: All results, in order.
        reference: The exact energy that errors refer to; None if it is not known.
        objectives: Names of the objectives of the front.
        space: The space.
        seconds: Time of this call.
        invalid: One sentence for each proposal that was refused.
    """

    history: tuple[Result, ...]
    reference: float | None
    objectives: tuple[str, ...]
    space: Space = field(repr=False)
    seconds: float
    invalid: tuple[str, ...] = ()

    @property
    def front(self) -> list[Result]:
        """The results that no other beats in all objectives, the smallest error first.

        Of equal ones, the one with the lowest energy or loss is kept.
        """
        every = sorted(self.history, key=lambda one: one.energy)
        points = [[objective(one, name) for name in self.objectives] for one in every]
        return [every[at] for at in pareto_front(points)] if points else []

    @property
    def best(self) -> Result:
        """The result with the lowest energy; of equal ones, that with the fewest CNOTs.

        Raises:
            ArgumentError: Nothing was evaluated.
        """
        if not self.history:
            raise ArgumentError("the search has no results: raise its budget")
        return min(self.history, key=lambda one: (one.energy, one.two_qubit_gates))

    @property
    def evaluations(self) -> int:
        """Evaluations of an energy and its gradient, of all results."""
        return sum(one.evaluations for one in self.history)

    def circuit(self, result: Result | Candidate) -> cirq.Circuit:
        """Return the circuit of a result or a candidate, with its angles."""
        candidate = result.candidate if isinstance(result, Result) else result
        return circuit_of(self.space, candidate)

    def free_circuit(self, result: Result | Candidate) -> tuple[cirq.Circuit, dict[str, float]]:
        """Return a circuit with a symbol for each angle, and the trained values by name.

        Args:
            result: A result or a candidate.
        """
        one = result.candidate if isinstance(result, Result) else result
        if one.circuit:
            names = [f"a{at}" for at in range(len(one.angles))]
            circuit = from_json(one.circuit)
        else:
            names = [f"angle_{at}" for at in range(len(one.angles))]
            circuit = self.space.circuit(one.gates, sympy.symbols(names))
        used = cirq.parameter_names(circuit)
        values = dict(zip(names, one.angles, strict=True))
        return circuit, {name: value for name, value in values.items() if name in used}

    def super_circuit(
        self, result: Result | Candidate, rotations: str = ""
    ) -> tuple[Space, Candidate]:
        """Return the ordered space of the gates of a circuit, for `GatePruning`, and all of them.

        Args:
            result: A result or a candidate of the space.
            rotations: As for `super_circuit_of`.

        Raises:
            ArgumentError: The circuit was proposed by a program: use `super_circuit_of`.
        """
        one = result.candidate if isinstance(result, Result) else result
        if one.circuit:
            raise ArgumentError(
                "result is the circuit of a program: pass found.circuit(result) to super_circuit_of"
            )
        operations = self.space.operations(one.gates, one.angles)
        space, start = super_circuit_of(operations, self.space.start, rotations=rotations)
        return replace(space, qubits=self.space.qubits), start

    def table(self) -> str:
        """Return the front as a table of text."""
        names = ["error", "CNOTs", "depth", "angles", "fidelity", "generation"]
        rows = [
            [
                f"{one.error:.2e}",
                str(one.two_qubit_gates),
                str(one.depth),
                str(len(one.candidate.angles)),
                "" if one.fidelity is None else f"{one.fidelity:.3f}",
                str(one.generation),
            ]
            for one in self.front[:_MOST_ROWS]
        ]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        return "\n".join(
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in [names, *rows]
        )

    def __str__(self) -> str:
        return self.table()


def circuit_of(space: Space, candidate: Candidate) -> cirq.Circuit:
    """Return the circuit of a candidate, with its angles."""
    return resolved(candidate) or space.circuit(candidate.gates, candidate.angles)
