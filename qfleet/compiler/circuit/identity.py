"""The identity of operations for the compiler: for caches, groupings and cancellations.

Cirq's `==` is another relation: equal gates may differ by a phase, which a control makes physical,
and gates of a user's class are equal whenever the class returns it.
"""

from collections.abc import Hashable

import cirq

from qfleet.compiler.circuit import lowering

# Gates that their arguments define, besides those of `lowering.gate_key`.
_ARGUMENTS: dict[type, tuple[str, ...]] = {
    cirq.PhasedXPowGate: ("phase_exponent", "exponent", "global_shift"),
    cirq.PhasedXZGate: ("x_exponent", "z_exponent", "axis_phase_exponent"),
    cirq.PhasedISwapPowGate: ("phase_exponent", "exponent", "global_shift"),
    cirq.FSimGate: ("theta", "phi"),
    cirq.PhasedFSimGate: ("theta", "zeta", "chi", "gamma", "phi"),
    cirq.CCXPowGate: ("exponent", "global_shift"),
    cirq.CCZPowGate: ("exponent", "global_shift"),
}


def identity(operation: cirq.Operation, moment: int = 0) -> Hashable:
    """Return a key that operations share only if they are lowered to equal factors, up to rounding.

    Global phases count, and so do qubits; tags do not. Cirq's frequent gates are known by their
    types and arguments, since these are fast to compare; all other operations by their factors.

    Args:
        operation: The operation, possibly with symbols, or a noise channel.
        moment: Its moment, for the error message.

    Raises:
        CircuitError: The operation is not supported. Frequent gates are not checked.
    """
    known = _operation_arguments(operation)
    return known or tuple(
        (one.qubits, one.key) for one in lowering.lower_operation(operation, moment)
    )


def circuit_identity(circuit: cirq.AbstractCircuit) -> Hashable:
    """Return a key that circuits share only if they are lowered to equal factors, up to rounding.

    Args:
        circuit: The circuit; the order of the operations in a moment does not count.

    Raises:
        CircuitError: As for `identity`.
    """
    return tuple(
        tuple(identity(one, index) for one in sorted(moment, key=lambda one: one.qubits))
        for index, moment in enumerate(circuit)
    )


def _operation_arguments(operation: cirq.Operation) -> Hashable:
    """Return the types and the arguments of an operation; None if they may not define it."""
    operation = operation.untagged
    kind, gate, qubits = type(operation), operation.gate, operation.qubits
    if isinstance(operation, cirq.ControlledOperation) and kind is cirq.ControlledOperation:
        known = _operation_arguments(operation.sub_operation)
        values = tuple(map(tuple, operation.control_values.expand()))
        return known and (kind, known, operation.controls, values)
    if kind not in (cirq.GateOperation, cirq.SingleQubitPauliStringGateOperation):
        return None
    if lowering.is_plain(gate, cirq.InterchangeableQubitsGate):
        qubits = tuple(sorted(qubits))
    known = _gate_arguments(gate)
    return known and (known, qubits)


def _gate_arguments(gate: cirq.Gate | None) -> Hashable:
    """Return the type and the arguments of a gate; None if they may not define it."""
    if (key := lowering.gate_key(gate)) is not None:
        return key
    kind = type(gate)
    if isinstance(gate, cirq.MatrixGate) and kind is cirq.MatrixGate:
        return kind, cirq.unitary(gate).tobytes(), cirq.qid_shape(gate)
    if isinstance(gate, cirq.ParallelGate) and kind is cirq.ParallelGate:
        known = _gate_arguments(gate.sub_gate)
        return known and (kind, known, gate.num_copies)
    names = _ARGUMENTS.get(kind)
    return names and (kind, *(getattr(gate, name) for name in names))
