"""All layers under MultiWorkerMirroredStrategy, in two real workers."""

from typing import Any

import numpy as np
import pytest

from tests.support.training_processes import run_two_workers


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers said."""
    return run_two_workers("tests.support.layers_worker", str(tmp_path_factory.mktemp("gang")))


def test_all_workers_end_with_the_same_weights(workers: list[dict[str, Any]]) -> None:
    one, other = workers
    assert one["loss"] == other["loss"]
    assert one["loss"][-1] < one["loss"][0]
    for a, b in zip(one["weights"], other["weights"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_shots_are_fresh_at_each_call_and_of_each_worker_s_own(
    workers: list[dict[str, Any]],
) -> None:
    (first, _), (second, _) = workers[0]["drawn"]
    assert first != second
    assert first != workers[1]["drawn"][0][0]


def test_the_same_seed_draws_the_same_shots(workers: list[dict[str, Any]]) -> None:
    for worker in workers:
        for layer, twin in worker["drawn"]:
            assert layer == twin


def test_a_model_saved_under_the_strategy_answers_alike(workers: list[dict[str, Any]]) -> None:
    assert [worker["same"] for worker in workers] == [True, True]
