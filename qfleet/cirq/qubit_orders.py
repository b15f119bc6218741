"""Qubits in the order of `qubit_order`."""

from collections.abc import Iterable

import cirq

from qfleet.argument_checks import shown
from qfleet.circuit_checks import qubit as checked_qubit
from qfleet.errors import ArgumentError


def ordered_qubits(
    used: Iterable[cirq.Qid], qubit_order: cirq.QubitOrderOrList
) -> tuple[cirq.Qid, ...]:
    """Return the qubits of a circuit, and further ones of `qubit_order`, in its order.

    Args:
        used: Qubits of the circuit.
        qubit_order: As for `cirq.Simulator`.

    Raises:
        ArgumentError: It does not order these qubits.
        CircuitError: One is a qudit.
    """
    found = ordered(used, qubit_order)
    return tuple(checked_qubit(one, f"qubit_order[{at}]") for at, one in enumerate(found))


def ordered(used: Iterable[cirq.Qid], qubit_order: cirq.QubitOrderOrList) -> tuple[cirq.Qid, ...]:
    """Return qubits and qudits in the order of `qubit_order`; see `ordered_qubits`."""
    try:
        return tuple(cirq.QubitOrder.as_qubit_order(qubit_order).order_for(used))
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"qubit_order is {shown(qubit_order)}: {error}") from error
