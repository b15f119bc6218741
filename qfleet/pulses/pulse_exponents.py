"""The unitary matrix of a pulse as a function of its numbers, in exponents of gates."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qfleet.compiler.circuit.numeric_functions import NumericFunction
from qfleet.pulses.closest_unitary import ClosestUnitary
from qfleet.pulses.fidelity import computational_places
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import Pulse
from qfleet.pulses.unitary_angles import matrix_exponents, pauli_words


@dataclass(frozen=True)
class PulseExponents(NumericFunction):
    """The exponents of `unitary_angles.generators`, whose product is the unitary of a pulse.

    A batch of pulses is propagated in one call of the engine. The derivative is that of adjoint
    passes, one for each Pauli word.

    Attributes:
        propagator: Of one device without decay, on one to three qubits.
        pulse: The envelopes.
    """

    propagator: Propagator
    pulse: Pulse

    @cached_property
    def key(self) -> str:
        """Text of the device, the steps and the envelopes."""
        return repr((self.propagator, self.pulse))

    @property
    def results(self) -> int:
        """The number of exponents."""
        return 2 * (1 << 2 * self._qubits)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the exponents in half-turns, [..., 2 * 4^n].

        Args:
            values: [..., P] numbers of the envelopes.

        Raises:
            ArgumentError: An amplitude is above the bound of its channel, a number is out of range,
                or more than 10 % leaks.
        """
        rows = values.reshape(-1, values.shape[-1])
        if not len(rows):
            return np.zeros((*values.shape[:-1], self.results))
        unitaries = self.propagator(self.pulse.samples(rows))
        angles = matrix_exponents(ClosestUnitary(self._blocks(unitaries)).matrices)
        found = np.concatenate([angles, np.zeros_like(angles)], axis=-1)
        return found.reshape(*values.shape[:-1], self.results)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """Return the derivative by the numbers, [..., 2 * 4^n, P].

        Args:
            values: [..., P].

        Raises:
            ArgumentError: As for a call.
        """
        rows = values.reshape(-1, values.shape[-1])
        if not len(rows):
            return np.zeros((*values.shape[:-1], self.results, values.shape[-1]))
        unitaries, pullback = self.propagator.with_pullback(self.pulse.samples(rows))
        words = pauli_words(self._qubits)
        by_block = ClosestUnitary(self._blocks(unitaries)).angle_gradients(words)
        found = np.zeros((len(rows), self.results, rows.shape[-1]))
        rows_of, columns_of = self._block
        for at in range(len(words)):
            upstream = np.zeros_like(unitaries)
            upstream[:, rows_of, columns_of] = by_block[:, at]
            change = self.pulse.vjps(rows, pullback(upstream))
            found[:, len(words) + at] = change / math.pi
        return found.reshape(*values.shape[:-1], *found.shape[1:])

    @property
    def _qubits(self) -> int:
        return len(self.propagator.levels)

    @cached_property
    def _block(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the levels 0 and 1."""
        places = computational_places(self.propagator.levels)
        return places[:, np.newaxis], places[np.newaxis]

    def _blocks(self, unitaries: np.ndarray) -> np.ndarray:
        rows, columns = self._block
        return unitaries[:, rows, columns]
