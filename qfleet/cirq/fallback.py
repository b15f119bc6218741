"""Circuits that the engine has no form for, which Cirq's own simulator computes."""

import warnings
from collections.abc import Iterable

import cirq

from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.location import describe_location


class FallbackWarning(UserWarning):
    """Cirq's own simulator computes a circuit; the message names the reason."""


def warn(reason: str) -> None:
    """Warn that Cirq's simulator is used.

    Args:
        reason: Why, as a clause.
    """
    warnings.warn(
        f"cirq.Simulator computes this circuit, since {reason}; to refuse it, call"
        " warnings.simplefilter('error', qfleet.cirq.FallbackWarning)",
        FallbackWarning,
        stacklevel=4,
    )


def reason_of_qubits(qubits: Iterable[cirq.Qid]) -> str:
    """Return that some qubits are qudits, as a clause; empty if none is.

    Args:
        qubits: The qubits of `qubit_order`.
    """
    return "qubit_order has qudits" if any(one.dimension != 2 for one in qubits) else ""


def reason_for_cirq(circuit: cirq.AbstractCircuit) -> str:
    """Return what the engine has no form for, as a clause; empty if there is nothing.

    Args:
        circuit: A circuit, with its measurements.
    """
    try:
        circuit = cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None)
    except ValueError as error:
        return f"a CircuitOperation can't be unrolled ({error})"
    measured: set[cirq.Qid] = set()
    for index, moment in enumerate(circuit):
        for operation in moment:
            try:
                reason = _reason_of_operation(operation, measured)
            except Exception:  # of the class of a gate, which the compiler names
                return ""
            if reason:
                return f"{describe_location(operation, index)} {reason}"
            if cirq.is_measurement(operation):
                measured.update(operation.qubits)
    return ""


def _reason_of_operation(operation: cirq.Operation, measured: set[cirq.Qid]) -> str:
    if not measured.isdisjoint(operation.qubits):
        return "follows a measurement"
    if any(qubit.dimension != 2 for qubit in operation.qubits):
        return "acts on qudits"
    if lowering.is_plain(operation.gate, cirq.Gate):
        return ""
    if cirq.control_keys(operation):
        return "is controlled by a measurement"
    if cirq.is_measurement(operation):
        is_plain = isinstance(operation.gate, cirq.MeasurementGate)
        return "" if is_plain else "is a measurement other than cirq.measure"
    return "is noise or a reset" if _is_channel(operation) else ""


def _is_channel(operation: cirq.Operation) -> bool:
    # Cirq decomposes a gate with symbols, and finds the Kraus operators of each part.
    return (
        not cirq.is_parameterized(operation)
        and not cirq.has_unitary(operation)
        and cirq.has_kraus(operation)
    )
