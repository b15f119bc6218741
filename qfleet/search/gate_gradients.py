"""Gradients of all gates of a space after a candidate, by which circuits grow."""

from collections.abc import Sequence
from typing import final

import cirq
import numpy as np

from qfleet.engine.batch_compiler import compile_batch
from qfleet.search.records import Candidate
from qfleet.search.space import Space
from qfleet.search.super_circuit import SuperCircuit

_MOST_AMPLITUDES = 1 << 24  # of all rows of a call: 256 MiB


@final
class Screen:
    """Gradients of each gate of a space, if it came after the gates of a candidate.

    Args:
        space: The space.
        observable: The energy.
    """

    def __init__(self, space: Space, observable: cirq.PauliSum) -> None:
        self._space = space
        self._program = SuperCircuit(space.gates, observable, space.qubits, initial_states=True)
        self._masks = np.eye(len(space.gates), dtype=bool)

    def gradients(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Compute the norms of the gradients by the angles of each gate, which are 0.

        Args:
            candidates: C candidates of the space, whose angles count.

        Returns:
            [C, G]; 0 for gates without an angle.
        """
        circuits = [self._space.circuit(one.gates, one.angles) for one in candidates]
        states = compile_batch(circuits).state()
        return np.stack([self._of_state(state) for state in states])

    def _of_state(self, state: np.ndarray) -> np.ndarray:
        masks, program = self._masks, self._program
        angles = np.zeros((len(masks), program.angles))
        _, slopes = self._values(masks, angles, state)
        norms: np.ndarray = np.linalg.norm(slopes, axis=1)  # a row has one gate, and its angles
        return norms

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

    def nothing_changes(self, random: np.random.Generator) -> bool:
        """Return True if no gate changes the energy of random states: all commute with it.

        Args:
            random: Source of states and angles.
        """
        program, count = self._program, len(self._masks)
        size = 1 << len(self._space.qubits)
        state = random.normal(size=(2, size))
        state /= np.linalg.norm(state)
        masks = np.concatenate([self._masks, np.zeros((1, count), bool)])
        angles = random.uniform(0.3, 1.0, (count + 1, program.angles))
        values, _ = self._values(masks, angles, state[0] + 1j * state[1])
        return bool(np.abs(values[:-1] - values[-1]).max() <= 1e-9 * max(1.0, abs(values[-1])))
