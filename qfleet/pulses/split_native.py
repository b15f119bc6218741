"""States under steps of small matrices, and the derivatives, in the C++ engine (qfleet.h)."""

from collections.abc import Sequence
from ctypes import byref
from dataclasses import dataclass

import numpy as np

from qfleet.engine import library


@dataclass(frozen=True)
class SplitOperation:
    """An operation of every step.

    Attributes:
        qubits: Numbers of the qubits, the first leftmost in the matrix.
        matrices: [T, m, m] complex128, one per step, or [m, m] for all.
        turn: Of one matrix M: that of step t is M[r, c] e^(i turn (t + 1/2) (n_r - n_c)), with the
            level n of the first qubit.
        differentiated: The backward pass returns the seeds of its matrices, [T, m, m].
    """

    qubits: tuple[int, ...]
    matrices: np.ndarray
    turn: float = 0.0
    differentiated: bool = False


@dataclass(frozen=True)
class SplitSteps:
    """Steps of a state.

    Attributes:
        levels: Of each qubit; the first is leftmost in a state's index.
        operations: Of every step, in their order.
        steps: Number of steps, T.
    """

    levels: tuple[int, ...]
    operations: Sequence[SplitOperation]
    steps: int

    def forward(self, state: np.ndarray) -> np.ndarray:
        """Return the state [D] after all steps.

        Args:
            state: [D] complex128.
        """
        found = np.array(state, np.complex128)
        structure, kept = self._structure([None] * len(self.operations))
        library.check(
            library.core().qfleet_split_forward(
                byref(structure), library.address(found), 2 * found.size
            )
        )
        del kept
        return found

    def backward(self, states: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return states at the start, and W U^dagger of each differentiated operation's matrices U.

        Args:
            states: [2, D] complex128, psi after all steps, and w = dL/dRe psi + i dL/dIm psi of a
                loss L, of which W is the derivative by U.

        Returns:
            psi and w before all steps, [2, D], and a list of [T, m, m].
        """
        states = np.array(states, np.complex128)
        seeds = [
            np.empty(one.matrices.shape, np.complex128) if one.differentiated else None
            for one in self.operations
        ]
        structure, kept = self._structure(seeds)
        library.check(
            library.core().qfleet_split_backward(
                byref(structure), library.address(states), 2 * states.size
            )
        )
        del kept
        return states, [each for each in seeds if each is not None]

    def _structure(
        self, seeds: Sequence[np.ndarray | None]
    ) -> tuple[library.Split, list[np.ndarray]]:
        """Return the C structure, and the arrays that must live as long."""
        levels = np.array(self.levels, np.int32)
        kept: list[np.ndarray] = [levels]
        listed = (library.SplitMatrices * len(self.operations))()
        for to, one, each in zip(listed, self.operations, seeds, strict=True):
            qubits = np.array(one.qubits, np.int32)
            matrices = np.ascontiguousarray(one.matrices, np.complex128)
            kept += [qubits, matrices]
            to.qubits, to.qubit_count = library.address(qubits), qubits.size
            to.matrices, to.matrix_count = library.address(matrices), 2 * matrices.size
            to.turn = one.turn
            if each is not None:
                to.seeds, to.seed_count = library.address(each), 2 * each.size
        structure = library.Split(
            levels=library.address(levels),
            qubit_count=levels.size,
            operations=listed,
            operation_count=len(listed),
            steps=self.steps,
        )
        return structure, kept
