"""The models of the benchmark. This module needs Cirq only.

All systems import it, in two environments, so they get the same circuits, angles and weights.
"""

from dataclasses import dataclass
from functools import cache

import cirq
import numpy as np
import sympy

from qfleet.circuits import hybrid_layers, qcnn
from qfleet.circuits.encoders import input_circuit
from qfleet.placement import data_symbols

ENTANGLING_LAYERS = 3
MODELS = {
    "qcnn": "the QCNN down to one qubit, whose Z is the prediction",
    "hybrid": "the QCNN cut at 4 qubits or fewer, Z on each, Dense(8, tanh), Dense(1)",
    "entangling": f"{ENTANGLING_LAYERS} strongly entangling layers, Z on every qubit, Dense(1)",
}


@dataclass(frozen=True)
class BenchmarkModel:
    """A circuit, divided after the data rotations, and the dense layers after its readouts.

    Attributes:
        data: The first part of the circuit: fixed gates and rotations by `inputs`.
        ansatz: The rest, which has `parameters` only.
        inputs: Data symbols, one value per example, radians.
        parameters: Trained symbols, radians.
        observables: The readouts.
        head: Widths of the dense layers, with tanh between them.
    """

    data: cirq.Circuit
    ansatz: cirq.Circuit
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    observables: tuple[cirq.PauliSum, ...]
    head: tuple[int, ...]

    @property
    def circuit(self) -> cirq.Circuit:
        """The whole circuit."""
        return self.data + self.ansatz

    @property
    def gates(self) -> int:
        """Number of gates of the whole circuit."""
        return len(list(self.circuit.all_operations()))


@cache
def model(name: str, qubits: int) -> BenchmarkModel:
    """Return a model by its name, one of MODELS."""
    if name == "entangling":
        return _entangling(qubits)
    layers, head = (None, ()) if name == "qcnn" else (hybrid_layers(qubits), (8, 1))
    circuit = qcnn(qubits, layers=layers, encoder="cluster")
    data, ansatz = _divide(circuit.circuit, frozenset(circuit.parameters))
    return BenchmarkModel(
        data, ansatz, circuit.inputs, circuit.parameters, circuit.observables, head
    )


def _divide(circuit: cirq.Circuit, trained: frozenset[str]) -> tuple[cirq.Circuit, cirq.Circuit]:
    """Return the gates before the first trained gate on each qubit, and the rest."""
    data, ansatz = [], []
    trained_qubits: set[cirq.Qid] = set()
    for operation in circuit.all_operations():
        has_trained = bool(cirq.parameter_names(operation) & trained)
        if has_trained or trained_qubits.intersection(operation.qubits):
            trained_qubits.update(operation.qubits)
            ansatz.append(operation)
        else:
            data.append(operation)
    return cirq.Circuit(data), cirq.Circuit(ansatz)


def _entangling(qubits: int) -> BenchmarkModel:
    """Schuld et al., "Circuit-centric quantum classifiers" (arXiv:1804.00633).

    As PennyLane's StronglyEntanglingLayers: RZ, RY, RZ on each qubit, then CNOT from each qubit to
    the qubit at distance 1 + layer mod (qubits - 1) on the ring. The data encoding is ry(x).
    """
    line = cirq.GridQubit.rect(1, qubits)
    inputs = data_symbols(qubits)
    names, ansatz = [], []
    for layer in range(ENTANGLING_LAYERS):
        for index, qubit in enumerate(line):
            symbols = [f"theta_{layer:02d}_{index:02d}_{axis}" for axis in range(3)]
            names += symbols
            for axis, name in zip((cirq.rz, cirq.ry, cirq.rz), symbols, strict=True):
                ansatz.append(axis(sympy.Symbol(name)).on(qubit))
        distance = 1 + layer % (qubits - 1)
        ansatz += [cirq.CNOT(line[i], line[(i + distance) % qubits]) for i in range(qubits)]
    readouts = tuple(cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in line)
    data = input_circuit(line, inputs, "angle")
    return BenchmarkModel(data, cirq.Circuit(ansatz), inputs, tuple(names), readouts, (1,))


@dataclass(frozen=True)
class RandomInputs:
    """Random numbers that are the same for all systems.

    Attributes:
        angles: float32 [examples, inputs] radians.
        labels: float32 [examples, 1], -1 or 1.
        parameters: float32 [parameters] radians.
        dense: float32 weights [in, out] and biases [out] of each dense layer.
    """

    angles: np.ndarray
    labels: np.ndarray
    parameters: np.ndarray
    dense: tuple[tuple[np.ndarray, np.ndarray], ...]


def random_inputs(
    benchmark_model: BenchmarkModel, examples: int, nonzero_angles: int | None = None
) -> RandomInputs:
    """Return random examples and initial weights.

    Args:
        benchmark_model: The model.
        examples: Number of examples.
        nonzero_angles: Angles of each example that are not 0; all unless given.
    """
    rng = np.random.default_rng(7)
    parameters = rng.uniform(0, 2 * np.pi, len(benchmark_model.parameters)).astype(np.float32)
    widths = (len(benchmark_model.observables), *benchmark_model.head)
    dense = tuple(
        (rng.uniform(-0.5, 0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in zip(widths, benchmark_model.head, strict=False)
    )
    angles = rng.uniform(-np.pi, np.pi, (examples, len(benchmark_model.inputs))).astype(np.float32)
    if nonzero_angles is not None:
        indices = np.tile(np.arange(len(benchmark_model.inputs)), (examples, 1))
        kept = np.random.default_rng(8).permuted(indices, axis=1) < nonzero_angles
        angles = np.where(kept, angles, np.float32(0))
    # A generator each: the first examples do not depend on how many are drawn.
    labels = np.random.default_rng(9).choice([-1, 1], (examples, 1)).astype(np.float32)
    return RandomInputs(angles, labels, parameters, dense)
