"""MODEL=kernel: tiles of the matrix, the fit, the Keras model, its settings and its report."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from common import models
from common.data import prepare
from common.data.target import SIGNS, Target
from common.errors import DataError, SettingsError, WeightsError
from common.model_circuits import kernel_circuit
from common.models.kernel_machine import (
    KernelShape,
    build_kernel_model,
    set_machine,
    weight_count,
)
from common.settings import Settings
from common.tuning import FOLDS, STRENGTHS
from inference.kernel_figures import KernelFigures, measure_kernel
from qfleet.engine import memory
from qfleet.kernels import FidelityKernel
from training.kernel.fit import Fit, Tuning, fit, tune
from training.kernel.tiles import TilePlan, assemble, compute_tiles, read_tile
from training.kernel.trainer import open_kernel_trainer

CLASSES = Target("classes", "label", ("a", "b", "c"))
BANDWIDTH = 0.125
NUMBER = Target("number", "label", center=2.0, scale=3.0)


def kernel_settings(*arguments: str) -> Settings:
    """Return settings of MODEL=kernel."""
    return Settings.from_args(["MODEL=kernel", *arguments])


def examples(rows: int, features: int = 3) -> np.ndarray:
    """Return random angles [rows, features] of float32."""
    return np.random.default_rng(rows).normal(0, 0.5, (rows, features)).astype(np.float32)


class CountedKernel:
    """A kernel that counts its calls."""

    def __init__(self, features: int = 3) -> None:
        circuit = kernel_circuit(kernel_settings("QUBITS=3").model, features, BANDWIDTH)
        self.kernel, self.calls = FidelityKernel(circuit.circuit, circuit.inputs), 0

    def __call__(self, *rows: np.ndarray) -> Any:
        self.calls += 1
        return self.kernel(*rows)


@pytest.mark.parametrize("rows", [1, 64, 65, 200, 5000])
def test_tiles_cover_each_pair_of_rows_once(rows: int, tmp_path: Path) -> None:
    plan = TilePlan(tmp_path, rows)
    covered = np.zeros((rows, rows), np.int8)
    for tile in plan.tiles:
        covered[tile.rows, tile.columns] += 1
    assert (np.triu(covered) == np.triu(np.ones_like(covered))).all()
    shares = [plan.assigned_to(worker, 3) for worker in range(3)]
    assert sorted(tile.index for share in shares for tile in share) == list(range(len(plan.tiles)))


def test_tiles_are_computed_once_by_any_number_of_workers(tmp_path: Path) -> None:
    plan, rows, counted = TilePlan(tmp_path, 150), examples(150), CountedKernel()
    first = compute_tiles(plan, counted, rows, 0, 2)  # and worker 1 was killed
    done = [compute_tiles(plan, counted, rows, worker, 3) for worker in range(3)]
    assert (first, sum(done), counted.calls) == (3, 3, 6)
    matrix = assemble(plan, counted, rows)
    assert counted.calls == 6
    np.testing.assert_allclose(matrix, counted.kernel(rows), atol=1e-14)
    np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("damage", [b"", b"\x01" * 40, None])
def test_damaged_tile_is_computed_again(damage: bytes | None, tmp_path: Path) -> None:
    plan, rows, counted = TilePlan(tmp_path, 100), examples(100), CountedKernel()
    compute_tiles(plan, counted, rows, 0, 1)
    path = plan.path(plan.tiles[1])
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\x55" if damage is None else damage)
    assert read_tile(plan, plan.tiles[1]) is None
    np.testing.assert_allclose(assemble(plan, counted, rows), counted.kernel(rows), atol=1e-14)
    assert path.read_bytes() == content


def test_stop_before_a_tile_keeps_the_others(tmp_path: Path) -> None:
    plan, rows = TilePlan(tmp_path, 200), examples(200)

    left = iter([True, True, False])

    def stop() -> None:
        if not next(left):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute_tiles(plan, CountedKernel(), rows, 0, 1, stop)
    assert [read_tile(plan, tile) is not None for tile in plan.tiles[:3]] == [True, True, False]


class Fitted(NamedTuple):
    """Rows, labels, their kernel matrix, the tuning with one bandwidth, and the fit."""

    rows: np.ndarray
    labels: np.ndarray
    matrix: np.ndarray
    tuning: Tuning
    fit: Fit


def fitted(target: Target) -> Fitted:
    """Return a fit of 120 rows."""
    rows = examples(120)
    labels = np.sin(2 * rows[:, 0]) + rows[:, 1]
    if target.classes:
        labels = np.digitize(labels, [0.0] if target is SIGNS else [-0.3, 0.3]).astype(np.float32)
        labels = 2 * labels - 1 if target is SIGNS else labels
    matrix = CountedKernel().kernel(rows)
    tuning = tune({BANDWIDTH: matrix}, np.arange(120), labels, target)
    return Fitted(rows, labels, matrix, tuning, fit(matrix, labels, target, tuning))


def test_two_classes_equal_a_support_vector_machine() -> None:
    _, labels, matrix, tuning, found = fitted(SIGNS)
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": list(STRENGTHS)}, cv=FOLDS)
    machine = search.fit(matrix, labels).best_estimator_
    assert (tuning.score, *tuning.strengths) == (search.best_score_, machine.C)
    values = (matrix @ found.coefficients + found.constant)[:, 0]
    np.testing.assert_allclose(values, machine.decision_function(matrix), atol=1e-9)
    assert set(found.support) == set(machine.support_)
    assert (np.sign(values) == labels).mean() > 0.9


def test_several_classes_have_a_machine_each() -> None:
    _, labels, matrix, tuning, found = fitted(CLASSES)
    assert len(tuning.strengths) == 3
    assert found.coefficients.shape == (120, 3)
    values = matrix @ found.coefficients + found.constant
    assert (values.argmax(axis=1) == labels).mean() > 0.85


def test_number_equals_kernel_ridge_around_the_mean() -> None:
    _, labels, matrix, tuning, found = fitted(NUMBER)
    ridge = KernelRidge(alpha=tuning.strengths[0], kernel="precomputed")
    ridge.fit(matrix, labels - labels.mean())
    values = (matrix @ found.coefficients + found.constant)[:, 0]
    np.testing.assert_allclose(values, ridge.predict(matrix) + labels.mean(), atol=1e-5)
    assert len(found.support) == 120


def test_fit_of_one_class_names_the_missing_one() -> None:
    with pytest.raises(DataError, match="class -1"):
        tune({1.0: np.eye(5)}, np.arange(5), np.ones(5, np.float32), SIGNS)


def test_tuning_takes_the_bandwidth_that_predicts_left_out_rows() -> None:
    _, labels, matrix, _, _ = fitted(SIGNS)
    some = np.arange(0, 120, 2)
    good, none = matrix[np.ix_(some, some)], np.eye(60)
    found = tune({0.5: none, BANDWIDTH: good, 2.0: none}, some, labels, SIGNS)
    assert found.bandwidth == BANDWIDTH
    assert str(found) == f"bandwidth=0.125, C={found.strengths[0]:g}"


@pytest.mark.parametrize("target", [SIGNS, CLASSES, NUMBER], ids=lambda target: target.kind)
def test_keras_model_equals_the_fit_and_is_rebuilt(target: Target, tmp_path: Path) -> None:
    rows, _, matrix, _, found = fitted(target)
    task = "TASK=regression" if target is NUMBER else "TASK=classification"
    settings = kernel_settings("QUBITS=3", task, "DATA=table.csv")
    support = found.support
    model = build_kernel_model(3, settings, target, KernelShape(len(support), BANDWIDTH))
    set_machine(model, rows[support], found.coefficients[support], found.constant)
    wanted = matrix @ found.coefficients + found.constant
    np.testing.assert_allclose(model(rows), wanted, atol=1e-5)
    assert not model.trainable_variables
    assert weight_count(model) == (len(support) + 1) * target.outputs
    encoding = {"target": target.to_json(), "placement": "angle"}
    described = models.describe_model(model, 3, settings, encoding)
    with pytest.raises(WeightsError, match="bandwidth"):
        models.rebuild(described, file := tmp_path / "weights.h5")
    described["bandwidth"] = BANDWIDTH
    model.save_weights(file)
    rebuilt = models.rebuild(described, file)
    np.testing.assert_array_equal(rebuilt(rows), model(rows))
    described["weights"] = [[0, 3], [0, 1], [1]]
    with pytest.raises(WeightsError):
        models.rebuild(described, file)


@pytest.mark.parametrize(
    "argument",
    ["NOISE=depolarizing:0.01", "SHOTS=100", "METHOD=tensor_network", "STATE_SHARDS=2",
     "PRUNE=0.1", "LOSS=huber", "CLASS_WEIGHTS=balanced", "ENCODER=reupload", "QUBITS=25",
     "TASK=energy", "SIMULATOR=tensorflow", "NORMALIZE_READOUTS=true", "ENCODER=amplitude"],
)  # fmt: skip
def test_kernel_refuses_settings_that_it_does_not_have(argument: str) -> None:
    with pytest.raises(SettingsError, match=argument.partition("=")[0]):
        kernel_settings(argument)


def test_more_features_than_qubits_name_both() -> None:
    with pytest.raises(SettingsError, match=r"QUBITS=2 .* 3 features"):
        kernel_circuit(kernel_settings("QUBITS=2").model, 3, BANDWIDTH)


def test_matrix_beyond_the_memory_names_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 24 * 1000**2)
    chief = SimpleNamespace(is_chief=True)
    context: Any = SimpleNamespace(cluster=chief, data=SimpleNamespace(rows=lambda split: 5000))
    opened = open_kernel_trainer(context)
    with pytest.raises(SettingsError, match="set TRAIN_EXAMPLES=1000 or less"):
        opened.__enter__()


def test_figures_show_blocks_spectrum_and_widths(tmp_path: Path) -> None:
    settings = kernel_settings("DATA=digits", "QUBITS=4")
    data = prepare(settings, tmp_path)
    figures = measure_kernel(settings.model, BANDWIDTH, data, seed=0)
    labels = data.split("train").labels
    count, half = len(figures.matrix), int((labels < 0).mean() * len(figures.matrix))
    assert count == min(300, len(labels))
    assert figures.eigenvalues.sum() == pytest.approx(1)
    assert (np.diff(figures.eigenvalues) <= 0).all()
    assert 1 < figures.dimension < count
    inner = figures.matrix[: half - 9, : half - 9].mean()
    assert inner > figures.matrix[: half - 9, half + 9 :].mean()
    assert [one.qubits for one in figures.widths] == [2, 3, 4]
    assert figures.widths[0].mean > figures.widths[-1].mean
    assert not figures.warning


def test_figures_warn_of_fidelities_that_concentrate() -> None:
    near, far = (np.full((4, 4), mean) + (1 - mean) * np.eye(4) for mean in (0.5, 0.005))
    eigenvalues = np.linalg.eigvalsh(far / 4)[::-1]
    assert not KernelFigures(near, eigenvalues, 0.25, ()).warning
    warning = KernelFigures(far, eigenvalues, 0.25, ()).warning
    assert "concentrate: their mean is 0.005" in warning
