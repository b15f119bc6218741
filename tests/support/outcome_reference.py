"""Exact probabilities of what a small circuit measures, by density matrices of all outcomes."""

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import cirq
import numpy as np

Outcomes = tuple[tuple[str, tuple[int, ...]], ...]


def probabilities(circuit: cirq.AbstractCircuit) -> dict[Outcomes, float]:
    """Return the probability of each list of outcomes: keys and bits, in order of the key.

    Args:
        circuit: With measurements by `cirq.measure` anywhere, classical control, and channels.
    """
    qubits = sorted(circuit.all_qubits())
    zero = np.zeros((2 ** len(qubits),) * 2, np.complex128)
    zero[0, 0] = 1
    branches = [(zero, cirq.ClassicalDataDictionaryStore())]
    for operation in circuit.all_operations():
        branches = [new for one in branches for new in _after(operation, qubits, *one)]
    found: dict[Outcomes, float] = defaultdict(float)
    for state, store in branches:
        found[outcomes(store.records)] += float(np.trace(state).real)
    return found


def outcomes(records: Mapping[Any, Iterable[Iterable[int]]]) -> Outcomes:
    """Return the bits of all instances of each key."""
    return tuple(
        (str(key), tuple(int(bit) for instance in instances for bit in instance))
        for key, instances in sorted(records.items(), key=lambda pair: str(pair[0]))
    )


def _after(
    operation: cirq.Operation,
    qubits: list[cirq.Qid],
    state: np.ndarray,
    store: cirq.ClassicalDataDictionaryStore,
) -> Iterator[tuple[np.ndarray, cirq.ClassicalDataDictionaryStore]]:
    if not all(one.resolve(store) for one in operation.classical_controls):
        yield state, store
        return
    operation = operation.without_classical_controls()
    if not isinstance(operation.gate, cirq.MeasurementGate):
        yield sum(k @ state @ k.conj().T for k in _kraus(operation, qubits)), store
        return
    width = len(operation.qubits)
    for number in range(2**width):
        bits = [number >> at & 1 for at in range(width)]
        projector = np.eye(len(state))
        for qubit, bit in zip(operation.qubits, bits, strict=True):
            digits = np.arange(len(state)) >> (len(qubits) - 1 - qubits.index(qubit)) & 1
            projector = projector @ np.diag(digits == bit)
        after = projector @ state @ projector
        if np.trace(after).real < 1e-12:
            continue
        mask = operation.gate.full_invert_mask()
        recorded = copy.deepcopy(store)
        recorded.record_measurement(
            cirq.measurement_key_obj(operation),
            [bit ^ int(flip) for bit, flip in zip(bits, mask, strict=True)],
            operation.qubits,
        )
        yield after, recorded


def _kraus(operation: cirq.Operation, qubits: list[cirq.Qid]) -> Iterator[np.ndarray]:
    """Yield the Kraus operators of an operation on all qubits."""
    rest = [qubit for qubit in qubits if qubit not in operation.qubits]
    places = [[*operation.qubits, *rest].index(qubit) for qubit in qubits]
    for one in cirq.kraus(operation):
        whole = np.kron(one, np.eye(2 ** len(rest))).reshape((2,) * 2 * len(qubits))
        axes = [*places, *(len(qubits) + place for place in places)]
        yield whole.transpose(axes).reshape((2 ** len(qubits),) * 2)
