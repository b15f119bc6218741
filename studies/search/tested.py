"""The test split of a search for data: the circuits of the front, and classical models."""

from collections.abc import Sequence
from dataclasses import dataclass

import cirq
import numpy as np

from common.data import Examples
from common.text import plural
from inference.baseline import MAX_ROWS, MAX_TEST_ROWS, Baseline, fit_baselines
from qfleet.engine.compiled_circuit import compile_circuit
from studies.search.definition import SearchDefinition
from studies.search.found import FoundCircuit


@dataclass(frozen=True)
class SplitScores:
    """Scores of the test split.

    Attributes:
        metric: "accuracy" or "mse".
        circuits: The metric of each circuit of the front.
        baselines: Classical models, trained on the training split.
        trained_rows: Rows that the circuits were trained on.
        rows: Rows of the test split.
    """

    metric: str
    circuits: tuple[float, ...]
    baselines: tuple[Baseline, ...]
    trained_rows: int
    rows: int

    def lines(self) -> list[str]:
        """Return a line of text for each classical model."""
        return [
            f"{one.name}: test {self.metric} {one.metrics[self.metric]:.4g}, trained on"
            f" {plural(one.train_rows, 'row')}"
            for one in self.baselines
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and rows of a table of all models."""
        named = [(f"circuit {at}", one) for at, one in enumerate(self.circuits)]
        models = [(name, score, self.trained_rows) for name, score in named]
        models += [(one.name, one.metrics[self.metric], one.train_rows) for one in self.baselines]
        headings = ["model", f"test {self.metric}", "rows of training"]
        return headings, [[name, f"{score:.4g}", f"{rows:,}"] for name, score, rows in models]


def score_front(definition: SearchDefinition, found: Sequence[FoundCircuit]) -> SplitScores | None:
    """Return the scores of the front; None for a Hamiltonian.

    The test split is read here only, after all circuits have been chosen.

    Args:
        definition: The search.
        found: The front.
    """
    if not definition.has_data:
        return None
    task, data = definition.rows, definition.dataset
    tested = data.sample("test", MAX_TEST_ROWS)
    tested = Examples(*(part[:MAX_TEST_ROWS] for part in tested))
    errors = [_error(definition, one, tested) for one in found]
    is_number = task.kind == "number"
    metric = "mse" if is_number else "accuracy"
    weights = max((len(one.free[1]) + len(one.result.head) for one in found), default=1)
    seed = definition.settings.data.seed
    train = data.sample("train", MAX_ROWS)
    baselines = fit_baselines(data.target, train, tested, weights, seed)
    scores = tuple(one if is_number else 1 - one for one in errors)
    return SplitScores(metric, scores, tuple(baselines), len(task.labels), len(tested.labels))


def _error(definition: SearchDefinition, one: FoundCircuit, tested: Examples) -> float:
    circuit, angles = one.free
    task = definition.rows
    readouts = [cirq.Z(qubit) for qubit in sorted(circuit.all_qubits())]
    compiled = compile_circuit(circuit, task.inputs, tuple(angles), readouts)
    rows = np.asarray(tested.angles, np.float64)
    values = np.asarray(compiled.expectation(rows, np.array([*angles.values()])))
    outputs = task.predictions(values[np.newaxis], np.array([one.result.head]))
    return float(task.loss(outputs, np.asarray(tested.labels, np.float64)).errors[0])
