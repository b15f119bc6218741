"""Light cones of Pauli strings: the blocks that each of them depends on, in a canonical form.

Two strings whose cones have the same canonical form differ in the values of symbols only.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.circuit.observables import PauliTerm
from qfleet.compiler.network.network_blocks import diagonal_legs
from qfleet.compiler.state.kernel_fusion import nonzero_entries

Shape = tuple[tuple[bytes, bytes, tuple[sympy.Expr | None, ...]], ...]
_Priority = tuple[int, int, int, list[int], int]  # the least first; ends with the number


@dataclass(frozen=True)
class Cone:
    """The blocks that a Pauli string depends on.

    Attributes:
        blocks: First applied first. Their qubits are 0, 1, ... in canonical order.
        string: Paulis by qubit.
        qubits: Number of qubits.
        expressions: Distinct exponents that differ between strings or examples, in order.
        signature: Equal for cones that differ in `expressions` only.
    """

    blocks: tuple[FusedBlock, ...]
    string: PauliTerm
    qubits: int
    expressions: tuple[sympy.Expr, ...]
    signature: tuple[object, ...]


@dataclass
class _Group:
    """Blocks on a qubit that commute with each other as far as this qubit is concerned.

    These are consecutive blocks that are diagonal in it, such as CZ gates, or a single block.
    """

    is_diagonal: bool
    numbers: list[int] = field(default_factory=list)


class ConeFinder:
    """Finds the cones of strings in one circuit.

    A block is in a string's cone unless it commutes with the string and all later blocks in it:
    then it cancels. So the cone in a cluster state has two neighbours and not all qubits.

    Args:
        blocks: In circuit order.
        inputs: Names of the data symbols.
        free_parameters: Count exponents of trained symbols among those that differ.
    """

    def __init__(
        self, blocks: Sequence[FusedBlock], inputs: frozenset[str], *, free_parameters: bool
    ) -> None:
        self._blocks = blocks
        self._free = free_parameters
        self._inputs = inputs
        self._groups: dict[int, list[_Group]] = {}  # by qubit, in circuit order
        self._before: list[list[int]] = []  # the blocks that each block must come after
        legs: dict[int, list[int]] = {}  # equal blocks share their tuple of factors
        for number, block in enumerate(blocks):
            if id(block.factors) not in legs:
                legs[id(block.factors)] = diagonal_legs(nonzero_entries(block))
            diagonal = {block.qubits[at] for at in legs[id(block.factors)]}
            before: set[int] = set()
            for qubit in block.qubits:
                before.update(self._append(qubit, number, is_diagonal=qubit in diagonal))
            self._before.append(sorted(before))
        self._shapes: dict[Shape, int] = {}
        shapes = {id(block.factors): self._shape(block) for block in blocks}
        self._shape_of = [shapes[id(block.factors)] for block in blocks]

    def cone(self, string: PauliTerm) -> Cone:
        """Return the cone of a string of positions."""
        label: dict[int, int] = {}
        for position in sorted(string):
            label[position] = len(label)
        order = self._canonical_order(string, label)
        places: list[tuple[int, ...]] = []
        slots: dict[sympy.Expr, int] = {}
        used: list[int] = []
        for number in order:
            places.append(tuple(label[qubit] for qubit in self._blocks[number].qubits))
            for expression in self._shape_of[number][1]:
                used.append(slots.setdefault(expression, len(slots)))
        paulis = {label[position]: pauli for position, pauli in string.items()}
        signature = (
            tuple(places),
            tuple(self._shape_of[number][0] for number in order),
            tuple(used),
            tuple(sorted(paulis.items())),
        )
        blocks = tuple(
            FusedBlock(where, self._blocks[number].factors)
            for number, where in zip(order, places, strict=True)
        )
        return Cone(blocks, paulis, len(label), tuple(slots), signature)

    def _append(self, qubit: int, number: int, *, is_diagonal: bool) -> Sequence[int]:
        """Append a block to those on a qubit; return the blocks that it does not commute with."""
        groups = self._groups.setdefault(qubit, [])
        if not (is_diagonal and groups and groups[-1].is_diagonal):
            groups.append(_Group(is_diagonal))
        groups[-1].numbers.append(number)
        return groups[-2].numbers if len(groups) > 1 else ()

    def _last(self, string: PauliTerm) -> set[int]:
        """Return the last blocks that a string does not commute with."""
        last: set[int] = set()
        for qubit, pauli in string.items():
            groups = self._groups.get(qubit, [])
            skipped = 1 if pauli == "Z" and groups and groups[-1].is_diagonal else 0
            if len(groups) > skipped:
                last.update(groups[-1 - skipped].numbers)
        return last

    def _canonical_order(self, string: PauliTerm, label: dict[int, int]) -> list[int]:
        """Return the blocks of a cone in circuit order, and label their qubits.

        From the string backwards, the block with the least distance from it comes first, of these
        the one on the qubit with the least label, and of these the one of the least shape.
        """
        later = self._successors(string)
        distance = dict.fromkeys(later, 0)
        heap: list[_Priority] = []
        for number in self._last(string):
            if later[number] == 0:
                heapq.heappush(heap, self._priority(number, 0, label))
        order = []
        while heap:
            depth, *_, number = heapq.heappop(heap)
            order.append(number)
            for qubit in self._blocks[number].qubits:
                label.setdefault(qubit, len(label))
            for before in self._before[number]:
                distance[before] = max(distance[before], depth + 1)
                later[before] -= 1
                if later[before] == 0:
                    heapq.heappush(heap, self._priority(before, distance[before], label))
        return order[::-1]

    def _priority(self, number: int, depth: int, label: Mapping[int, int]) -> _Priority:
        labels = [label.get(qubit, len(label)) for qubit in self._blocks[number].qubits]
        return depth, min(labels), self._shape_of[number][0], labels, number

    def _successors(self, string: PauliTerm) -> dict[int, int]:
        """Return the number of blocks directly after each block of a cone."""
        later = dict.fromkeys(self._last(string), 0)
        waiting = list(later)
        while waiting:
            for before in self._before[waiting.pop()]:
                if before not in later:
                    later[before] = 0
                    waiting.append(before)
                later[before] += 1
        return later

    def _shape(self, block: FusedBlock) -> tuple[int, tuple[sympy.Expr, ...]]:
        """Return a number for a block's matrices, and the exponents that differ."""
        shape, differing = [], []
        for factor in block.factors:
            marks: list[sympy.Expr | None] = []
            for expression in factor.exponents:
                differs = self._free or bool(expressions.symbol_names(expression) & self._inputs)
                marks.append(None if differs else expression)
                if differs:
                    differing.append(expression)
            shape.append((factor.half_turns.tobytes(), factor.projectors.tobytes(), tuple(marks)))
        return self._shapes.setdefault(tuple(shape), len(self._shapes)), tuple(differing)
