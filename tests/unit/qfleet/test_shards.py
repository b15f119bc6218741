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


def results(simulator: object, *arguments: tf.Tensor) -> list[np.ndarray]:
    """Return the readouts, and the gradients of their sum by angles, parameters and states."""
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        values = simulator.expectation(*arguments)
    gradients = tape.gradient(values, arguments)
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


def test_halves_of_given_states_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardedSimulator, "_sum_over_processes", lambda self, rows: rows)
    random, compared = np.random.default_rng(4), 0
    for seed in range(16):
        case = random_case(seed, 6, 5, 3)
        circuit = case.circuit, case.inputs, case.parameters, case.observables
        states = random.normal(size=(3, 64)) + 1j * random.normal(size=(3, 64))
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        halves = [
            ShardedSimulator(*circuit, StateGroup(2, rank, 1), takes_states=True)
            for rank in range(2)
        ]
        if halves[0].plan.swaps or any(half._reads_other_shards for half in halves):
            continue  # with real processes, as above
        arguments = [*case.arguments(str(seed)), states.astype(np.complex64)]
        tensors = [tf.constant(one) for one in arguments]
        found = [results(half, *tensors) for half in halves]
        whole = results(build_simulator(*circuit, initial_states=True), *tensors)
        for first, second, expected in zip(*found, whole, strict=True):
            np.testing.assert_allclose(first + second, expected, atol=2e-4)
        compared += 1
    assert compared >= 3
