"""QCNNs with two heads in NumPy, and classical models of the same angles.

The head of the service's model `hybrid` is dense in all readouts. The other head sums what each
readout differs from its value with all angles 0, so that it does not depend on the place.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import qfleet
from benchmarks.peers.dense_head import Adam, DenseHead
from common.data.splits import GENERATORS
from common.settings import Settings
from qfleet.circuits import qcnn
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.engine.compiled_circuit import CompiledCircuit

RATE = 0.03
BATCH, STARTS, START_STEPS, STEPS = 32, 4, 50, 400
HIDDEN = 8  # neurons of the dense layer, as of the model `hybrid`
FOLDS = 5


@dataclass(frozen=True)
class Task:
    """Angles [examples, qubits] in radians and labels of -1 and 1, for training and for test."""

    angles: np.ndarray
    labels: np.ndarray
    test_angles: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True)
class TrainedModel:
    """A trained model.

    Attributes:
        parameters: Angles of the circuit [P].
        head: The dense layers.
        sums: If the head has the sum of the readouts.
    """

    parameters: np.ndarray
    head: DenseHead
    sums: bool

    def accuracy(self, readouts: np.ndarray, zero: np.ndarray, labels: np.ndarray) -> float:
        """Return the share of examples whose sign is predicted.

        Args:
            readouts: [B, K].
            zero: [K], the readouts with all angles 0.
            labels: [B] of -1 and 1.
        """
        features = _features(readouts, zero, sums=self.sums)
        return _accuracy(self.head.predict(features)[:, 0], labels)


def load_task(data: str, qubits: int, examples: int, test_examples: int, seed: int) -> Task:
    """Return a built-in data set of the service, with its encoding."""
    arguments = [f"DATA={data}", f"QUBITS={qubits}", f"SEED={seed}"]
    arguments += [f"TRAIN_EXAMPLES={examples}", f"TEST_EXAMPLES={test_examples}"]
    prepared = GENERATORS[data](Settings.from_args(arguments).data, qubits)
    train, test = prepared.splits["train"], prepared.splits["test"]
    parts = [*train.read(0, train.rows), *test.read(0, test.rows)]
    return Task(*(np.asarray(part, np.float64) for part in parts))


def compile_model(data: str, qubits: int, layers: int) -> tuple[ModelCircuit, CompiledCircuit]:
    """Return the QCNN of a data set, with pooled neighbours, and its compiled form."""
    encoder = "cluster" if data == "excitations" else "angle"
    made = qcnn(qubits, layers=layers, pool="neighbours", encoder=encoder)
    parts = made.circuit, made.inputs, made.parameters, made.observables
    return made, qfleet.compile(*parts, dtype="complex64")


def train_model(compiled: CompiledCircuit, task: Task, seed: int, *, sums: bool) -> TrainedModel:
    """Train a QCNN and its head by the mean squared error: the best of some starts continues."""
    random = np.random.default_rng(seed)
    starts = [_random_weights(compiled, random, sums=sums) for _ in range(STARTS)]
    runs = [_train(compiled, task, weights, START_STEPS, random, sums) for weights in starts]
    _, weights = min(runs, key=lambda run: run[0])
    _, (parameters, *dense) = _train(compiled, task, weights, STEPS, random, sums)
    return TrainedModel(parameters, DenseHead(dense), sums)


def test_readouts(
    compiled: CompiledCircuit, task: Task, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the readouts [B, K] of the test split, and [K] with all angles 0."""
    rows = np.vstack([task.test_angles, np.zeros_like(task.test_angles[:1])])
    values = compiled.expectation(rows, parameters)
    return values[:-1], values[-1]


def _features(readouts: np.ndarray, zero: np.ndarray, *, sums: bool) -> np.ndarray:
    return (readouts - zero).sum(axis=1, keepdims=True) if sums else readouts


def _random_weights(
    compiled: CompiledCircuit, random: np.random.Generator, *, sums: bool
) -> list[np.ndarray]:
    widths = (1 if sums else compiled.readouts, HIDDEN, 1)
    dense: list[np.ndarray] = []
    for inner, outer in itertools.pairwise(widths):
        limit = np.sqrt(6 / (inner + outer))  # Glorot and Bengio, 2010
        dense += [random.uniform(-limit, limit, (inner, outer)), np.zeros(outer)]
    return [random.uniform(-np.pi, np.pi, len(compiled.parameters)), *dense]


def _train(
    compiled: CompiledCircuit,
    task: Task,
    weights: list[np.ndarray],
    steps: int,
    random: np.random.Generator,
    sums: bool,
) -> tuple[float, list[np.ndarray]]:
    """Return the loss over the last half of some steps, and the weights after them."""
    optimizer, losses = Adam(weights, RATE), []
    for _ in range(steps):
        rows = random.integers(len(task.labels), size=BATCH)
        angles = np.vstack([task.angles[rows], np.zeros_like(task.angles[:1])])
        labels = task.labels[rows]
        readouts, residuals = compiled.forward(angles, weights[0])
        values = _features(readouts[:-1], readouts[-1], sums=sums)
        head = DenseHead(weights[1:])
        losses.append(np.mean((head.predict(values)[:, 0] - labels) ** 2))
        parts = [
            head.gradients(value, label[None], BATCH)
            for value, label in zip(values, labels, strict=True)
        ]
        dense = [sum(arrays) for arrays in zip(*(part[1] for part in parts), strict=True)]
        upstream = np.zeros_like(readouts)
        upstream[:-1] = [part[0] for part in parts]  # broadcast to all readouts of a sum
        if sums:
            upstream[-1] = -upstream[:-1].sum(axis=0)
        slopes = compiled.vjp(
            angles, weights[0], upstream, residuals=residuals, input_gradients=False
        )
        weights = optimizer.step(weights, [slopes.parameters, *dense])
    return float(np.mean(losses[steps // 2 :])), weights


def _waves(angles: np.ndarray) -> np.ndarray:
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


BASELINES: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: _searched(LogisticRegression(max_iter=2000), "C"),
    "logistic regression of cos, sin": lambda: make_pipeline(
        FunctionTransformer(_waves), _searched(LogisticRegression(max_iter=2000), "C")
    ),
    "RBF SVM": lambda: _searched(SVC(), "C", gamma=["scale", 0.03, 0.1, 0.3, 1.0]),
}
"""Classical models by name. Their hyperparameters are chosen by cross-validation."""


def _searched(model: Any, regularization: str, **others: list[Any]) -> GridSearchCV:
    grid = {regularization: [0.1, 1.0, 10.0, 100.0], **others}
    return GridSearchCV(model, grid, cv=FOLDS)


def baseline_accuracy(name: str, task: Task) -> float:
    """Train a classical model, and return its accuracy on the test split."""
    fitted = BASELINES[name]().fit(task.angles, task.labels)
    return _accuracy(fitted.predict(task.test_angles), task.test_labels)


def _accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(np.where(predictions >= 0, 1, -1) == labels))
