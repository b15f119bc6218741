"""States of many driven qubits with T1 and T2: quantum trajectories."""

from collections.abc import Callable, Sequence

import numpy as np

from qfleet.pulses.grid import Grid
from qfleet.pulses.transmons import Transmon

Evolve = Callable[[int, np.ndarray], np.ndarray]
"""From the number of a sample and a state [D] before it to the state after it."""


class Trajectories:
    """Trajectories of one pulse, with jumps at the ends of samples.

    The state without a jump is evolved once. A trajectory leaves it in the sample in which its
    squared norm falls below a random number (Molmer, Castin and Dalibard 1993).

    Args:
        qubits: The qubits, with T1 and T2.
        grid: The samples.
        evolve: A sample without decay.
    """

    def __init__(self, qubits: Sequence[Transmon], grid: Grid, evolve: Evolve) -> None:
        self._samples, self._evolve = grid.samples, evolve
        self._shape = tuple(one.levels for one in qubits)
        self._jumps = [
            (at, operator) for at, one in enumerate(qubits) for operator in one.collapse_operators
        ]
        rates = np.zeros(self._shape)
        for at, operator in self._jumps:
            diagonal = np.diag(operator.T @ operator).real
            rates += diagonal.reshape([-1 if axis == at else 1 for axis in range(len(qubits))])
        self._half = np.exp(-grid.dt / 4 * rates).ravel()  # of half a sample

    def states(self, start: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
        """Return states [count, D] of norm 1 after the pulse.

        Args:
            start: [D] complex128 of norm 1.
            count: Number of trajectories.
            random: Draws the jumps.
        """
        found = np.empty((count, len(start)), np.complex128)
        limits = random.random(count) if self._jumps else np.zeros(count)
        waiting = np.arange(count)
        state = start
        for sample in range(self._samples):
            state = self._damped(sample, state)
            jumps = limits[waiting] >= _squared(state)
            for at in waiting[jumps]:
                found[at] = self._after(sample, self._jumped(state, random), random)
            waiting = waiting[~jumps]
        found[waiting] = _normalised(state)
        return found

    def _after(self, sample: int, state: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return the state after the pulse, given that after a jump in a sample."""
        limit = random.random()
        for later in range(sample + 1, self._samples):
            state = self._damped(later, state)
            if limit >= _squared(state):
                state, limit = self._jumped(state, random), random.random()
        return _normalised(state)

    def _damped(self, sample: int, state: np.ndarray) -> np.ndarray:
        return self._half * self._evolve(sample, self._half * state)

    def _jumped(self, state: np.ndarray, random: np.random.Generator) -> np.ndarray:
        tensor = state.reshape(self._shape)
        results = [
            np.moveaxis(np.tensordot(operator, tensor, (1, at)), 0, at).ravel()
            for at, operator in self._jumps
        ]
        weights = np.array([_squared(one) for one in results])
        return _normalised(results[random.choice(len(results), p=weights / weights.sum())])


def _squared(state: np.ndarray) -> float:
    return float(np.vdot(state, state).real)


def _normalised(state: np.ndarray) -> np.ndarray:
    found: np.ndarray = state / np.sqrt(_squared(state))
    return found
