"""The models that every system is timed on, in Cirq alone.

Both environments import this file, so all systems get the same circuits, angles and weights.
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
    """A circuit cut where the data ends, and the dense layers after its readouts.

    Attributes:
        data: The circuit's beginning: fixed gates and turns by `inputs`.
        ansatz: The rest, with `parameters` alone.
        inputs: Data symbols, a value per example, radians.
        parameters: Trained symbols, radians.
        observables: What is read.
        head: Widths of the dense layers; tanh between two of them.
    """

    data: cirq.Circuit
    ansatz: cirq.Circuit
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    observables: tuple[cirq.PauliSum, ...]
    head: tuple[int, ...]

    @property
    def circuit(self) -> cirq.Circuit:
        """Data and ansatz."""
        return self.data + self.ansatz

    @property
    def gates(self) -> int:
        """Gates of the whole circuit."""
        return len(list(self.circuit.all_operations()))


@cache
def model(name: str, qubits: int) -> BenchmarkModel:
    """The model of that name, one of MODELS."""
    if name == "entangling":
        return _entangling(qubits)
    layers, head = (None, ()) if name == "qcnn" else (hybrid_layers(qubits), (8, 1))
    made = qcnn(qubits, layers=layers, encoder="cluster")
    data, ansatz = _cut(made.circuit, frozenset(made.parameters))
    return BenchmarkModel(data, ansatz, made.inputs, made.parameters, made.observables, head)


def _cut(circuit: cirq.Circuit, trained: frozenset[str]) -> tuple[cirq.Circuit, cirq.Circuit]:
    """What comes before the first trained gate on each qubit, and the rest."""
    data, ansatz = [], []
    begun: set[cirq.Qid] = set()
    for operation in circuit.all_operations():
        if cirq.parameter_names(operation) & trained or begun.intersection(operation.qubits):
            begun.update(operation.qubits)
            ansatz.append(operation)
        else:
            data.append(operation)
    return cirq.Circuit(data), cirq.Circuit(ansatz)


def _entangling(qubits: int) -> BenchmarkModel:
    """Schuld et al., "Circuit-centric quantum classifiers" (arXiv:1804.00633).

    As PennyLane's StronglyEntanglingLayers: RZ, RY, RZ on each qubit, then CNOT from each qubit to
    the one that is 1 + layer mod (qubits - 1) further on the ring. Data enters as ry(x).
    """
    line = cirq.GridQubit.rect(1, qubits)
    inputs = data_symbols(qubits)
    names, ansatz = [], []
    for layer in range(ENTANGLING_LAYERS):
        for at, qubit in enumerate(line):
            turns = [f"theta_{layer:02d}_{at:02d}_{axis}" for axis in range(3)]
            names += turns
            for axis, name in zip((cirq.rz, cirq.ry, cirq.rz), turns, strict=True):
                ansatz.append(axis(sympy.Symbol(name)).on(qubit))
        reach = 1 + layer % (qubits - 1)
        ansatz += [cirq.CNOT(line[at], line[(at + reach) % qubits]) for at in range(qubits)]
    readouts = tuple(cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in line)
    data = input_circuit(line, inputs, "angle")
    return BenchmarkModel(data, cirq.Circuit(ansatz), inputs, tuple(names), readouts, (1,))


@dataclass(frozen=True)
class DrawnInputs:
    """Random numbers that are the same for every system.

    Attributes:
        angles: float32 [examples, inputs] radians.
        labels: float32 [examples, 1], -1 or 1.
        parameters: float32 [parameters] radians.
        dense: For each dense layer float32 weights [in, out] and biases [out].
    """

    angles: np.ndarray
    labels: np.ndarray
    parameters: np.ndarray
    dense: tuple[tuple[np.ndarray, np.ndarray], ...]


def draw(of: BenchmarkModel, examples: int, turned: int | None = None) -> DrawnInputs:
    """Examples and first weights.

    Args:
        of: The model.
        examples: How many examples.
        turned: How many angles of each example differ from 0; all unless given.
    """
    rng = np.random.default_rng(7)
    parameters = rng.uniform(0, 2 * np.pi, len(of.parameters)).astype(np.float32)
    widths = (len(of.observables), *of.head)
    dense = tuple(
        (rng.uniform(-0.5, 0.5, (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in zip(widths, of.head, strict=False)
    )
    angles = rng.uniform(-np.pi, np.pi, (examples, len(of.inputs))).astype(np.float32)
    if turned is not None:
        kept = rng.permuted(np.tile(np.arange(len(of.inputs)), (examples, 1)), axis=1) < turned
        angles = np.where(kept, angles, np.float32(0))
    labels = rng.choice([-1, 1], (examples, 1)).astype(np.float32)
    return DrawnInputs(angles, labels, parameters, dense)
