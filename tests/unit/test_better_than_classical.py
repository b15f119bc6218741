"""The example examples/better_than_classical: its tasks, its circuits, the choice of settings."""

from pathlib import Path

import cirq
import numpy as np
import pandas as pd
import pytest

from common.settings import Settings
from examples.better_than_classical import data, models, run
from qfleet.tensorflow.layers import Expectation


@pytest.mark.parametrize("task", data.TASKS)
def test_tables_of_a_task_are_disjoint_and_balanced(tmp_path: Path, task: str) -> None:
    data.write_tables(task, tmp_path, 200, 5)
    tables = pd.concat(pd.read_csv(tmp_path / f"{name}.csv") for name in ("tuning", "table"))
    assert tables.shape == (400, 6)
    assert tables["label"].value_counts().to_dict() == {-1: 200, 1: 200}
    assert not tables.duplicated().any()


def test_linearly_separable_has_a_margin() -> None:
    x, labels = data.linearly_separable(100, 4, np.random.default_rng(0))
    assert (x.sum(axis=1) * labels).min() > 0.08


def test_two_curves_differ_by_the_offset() -> None:
    x, labels = data.two_curves(40_000, 3, np.random.default_rng(0))
    assert x[labels > 0].mean(0) - x[labels < 0].mean(0) == pytest.approx(0.1, abs=0.01)


def test_state_preparation_has_normalised_amplitudes() -> None:
    x = np.random.default_rng(0).normal(size=(1, 6)).astype(np.float32)
    padded = np.append(x[0], [1 / 8, 1 / 8])
    names = [f"a{index}" for index in range(7)]
    values = models._amplitude_angles(models.tf.constant(x), 8)[0].numpy()
    circuit = models._state_preparation(cirq.LineQubit.range(3), names)
    state = circuit.final_state_vector(
        param_resolver=dict(zip(names, map(float, values), strict=True))
    )
    assert state == pytest.approx(padded / np.linalg.norm(padded), abs=1e-6)


@pytest.mark.parametrize("features", [2, 5])
@pytest.mark.parametrize("name", [name for name in run.MODELS if ":" in name])
def test_model_depends_on_the_features(name: str, features: int) -> None:
    model = getattr(models, name.partition(":")[2])(features, Settings.from_values(seed=3))
    outputs = model(np.array([[0.3] * features, [0.1] * (features - 1) + [0.9]])).numpy()
    assert outputs.shape == (2, 1)
    assert abs(outputs[1, 0] - outputs[0, 0]) > 1e-5


def test_separable_circuit_has_no_entangling_gates() -> None:
    widest = {}
    for build in (models.dressed, models.dressed_separable):
        (layer,) = (
            one for one in build(4, Settings.from_values()).layers if isinstance(one, Expectation)
        )
        widest[build.__name__] = max(len(gate.qubits) for gate in layer.circuit.all_operations())
    assert widest == {"dressed": 2, "dressed_separable": 1}


def test_rate_is_tuned_by_validation_accuracy_then_error() -> None:
    trials = pd.DataFrame(
        [("a", 0.1, 0.8, 0.5), ("a", 0.3, 0.9, 0.4), ("b", 0.1, 0.7, 0.3), ("b", 0.3, 0.7, 0.2)],
        columns=["model", "learning_rate", "validation accuracy", "validation mse"],
    )
    assert run.tuned_rates(trials) == {"a": 0.3, "b": 0.3}


def test_differences_are_paired_by_seed() -> None:
    rows = pd.DataFrame(
        [
            ("t", title, seed, 0.5 + 0.2 * seed + gains[seed])
            for title, gains in ((run.ENTANGLED, (0, 0)), (run.SEPARABLE, (0.1, 0.11)))
            for seed in (0, 1)
        ],
        columns=["task", "model", "seed", "accuracy"],
    )
    assert run.differences(rows).loc[run.SEPARABLE, "t"] == "+0.105 (+0.041 to +0.169)"
