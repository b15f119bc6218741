"""The light cone of measured qubits: the factors that they depend on, and their qubits."""

from collections.abc import Iterable, Sequence, Set
from typing import TypeVar

import cirq

from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.factor import Factor
from qfleet.errors import CircuitError

_Item = TypeVar("_Item", bound=Factor | NoiseChannel)


def light_cone(factors: Sequence[_Item], readouts: Iterable[cirq.Qid]) -> list[_Item]:
    """Return the factors that the given qubits depend on.

    Args:
        factors: First applied first.
        readouts: The measured qubits.
    """
    cone = set(readouts)
    kept = []
    for factor in reversed(factors):
        if cone.intersection(factor.qubits):
            cone.update(factor.qubits)
            kept.append(factor)
    return kept[::-1]


def ordered_qubits(
    factors: Sequence[Factor | NoiseChannel], measured: Set[cirq.Qid], qubits: Sequence[cirq.Qid]
) -> tuple[cirq.Qid, ...]:
    """Return the qubits that factors and readouts use, in the order of the circuit's; at least one.

    Args:
        factors: The factors that the readouts depend on.
        measured: The measured qubits.
        qubits: All qubits of the circuit, in order.
    """
    simulated = frozenset(measured).union(*(factor.qubits for factor in factors))
    unlisted = sorted(simulated.difference(qubits))
    ordered = (*(q for q in qubits if q in simulated), *unlisted) or tuple(qubits)[:1]
    if not ordered:
        raise CircuitError("the circuit and its observables have no qubits")
    return ordered
