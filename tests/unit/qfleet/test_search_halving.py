"""Candidates that are stopped early, in groups of as many gates that entangle."""

from pathlib import Path

import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.problems import named
from qfleet.search import DataTask, Evolution, Random, layers, search
from qfleet.search.halving import Halving
from qfleet.search.optimizers import adam, lbfgs


def quadratic(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = np.array([1.0, 30.0])
    return rows + (scale * points**4).sum(axis=1), 4 * scale * points**3


@pytest.mark.parametrize("optimizer", [lbfgs, adam])
def test_halving_trains_the_best_of_each_group(optimizer: object) -> None:
    start = np.full((12, 2), 1.0)
    groups = np.repeat([0, 1], [8, 4])
    halving = Halving(groups, 64, 4)
    found = optimizer(quadratic, start, evaluations=64, tolerance=1e-30, halving=halving)  # type: ignore[operator]
    # At 4 evaluations, two of eight continue and one of four; at 16 one of each group.
    stopped = np.delete(found.evaluations, [0, 8]).tolist()
    assert stopped == [16, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    assert found.evaluations[[0, 8]].min() > 16
    whole = optimizer(quadratic, start, evaluations=64, tolerance=1e-30)  # type: ignore[operator]
    np.testing.assert_array_equal(found.points[[0, 8]], whole.points[[0, 8]])


def test_search_with_halving_needs_fewer_evaluations() -> None:
    of, space = next(named("tfim:4:1.0").members()), layers(4, 2)
    method = Random(24)
    whole, halved = (
        search(of, space, method, evaluations=24, steps=64, starts=2, reduction_factor=factor)
        for factor in (1, 4)
    )
    assert halved.evaluations < 0.8 * whole.evaluations
    best = {one.candidate.key: one.energy for one in whole.history}
    assert [one.candidate.key for one in halved.history] == [*best]
    same = [abs(one.energy - best[one.candidate.key]) < 1e-9 for one in halved.history]
    assert any(same)
    assert not all(same)


def test_halving_of_data_keeps_one_of_each_price() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    labels = np.sign(rows[:, 0] * rows[:, 1])
    task = DataTask(rows, labels, rows, labels, "signs")
    space = layers(2, 1, inputs=task.inputs)
    options = {"evaluations": 8, "steps": 32, "tolerance": 1e-12}
    found = search(task, space, Evolution(8), starts=3, reduction_factor=4, **options)
    wide = [
        sum(space.gates[gate].entangles for gate in one.candidate.gates) for one in found.history
    ]
    most = dict.fromkeys(wide, 0)
    for count, one in zip(wide, found.history, strict=True):
        most[count] = max(most[count], one.evaluations)
    whole = search(task, space, Evolution(8), **options)
    assert found.evaluations < whole.evaluations
    assert min(most.values()) > 2


def test_history_of_halving_is_another_search(tmp_path: Path) -> None:
    of, space = next(named("tfim:3:1.0").members()), layers(3, 1)
    options = {"evaluations": 4, "steps": 5, "file": tmp_path / "h.jsonl"}
    found = search(of, space, Random(4), **options)
    with pytest.raises(ArgumentError, match="another search"):
        search(of, space, Random(4), reduction_factor=2, **options)
    assert found.history == search(of, space, Random(4), **options).history
