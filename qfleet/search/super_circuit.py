"""Many candidates as one batch of one compiled program: gates that are on or off."""

from collections.abc import Callable, Sequence
from typing import final

import cirq
import numpy as np
import sympy

from qfleet.compiler.choose_method import compile_circuit_by
from qfleet.engine.arguments import checked_observables
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.search.space import SpaceGate

Readouts = tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]
"""Values, and a function that returns gradients by angles for upstream gradients."""

_NOT_ABSENT = 1e-100
"""The angle 0 of a gate that is on, whose gradient is wanted, in the unit of the angles."""


@final
class SuperCircuit:
    """A circuit of gates, each of which a candidate has or lacks, with angles of its own.

    A gate that is off has the angles 0, and its operations without an angle have the exponent 0:
    it is the identity. A block of gates that are off for all candidates of a tile costs nothing:
    neighbouring rows fill the lanes of a vector.

    Args:
        gates: The G gates, first applied first.
        observable: The observables that are read; `value_and_gradient` takes one.
        qubits: All qubits, in order.
        start: Operations before the gates.
        initial_states: True for a state per candidate in the place of `start`, which calls take.

    Attributes:
        gates: The same.
        angles: A, the number of angles of all gates.
        first: [G + 1] int64: the columns of gate g are from first[g] to first[g + 1].

    Raises:
        CircuitError: A gate is not supported; the message names it.
        MemoryLimitError: A state does not fit into the free memory.
    """

    def __init__(
        self,
        gates: Sequence[SpaceGate],
        observable: cirq.PauliSum | Sequence[cirq.PauliSum],
        qubits: Sequence[cirq.Qid],
        start: Sequence[cirq.Operation] = (),
        *,
        initial_states: bool = False,
    ) -> None:
        self.gates = tuple(gates)
        self.first = np.cumsum([0, *(len(gate.angles) for gate in gates)])
        self.angles = int(self.first[-1])
        names = [f"angle_{column}" for column in range(self.angles)]
        operations = [cirq.I(qubit) for qubit in qubits] + list(start)
        switches = []
        for slot, gate in enumerate(gates):
            switch = sympy.Symbol(f"switch_{slot}")
            own = sympy.symbols(names[self.first[slot] : self.first[slot + 1]])
            operations += gate.switchable(own, switch)
            if gate.switched:
                switches.append(slot)
        self._switches = np.array(switches, np.int64)
        self._owner = np.repeat(np.arange(len(gates)), np.diff(self.first))
        used = [f"switch_{slot}" for slot in switches]
        program = compile_circuit_by(
            "auto" if initial_states else "state_vector",
            cirq.Circuit(operations),
            [*names, *used],
            (),
            checked_observables(observable),
            takes_states=initial_states,
        )
        self._compiled = CompiledCircuit(program, zeros_are_absent=True)

    def value_and_gradient(
        self,
        masks: np.ndarray,
        angles: np.ndarray,
        initial_states: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute values and gradients of all candidates in one call.

        Args:
            masks: [C, G] bool, the gates of each candidate.
            angles: [C, A] angles; those of gates that are off do not count.
            initial_states: [C, 2**N] states of norm 1, if the circuit takes them.

        Returns:
            The values [C], and their gradients by the angles [C, A], 0 for gates that are off.
        """
        owned = self.owned(masks)
        inputs = self._inputs(masks, owned, angles)
        values, gradients = self._compiled.value_and_gradient(inputs, initial_states=initial_states)
        assert gradients.inputs is not None
        return values[:, 0], np.where(owned, gradients.inputs[:, : self.angles], 0.0)

    def readouts(self, masks: np.ndarray, angles: np.ndarray) -> Readouts:
        """Compute the values of all observables, and a function for gradients.

        Args:
            masks: [B, G] bool, the gates of each row.
            angles: [B, A] angles; those of gates that are off do not count.

        Returns:
            The values [B, K], and a function of upstream gradients [B, K] that returns those by the
            angles [B, A], of gates that are on.
        """
        inputs = self._inputs(masks, self.owned(masks), angles)
        values, residuals = self._compiled.forward(inputs)

        def gradient(upstream: np.ndarray) -> np.ndarray:
            found = self._compiled.vjp(
                inputs, None, upstream, residuals=residuals, overwrite_residuals=True
            )
            assert found.inputs is not None
            return found.inputs[:, : self.angles]

        return np.asarray(values), gradient

    def _inputs(self, masks: np.ndarray, owned: np.ndarray, angles: np.ndarray) -> np.ndarray:
        """Return angles and switches: 0 for gates that are off, and for no others."""
        on = np.where(angles == 0, _NOT_ABSENT, angles)
        return np.concatenate([np.where(owned, on, 0.0), masks[:, self._switches]], axis=1)

    def owned(self, masks: np.ndarray) -> np.ndarray:
        """Return the columns [C, A] bool of the angles of the gates of masks [C, G]."""
        found: np.ndarray = masks[:, self._owner]
        return found

    def masks(self, gates: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the masks [C, G] bool of the numbers of the gates of C candidates."""
        found = np.zeros((len(gates), len(self.gates)), bool)
        for row, own in enumerate(gates):
            found[row, list(own)] = True
        return found

    def columns(self, slots: Sequence[int]) -> np.ndarray:
        """Return the columns of the angles of some gates, in order."""
        parts = [np.arange(self.first[slot], self.first[slot + 1]) for slot in slots]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def __repr__(self) -> str:
        return f"<SuperCircuit of {len(self.gates)} gates with {self.angles} angles>"


def supersequence(longer: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return a shortest sequence that has both as subsequences."""
    rows, columns = len(longer), len(other)
    common = [[0] * (columns + 1) for _ in range(rows + 1)]  # length of the rest that both have
    for i in range(rows - 1, -1, -1):
        row, below = common[i], common[i + 1]
        for j in range(columns - 1, -1, -1):
            equal = longer[i] == other[j]
            row[j] = below[j + 1] + 1 if equal else max(below[j], row[j + 1])
    found: list[int] = []
    i = j = 0
    while i < rows and j < columns:
        if longer[i] == other[j]:
            found.append(longer[i])
            i, j = i + 1, j + 1
        elif common[i + 1][j] >= common[i][j + 1]:
            found.append(longer[i])
            i += 1
        else:
            found.append(other[j])
            j += 1
    return [*found, *longer[i:], *other[j:]]


def places(sequence: Sequence[int], whole: Sequence[int]) -> list[int] | None:
    """Return the first places of a sequence as a part of another, or None if it is not one."""
    found: list[int] = []
    at = 0
    for one in sequence:
        while at < len(whole) and whole[at] != one:
            at += 1
        if at == len(whole):
            return None
        found.append(at)
        at += 1
    return found


def side_by_side(masks: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers of masks in an order in which neighbours have mostly the same gates.

    Each is followed by the nearest of those that are left, so that tiles lack many gates.

    Args:
        masks: The gates of each, at least one.
    """
    width = 1 + max(max(one, default=0) for one in masks)
    rows = np.zeros((len(masks), width))
    for row, one in enumerate(masks):
        rows[row, list(one)] = 1.0
    common = rows @ rows.T
    sizes = common.diagonal()
    distances = sizes[:, np.newaxis] + sizes - 2 * common
    found = [int(sizes.argmin())]
    distances[:, found[0]] = np.inf
    while len(found) < len(masks):
        found.append(int(distances[found[-1]].argmin()))
        distances[:, found[-1]] = np.inf
    return found
