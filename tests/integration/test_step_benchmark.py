"""A training step of real workers: one exchange, one graph, and where its time goes."""

from typing import Any

import numpy as np
import pytest

from tests.support.step_worker import PAUSE, ROWS, STEPS
from tests.support.training_processes import run_two_workers

INPUT, OTHER = 2, 3


@pytest.fixture(scope="module")
def workers() -> list[dict[str, Any]]:
    """What each of two workers said."""
    return run_two_workers("tests.support.step_worker")


@pytest.mark.parametrize("way", ["exchanged", "exchanged by TensorFlow"])
def test_an_exchange_is_the_sum_and_the_same_bits_in_every_worker(workers, way: str) -> None:
    one, other = (worker[way] for worker in workers)
    assert all(found["right"] for found in one + other)
    assert [found["bits"] for found in one] == [found["bits"] for found in other]


def test_a_step_has_one_exchange_and_asks_nobody_for_its_batch(workers) -> None:
    for worker in workers:
        assert worker["trained"]["collectives"] == ["QfleetExchange"]


def test_each_graph_is_made_once_and_calls_are_cut_where_they_are_told(workers) -> None:
    for worker in workers:
        trained = worker["trained"]
        assert trained["traces"] == [1, 1, 0, 1]
        # 3 steps a call, a partial last one; steps 16 and 17 each alone; a resumed epoch's last two
        assert trained["steps"] == [[3, 3, 1], [3, 3, 1], [1, 1, 1, 3, 1], [3, 3, 1], [2]]


def test_an_epoch_counts_its_examples_also_where_it_is_taken_up(workers) -> None:
    for worker in workers:
        *whole, resumed = worker["trained"]["examples"]
        assert whole == [ROWS] * 4
        assert resumed == pytest.approx(ROWS * 5 / STEPS + ROWS - 5 * 64)
        one, two = worker["trained"]["measured"]
        assert one["examples"] == ROWS
        assert one["mse"] == pytest.approx(two["mse"])


def test_the_parts_of_a_step_sum_to_the_time_that_passed(workers) -> None:
    for worker in workers:
        for case in ("trained", "one simulates longer", "one waits for input"):
            said = worker[case]
            for times, seconds in zip(said["times"], said["seconds"], strict=True):
                assert min(times) >= 0
                assert sum(times) == pytest.approx(seconds, rel=0.01, abs=0.03)


def test_input_is_ready_before_it_is_wanted(workers) -> None:
    for worker in workers:
        steps = [sum(calls) for calls in worker["trained"]["steps"]]
        times = [np.array(t) / n for t, n in zip(worker["trained"]["times"], steps, strict=True)]
        assert min(step[INPUT] for step in times[1:4]) < 2e-3


def test_each_part_of_a_step_is_timed_where_it_happens(workers) -> None:
    slack = 0.4 * PAUSE * STEPS  # the machine may be busy
    for rank, worker in enumerate(workers):
        # Rank 0 waits in its exchanges for rank 1.
        own, other = rank * PAUSE * STEPS, (1 - rank) * PAUSE * STEPS
        times = worker["one simulates longer"]["times"][1]
        np.testing.assert_allclose(times[:OTHER], [own, other, 0], atol=slack)
        # The last step's wait is told to nobody.
        waited = worker["one simulates longer"]["waited"][1]
        assert waited == pytest.approx(other * (STEPS - 1) / STEPS, abs=slack)
        times = worker["one waits for input"]["times"][1]
        np.testing.assert_allclose(times[:OTHER], [0, other, own], atol=slack)
