"""Circuits that the engine has no form for, which Cirq's own simulator computes."""

import warnings
from collections.abc import Iterable

import cirq

from qfleet.compiler.circuit import lowering


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


def is_dynamic(circuit: cirq.AbstractCircuit) -> bool:
    """Return True if a circuit has more than gates on qubits and terminal `cirq.measure`.

    Args:
        circuit: A circuit, with its measurements.
    """
    try:
        circuit = cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None)
    except ValueError:
        return True
    measured: set[cirq.Qid] = set()
    for operation in circuit.all_operations():
        try:
            if _is_more_than_a_gate(operation, measured):
                return True
        except Exception:  # of the class of a gate, which the compiler names
            return False
        if cirq.is_measurement(operation):
            measured.update(operation.qubits)
    return False


def _is_more_than_a_gate(operation: cirq.Operation, measured: set[cirq.Qid]) -> bool:
    if not measured.isdisjoint(operation.qubits):
        return True
    if any(qubit.dimension != 2 for qubit in operation.qubits):
        return True
    if lowering.is_plain(operation.gate, cirq.Gate):
        return False
    if cirq.control_keys(operation):
        return True
    if cirq.is_measurement(operation):
        return not isinstance(operation.gate, cirq.MeasurementGate)
    return _is_channel(operation)


def _is_channel(operation: cirq.Operation) -> bool:
    # Cirq decomposes a gate with symbols, and finds the Kraus operators of each part.
    return (
        not cirq.is_parameterized(operation)
        and not cirq.has_unitary(operation)
        and cirq.has_kraus(operation)
    )
