"""Gates that bring their own duration to a device, such as pulses."""

import abc

import cirq

from qfleet.errors import NoiseError


class TimedGate(cirq.Gate):
    """A gate that a device runs as it is: no mapping compiles it to the device's other gates."""

    @property
    @abc.abstractmethod
    def duration(self) -> cirq.Duration:
        """The time that the gate takes."""


def is_timed(operation: cirq.Operation) -> bool:
    """Return whether an operation is a timed gate that a device can run.

    Raises:
        NoiseError: It is one that a device can't run: controlled, or on more than two qubits.
    """
    gate, count = operation.gate, len(operation.qubits)
    if isinstance(gate, cirq.ControlledGate) and isinstance(gate.sub_gate, TimedGate):
        raise NoiseError(
            f"{gate.sub_gate!r} is controlled, which no device does: use cirq.MatrixGate of its"
            " unitary, or the pulse without controls"
        )
    if isinstance(gate, TimedGate) and count > 2:
        raise NoiseError(
            f"{gate!r} can't be mapped to a device, whose gates have up to 2 qubits: use"
            " cirq.MatrixGate of its unitary"
        )
    return isinstance(gate, TimedGate)
