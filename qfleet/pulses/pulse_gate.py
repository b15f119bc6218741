"""A pulse with given numbers as a gate of a circuit."""

from functools import cached_property
from typing import Any

import cirq
import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import instance, number
from qfleet.errors import ArgumentError
from qfleet.pulses.fidelity import GateFidelity
from qfleet.pulses.objective import GateObjective
from qfleet.pulses.propagator import Propagator

MAX_LEAKAGE = 0.1


@cirq.value_equality
class PulseGate(cirq.Gate):
    """The gate of a pulse on one device, for any circuit: a dense gate without symbols.

    Its matrix is the unitary that is closest to the propagator between the levels 0 and 1, after
    virtual rotations about Z. What leaks is lost in the matrix: see `leakage`.

    Args:
        propagator: Of one device without decay.
        amplitudes: [N, C] in rad/ns.
        virtual_z: [n] angles in radians of the rotations diag(1, exp(i angle)) after the pulse; 0
            unless given.

    Raises:
        ArgumentError: The propagator has several devices or decay, or more than 10 % leaks.
    """

    def __init__(
        self, propagator: Propagator, amplitudes: ArrayLike, virtual_z: ArrayLike | None = None
    ) -> None:
        instance(Propagator, "a Propagator")(propagator, "propagator")
        if propagator.decay:
            raise ArgumentError("the propagator has decay: pass one with decay=False")
        unitary = propagator(amplitudes)
        if unitary.ndim != 2:
            raise ArgumentError("amplitudes or devices are several: pass one device and [N, C]")
        self.propagator = propagator
        self.amplitudes = np.array(amplitudes, np.float64)
        count = len(propagator.levels)
        angles = np.zeros(count) if virtual_z is None else np.asarray(virtual_z)
        if angles.shape != (count,):
            raise ArgumentError(
                f"virtual_z has shape {list(angles.shape)}: pass one for each of {count} qubits"
            )
        self.virtual_z = tuple(number(one, "virtual_z") for one in angles.tolist())
        self._block = GateFidelity(np.eye(2**count), propagator.levels).block(unitary)
        if self.leakage > MAX_LEAKAGE:
            raise ArgumentError(
                f"the pulse leaks {self.leakage:.2g} of the computational states: a gate needs less"
                f" than {MAX_LEAKAGE}"
            )

    @classmethod
    def from_objective(cls, objective: GateObjective, values: ArrayLike) -> "PulseGate":
        """Return the gate of a pulse that `optimize` found.

        Args:
            objective: With one device without decay.
            values: [P + n], such as `GateResult.values`.
        """
        array, count = objective.checked(values), len(objective.pulse.names)
        angles = array[count:] if objective.angles else None
        return cls(objective.propagator, objective.pulse.sample(array[:count]), angles)

    @property
    def duration(self) -> cirq.Duration:
        """Length of the pulse."""
        return cirq.Duration(nanos=self.propagator.grid.duration)

    @cached_property
    def leakage(self) -> float:
        """Mean probability that a computational state leaves the levels 0 and 1."""
        return max(0.0, float(1 - (np.abs(self._block) ** 2).sum() / len(self._block)))

    def _num_qubits_(self) -> int:
        return len(self.propagator.levels)

    @cached_property
    def _matrix(self) -> np.ndarray:
        left, _, right = np.linalg.svd(self._block)
        phases = np.ones(1, np.complex128)
        for angle in self.virtual_z:
            phases = np.kron(phases, [1, np.exp(1j * angle)])
        matrix: np.ndarray = phases[:, np.newaxis] * (left @ right)
        return matrix

    def _unitary_(self) -> np.ndarray:
        return self._matrix.copy()

    def _circuit_diagram_info_(self, args: cirq.CircuitDiagramInfoArgs) -> tuple[str, ...]:
        del args
        name = f"Pulse({self.propagator.grid.duration:g} ns)"
        return (name, *[f"Pulse#{at}" for at in range(2, self._num_qubits_() + 1)])

    def _value_equality_values_(self) -> Any:
        return self.amplitudes.tobytes(), self._matrix.tobytes(), self.virtual_z

    def __repr__(self) -> str:
        return f"<PulseGate of {self._num_qubits_()} qubits, {self.propagator.grid.duration:g} ns>"
