"""The cells of the study: trainings of one width and depth, and truncations of one depth."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cirq
import numpy as np

from benchmarks.wide_study import learning, truncation

SEEDS = (1, 2, 3, 4, 5)
WIDTHS = {"excitations": (8, 16, 64, 256, 1024), "digits": (8, 16, 64)}
EXAMPLES = {"excitations": (50, 200, 800), "digits": (50, 100, 200)}
TEST_EXAMPLES = {"excitations": 1000, "digits": 100}
DEEP_EXAMPLES = 200
"""Training examples of a model of two layers."""

DEEP_WIDTHS = {"excitations": WIDTHS["excitations"], "digits": (8, 16)}
"""Widths of two layers. With 64 turned qubits, a training takes minutes."""

TRUNCATED_QUBITS, TRUNCATED_EXAMPLES = 16, 800
WEIGHTS = {1: (1, 2, 3, 4, 5, 6, 8), 2: (1, 2, 3)}
"""Pauli weights of the truncation by LAYERS. The cone of one layer has 8 qubits."""

Result = dict[str, Any]


class Cell(ABC):
    """A part of the study that is computed at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The cell in the results: its settings."""

    @abstractmethod
    def run(self) -> list[Result]:
        """Return the rows of the cell's results."""


@dataclass(frozen=True)
class TrainingCell(Cell):
    """The accuracy of a model on the test split, or without layers, of the classical models."""

    data: str
    qubits: int
    layers: int
    examples: int
    seed: int

    @property
    def name(self) -> str:
        """The cell in the results: its settings."""
        return f"{self.data} {self.qubits} {self.layers} {self.examples} {self.seed}"

    def run(self) -> list[Result]:
        """Train the models."""
        task = learning.load_task(
            self.data, self.qubits, self.examples, TEST_EXAMPLES[self.data], self.seed
        )
        return [
            {
                "data": self.data,
                "qubits": self.qubits,
                "layers": self.layers,
                "examples": self.examples,
                "model": model,
                "accuracy": round(accuracy, 4),
            }
            for model, accuracy in self._accuracies(task)
        ]

    def _accuracies(self, task: learning.Task) -> Iterator[tuple[str, float]]:
        if not self.layers:
            for name in learning.BASELINES:
                yield name, learning.baseline_accuracy(name, task)
            return
        _, compiled = compiled_model(self.data, self.qubits, self.layers)
        for head, sums in (("dense", False), ("sum", True)):
            model = learning.train_model(compiled, task, self.seed, sums=sums)
            readouts = learning.test_readouts(compiled, task, model.parameters)
            yield f"QCNN, {head}", model.accuracy(*readouts, task.test_labels)


@dataclass(frozen=True)
class TruncationCell(Cell):
    """The error of truncated readouts, with random and with trained angles."""

    layers: int
    seed: int

    @property
    def name(self) -> str:
        """The cell in the results: its settings."""
        return f"truncation {self.layers} {self.seed}"

    def run(self) -> list[Result]:
        """Train a model, and truncate its readouts and those of random angles."""
        task = learning.load_task(
            "excitations", TRUNCATED_QUBITS, TRUNCATED_EXAMPLES, 200, self.seed
        )
        made, compiled = compiled_model("excitations", TRUNCATED_QUBITS, self.layers)
        trained = learning.train_model(compiled, task, self.seed, sums=False)
        angles = np.random.default_rng(self.seed).uniform(-np.pi, np.pi, len(made.parameters))
        readouts = [observable.qubits[0].col for observable in made.observables]
        rows = []
        for kind, parameters in (("random", angles), ("trained", trained.parameters)):
            exact, zero = learning.test_readouts(compiled, task, parameters)
            circuit = cirq.resolve_parameters(
                made.circuit, dict(zip(made.parameters, parameters, strict=True))
            )
            for weight in WEIGHTS[self.layers]:
                values = truncation.truncated_readouts(circuit, readouts, task.test_angles, weight)
                row: Result = {"layers": self.layers, "angles": kind, "weight": weight}
                row["rms"] = float(np.sqrt(np.mean((values - exact) ** 2)))
                row["scale"] = float(np.sqrt(np.mean(exact**2)))
                if kind == "trained":
                    row["accuracy"] = trained.accuracy(values, zero, task.test_labels)
                    row["exact accuracy"] = trained.accuracy(exact, zero, task.test_labels)
                rows.append(row)
        return rows


@functools.lru_cache(maxsize=1)
def compiled_model(data: str, qubits: int, layers: int) -> tuple[Any, Any]:
    """Return a compiled model; the cells of one model follow each other."""
    return learning.compile_model(data, qubits, layers)


def all_cells(*, quick: bool) -> Iterator[Cell]:
    """Yield the cells; a quick study has one seed and narrow models of one layer."""
    for data, widths in WIDTHS.items():
        for qubits in widths[:2] if quick else widths:
            for layers in (0, 1) if quick else (0, 1, 2):
                if layers < 2 or qubits in DEEP_WIDTHS[data]:
                    yield from _trainings(data, qubits, layers, quick=quick)
    for layers in (1,) if quick else WEIGHTS:
        for seed in SEEDS[:1] if quick else SEEDS:
            yield TruncationCell(layers, seed)


def _trainings(data: str, qubits: int, layers: int, *, quick: bool) -> Iterator[Cell]:
    sizes = (DEEP_EXAMPLES,) if quick or layers > 1 else EXAMPLES[data]
    for examples in sizes:
        for seed in SEEDS[:1] if quick else SEEDS:
            yield TrainingCell(data, qubits, layers, examples, seed)
