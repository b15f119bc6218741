"""A training step of real workers: one all-reduce, one graph, and its time by parts."""

from typing import Any

import numpy as np
import pytest

from tests.support import patience
from tests.support.step_worker import PAUSE, ROWS, STEPS
from tests.support.training_processes import run_two_workers

pytestmark = pytest.mark.exhaustive

OTHER = 3


@pytest.fixture(scope="module")
def workers() -> list[dict[str, Any]]:
    """The results of two workers."""
    return run_two_workers("tests.support.step_worker")


@pytest.mark.parametrize("path", ["all_reduced", "all_reduced by TensorFlow"])
def test_all_reduce_is_the_bit_identical_sum(workers, path: str) -> None:
    one, other = (worker[path] for worker in workers)
    assert all(found["correct"] for found in one + other)
    assert [found["bits"] for found in one] == [found["bits"] for found in other]


def test_step_has_one_collective_and_each_call_another(workers) -> None:
    for worker in workers:
        assert worker["trained"]["collectives"] == ["QfleetAllReduce"] * 2


def test_graphs_are_traced_once_and_calls_have_their_size(workers) -> None:
    for worker in workers:
        trained = worker["trained"]
        assert trained["traces"] == [1, 1, 0, 1]
        # 3 steps per call, a partial last call; steps 16 and 17 single; a resumed epoch's last two
        assert trained["steps"] == [[3, 3, 1], [3, 3, 1], [1, 1, 1, 3, 1], [3, 3, 1], [2]]


def test_epoch_counts_its_examples_if_resumed_too(workers) -> None:
    for worker in workers:
        *whole, resumed = worker["trained"]["examples"]
        assert whole == [ROWS] * 4
        assert resumed == pytest.approx(ROWS * 5 / STEPS + ROWS - 5 * 64)
        one, two = worker["trained"]["measured"]
        assert one["examples"] == ROWS
        assert one["mse"] == pytest.approx(two["mse"])


def test_step_parts_sum_to_the_elapsed_time(workers) -> None:
    for worker in workers:
        for case in ("trained", "one simulates longer", "one waits for input"):
            result = worker[case]
            for times, seconds in zip(result["times"], result["seconds"], strict=True):
                assert min(times) >= 0
                assert sum(times) == pytest.approx(seconds, rel=0.01, abs=patience.seconds(0.1))


def require_times(found: Any, pauses: Any) -> None:
    """Check times that consist of pauses; a busy machine adds to them."""
    short = 0.4 * PAUSE * STEPS
    assert np.all(np.subtract(found, pauses) >= -short), (found, pauses)
    assert np.all(np.subtract(found, pauses) <= patience.seconds(short / 2)), (found, pauses)


def test_step_parts_are_timed_where_they_happen(workers) -> None:
    for rank, worker in enumerate(workers):
        # Rank 0 waits for rank 1 in its all-reduces.
        own, other = rank * PAUSE * STEPS, (1 - rank) * PAUSE * STEPS
        simulates, waits = worker["one simulates longer"], worker["one waits for input"]
        require_times(simulates["times"][1][:OTHER], [own, other, 0])
        # The wait of the last step is not shared.
        require_times(simulates["waits"][1], other * (STEPS - 1) / STEPS)
        require_times(waits["times"][1][:OTHER], [0, other, own])
