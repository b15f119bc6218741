"""All layers under MultiWorkerMirroredStrategy, with two real workers."""

from typing import Any

import numpy as np
import pytest

from tests.support.training_processes import run_two_workers

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of two workers."""
    return run_two_workers("tests.support.layers_worker", str(tmp_path_factory.mktemp("workers")))


def test_all_workers_end_with_equal_weights(workers: list[dict[str, Any]]) -> None:
    one, other = workers
    assert one["loss"] == other["loss"]
    assert one["loss"][-1] < one["loss"][0]
    for a, b in zip(one["weights"], other["weights"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_shots_differ_between_calls_and_workers(
    workers: list[dict[str, Any]],
) -> None:
    (first, _), (second, _) = workers[0]["drawn"]
    assert first != second
    assert first != workers[1]["drawn"][0][0]


def test_equal_seeds_draw_equal_shots(workers: list[dict[str, Any]]) -> None:
    for worker in workers:
        for layer, twin in worker["drawn"]:
            assert layer == twin


def test_saved_model_predicts_equally(workers: list[dict[str, Any]]) -> None:
    assert [worker["same"] for worker in workers] == [True, True]
