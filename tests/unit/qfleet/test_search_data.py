"""Search of circuits for data: gradients, results against Cirq, and refusals."""

import cirq
import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.search import Candidate, DataTask, GatePruning, Random, blocks, layers, search
from qfleet.search.crew import Crew
from qfleet.search.data_trainer import DataTrainer
from qfleet.search.optimizers import Function, Minima
from qfleet.search.training import Training

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.uniform(-1.5, 1.5, (30, 3))
LABELS = {
    "signs": np.sign(ROWS[:, 0] * ROWS[:, 1]),
    "classes": (ROWS[:, 0] > 0.3).astype(float) + (ROWS[:, 2] > 0),
    "number": ROWS[:, 0] * ROWS[:, 1],
}


def task(kind: str) -> DataTask:
    labels, classes = LABELS[kind], 3 if kind == "classes" else 0
    return DataTask(ROWS[:20], labels[:20], ROWS[20:], labels[20:], kind, classes, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["signs", "classes", "number"])
def test_loss_of_candidates_has_its_gradient(kind: str) -> None:
    problem = task(kind)
    space = layers(2, 2, inputs=problem.inputs)
    every = tuple(range(len(space.gates)))
    starts = [every, every[::2]]
    candidates = [
        Candidate(one, ()).trained(RANDOM.normal(0, 0.5, space.angle_count(one))) for one in starts
    ]

    def check(function: Function, start: np.ndarray, **_: object) -> Minima:
        rows = np.arange(2)
        point = start + RANDOM.normal(0, 0.3, start.shape)
        values, slopes = function(rows, point)
        for one in 1e-5 * np.eye(point.shape[1]):
            upper, lower = function(rows, point + one)[0], function(rows, point - one)[0]
            np.testing.assert_allclose(slopes @ one * 1e5, (upper - lower) / 2e-5, atol=1e-7)
        return Minima(point, values, np.ones(2, np.int64))

    training = Training("check", check, 1, 0.0, 1, 0.0)  # type: ignore[arg-type]
    assert len(Crew(DataTrainer, (space, problem, training), 1).train(candidates, RANDOM)) == 2


@pytest.mark.parametrize("kind", ["signs", "classes", "number"])
def test_result_has_the_validation_loss_of_its_circuit(kind: str) -> None:
    problem = task(kind)
    space = layers(2, 2, inputs=problem.inputs)
    found = search(problem, space, Random(6), evaluations=6, steps=15)
    for one in found.front:
        circuit, angles = found.free_circuit(one)
        values = []
        for row in problem.validation:
            rows = dict(zip(problem.inputs, row, strict=True))
            state = cirq.Simulator(dtype=np.complex128).simulate(circuit, {**angles, **rows})
            chances = np.abs(state.final_state_vector.reshape(2, 2)) ** 2
            signs = np.array([1.0, -1.0])
            values.append([chances.sum(1) @ signs, chances.sum(0) @ signs])
        weights = np.array(one.head).reshape(3, problem.outputs)
        outputs = np.array(values) @ weights[:2] + weights[2]
        labels = problem.validation_labels
        if kind == "classes":
            logits = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
            loss = -logits[np.arange(10), labels.astype(int)].mean()
            error = (outputs.argmax(1) != labels).mean()
        else:
            loss = ((outputs[:, 0] - labels) ** 2).mean()
            error = 4 * loss if kind == "number" else ((outputs[:, 0] >= 0) != (labels > 0)).mean()
        assert one.energy == pytest.approx(loss, abs=1e-6)
        assert one.error == pytest.approx(error, abs=1e-6)


def test_pruning_finds_the_feature_that_matters(tmp_path) -> None:
    labels = np.sign(np.sin(ROWS[:, 1]))
    problem = DataTask(ROWS[:20], labels[:20], ROWS[20:], labels[20:], "signs")
    space = layers(2, 1, inputs=problem.inputs)
    options = {"evaluations": 600, "steps": 30, "tolerance": 1e-4, "seed": 1}
    file = tmp_path / "history.jsonl"
    found = search(problem, space, GatePruning(), file=file, **options)
    assert found.front[-1].two_qubit_gates == 0
    assert found.best.error <= 0.1
    before = file.read_bytes()
    assert search(problem, space, GatePruning(), file=file, **options).history == found.history
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"space": blocks(2)}, "not ordered"),
        ({"space": layers(2, 1, inputs=["y"])}, "encodes y"),
        ({"method": "adapt"}, "GatePruning"),
        ({"kind": "signs"}, "labels has 0.3"),
        ({"labels": ROWS[:19, 0]}, "shape"),
        ({"validation": ROWS[20:, :2]}, "2 features"),
        ({"train": np.full((20, 3), np.nan)}, "not finite"),
    ],
)
def test_data_that_do_not_fit_are_one_sentence(change: dict[str, object], text: str) -> None:
    values = np.full(30, 0.3)
    content = {
        "train": ROWS[:20], "labels": values[:20], "validation": ROWS[20:],
        "validation_labels": values[20:], "kind": "number",
    }  # fmt: skip
    content |= {name: one for name, one in change.items() if name in content}
    space = change.get("space") or layers(2, 1, inputs=["x_00", "x_01", "x_02"])
    method = change.get("method", "random")
    with pytest.raises(ArgumentError, match=text) as caught:
        search(DataTask(**content), space, method, evaluations=64)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
