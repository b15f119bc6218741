"""Gradients of all gates of a space after a candidate, by which circuits grow."""

from collections.abc import Sequence
from functools import cached_property
from typing import final

import cirq
import numpy as np

from qfleet.engine.batch_compiler import compile_batch
from qfleet.search.records import Candidate
from qfleet.search.space import Space, SpaceGate
from qfleet.search.super_circuit import SuperCircuit

_MOST_AMPLITUDES = 1 << 24  # of all rows of a call: 256 MiB
_GATES = 64  # of a program
_CHANGE = 1e-9  # of an energy, relative to it


@final
class Screen:
    """Gradients of each gate of a space, if it came after the gates of a candidate.

    Args:
        space: The space. Gates with equal operations are computed once.
        observable: The energy.
    """

    def __init__(self, space: Space, observable: cirq.PauliSum) -> None:
        self._space = space
        different = list({id(gate): gate for gate in space.gates}.values())
        number = {one: at for at, one in enumerate(dict.fromkeys(map(_content, different)))}
        gates = {number[_content(gate)]: gate for gate in reversed(different)}
        number_of = {id(gate): number[_content(gate)] for gate in different}
        self._number = np.array([number_of[id(gate)] for gate in space.gates])
        self._parts = [
            _Part(
                [gates[one] for one in range(at, min(at + _GATES, len(gates)))], space, observable
            )
            for at in range(0, len(gates), _GATES)
        ]

    def gradients(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Compute the norms of the gradients by the angles of each gate, which are 0.

        Args:
            candidates: C candidates of the space, whose angles count.

        Returns:
            [C, G]; 0 for gates without an angle.
        """
        circuits = [self._space.circuit(one.gates, one.angles) for one in candidates]
        states = compile_batch(circuits).state()
        found = [np.concatenate([part.norms(state) for part in self._parts]) for state in states]
        return np.stack(found)[:, self._number]

    def nothing_changes(self, random: np.random.Generator) -> bool:
        """Return True if no gate changes the energy of a random state: all commute with it.

        Args:
            random: Source of the state and of angles.
        """
        state = random.normal(size=(2, 1 << len(self._space.qubits)))
        state /= np.linalg.norm(state)
        whole = state[0] + 1j * state[1]
        return not any(part.changes(whole, random) for part in self._parts)


@final
class _Part:
    """Some gates of a space as one program, which is compiled where it is needed first."""

    def __init__(self, gates: Sequence[SpaceGate], space: Space, observable: cirq.PauliSum) -> None:
        self._gates, self._space, self._observable = gates, space, observable

    @cached_property
    def _program(self) -> SuperCircuit:
        qubits = self._space.qubits
        return SuperCircuit(self._gates, self._observable, qubits, initial_states=True)

    def norms(self, state: np.ndarray) -> np.ndarray:
        """Return the norms of the gradients by the angles of each gate.

        A gate that is the identity at 0 does not change those of others, so that all of these are
        in one row.
        """
        switched = np.array([gate.switched for gate in self._gates])
        alone = switched & np.array([bool(gate.angles) for gate in self._gates])
        masks = np.concatenate([~switched[np.newaxis], np.eye(len(self._gates), dtype=bool)[alone]])
        _, slopes = self._values(masks, np.zeros((len(masks), self._program.angles)), state)
        owner = np.repeat(np.arange(len(self._gates)), np.diff(self._program.first))
        squares = (slopes**2).sum(axis=0)  # a gate is in one row
        norms: np.ndarray = np.sqrt(np.bincount(owner, squares, len(self._gates)))
        return norms

    def changes(self, state: np.ndarray, random: np.random.Generator) -> bool:
        """Return True if one of the gates changes the energy of a state."""
        count = len(self._gates)
        masks = np.concatenate([np.eye(count, dtype=bool), np.zeros((1, count), bool)])
        angles = random.uniform(0.3, 1.0, (count + 1, self._program.angles))
        values, _ = self._values(masks, angles, state)
        return bool(np.abs(values[:-1] - values[-1]).max() > _CHANGE * max(1.0, abs(values[-1])))

    def _values(
        self, masks: np.ndarray, angles: np.ndarray, state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return values and gradients of rows that begin with one state, some at a time."""
        rows = max(1, _MOST_AMPLITUDES // len(state))
        parts = [slice(at, at + rows) for at in range(0, len(masks), rows)]
        found = [
            self._program.value_and_gradient(
                masks[part], angles[part], np.repeat(state[np.newaxis], len(masks[part]), axis=0)
            )
            for part in parts
        ]
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


def _content(gate: SpaceGate) -> tuple[object, ...]:
    return gate.operations, gate.feature
