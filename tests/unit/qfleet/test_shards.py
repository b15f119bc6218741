"""Both halves of a state that two processes share, computed in this process one after the other."""

import numpy as np
import pytest

from qfleet import native
from qfleet.distributed.state_group import StateGroup
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.sharded_simulator import ShardedSimulator
from tests.support.sharding_cases import random_case

pytestmark = pytest.mark.skipif(
    native.unavailable_reason() is not None, reason=str(native.unavailable_reason())
)


def results(simulator: object, angles: tf.Tensor, parameters: tf.Tensor) -> list[np.ndarray]:
    """Return the readouts, and the gradients of their sum by angles and parameters."""
    with tf.GradientTape() as tape:
        tape.watch([angles, parameters])
        values = simulator.expectation(angles, parameters)
    gradients = tape.gradient(values, [angles, parameters])
    return [values.numpy(), *(one.numpy() for one in gradients)]


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.nightly), 20])
def test_halves_of_random_circuits_add_up(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardedSimulator, "_sum_over_processes", lambda self, rows: rows)
    compared = 0
    for seed in range(12):
        case = random_case(seed, 10, 10, batch)
        circuit = case.circuit, case.inputs, case.parameters, case.observables
        halves = [ShardedSimulator(*circuit, StateGroup(2, rank, 1)) for rank in range(2)]
        if halves[0].plan.swaps or any(half._reads_other_shards for half in halves):
            continue  # test_sharded_state.py, with real processes
        arguments = [tf.constant(one) for one in case.arguments(str(seed))]
        found = [results(half, *arguments) for half in halves]
        whole = results(build_simulator(*circuit), *arguments)
        for first, second, expected in zip(*found, whole, strict=True):
            np.testing.assert_allclose(first + second, expected, atol=2e-4)
        compared += 1
    assert compared >= 4
