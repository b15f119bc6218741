"""Checks of arguments that are circuits, qubits and symbols, by name."""

import json
from collections.abc import Sequence

import cirq
import sympy

from qfleet.argument_checks import instance, items
from qfleet.errors import ArgumentError, CircuitError

CIRCUIT = instance(cirq.AbstractCircuit, "a cirq.Circuit")
CIRCUITS = items(CIRCUIT, "a sequence of cirq.Circuit")


def one_or_several(value: object, name: str) -> list[cirq.AbstractCircuit]:
    """Check one circuit, or a sequence of at least one."""
    if isinstance(value, cirq.AbstractCircuit):
        return [value]
    circuits = list(CIRCUITS(value, name))
    if not circuits:
        raise ArgumentError(f"{name} is empty: pass one circuit, or several")
    return circuits


def qubit(value: object, name: str) -> cirq.Qid:
    """Check a qubit."""
    found: cirq.Qid = instance(cirq.Qid, "a qubit, such as cirq.LineQubit(0)")(value, name)
    if found.dimension != 2:
        raise CircuitError(f"{name} is {found}: qudits are not supported; use qubits")
    return found


QUBITS = items(qubit, "a sequence of qubits")
ANGLES = items(instance(sympy.Expr | float | int, "a symbol or a number"), "a sequence of symbols")


def check_angle_names(found: str, names: Sequence[str], layer: str) -> None:
    """Check the names of a layer's angles that a file of weights has.

    Args:
        found: The names in the file, as JSON.
        names: The names of the layer, in order.
        layer: The layer's name.

    Raises:
        ArgumentError: The names are others, or in another order.
    """
    if found != json.dumps(list(names)):
        raise ArgumentError(
            f"the file has angles of other names or in another order than layer {layer}, whose"
            f" angles are {', '.join(names)[:200]}: load it into a layer of the same parameters"
        )
