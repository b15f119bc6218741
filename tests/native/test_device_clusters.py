"""States in the shared memory of clusters of thread blocks, compared with the engine on the CPU.

HOST_EXECUTOR_CLUSTER is the largest cluster of the host executor, which has room for 10 qubits of
complex64 in a thread block, and for 9 of complex128.
"""

import numpy as np
import pytest

import qfleet
from tests.support.device_circuits import (
    TOLERANCE,
    assert_close,
    check_gradients,
    compile_both,
    draw_circuit,
    draw_point,
)
from tests.support.device_library import DEVICE, build_device_library

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)
pytestmark = pytest.mark.skipif(DEVICE != "host", reason="a GPU has clusters of its own sizes")

BLOCK_QUBITS = {"complex64": 10, "complex128": 9}
SEEDS = (1, 2, 3)
Pair = tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit]


def pair_of(width: int, seed: int, dtype: str, **options: bool) -> Pair:
    """Compile a random circuit for the device and for the CPU; a program keeps its clusters."""
    circuit, observables = draw_circuit(width, seed)
    return compile_both(circuit, observables, dtype=dtype, method="subspace", **options)


def upstream_of(compiled: qfleet.CompiledCircuit, batch: int, seed: int) -> np.ndarray:
    """Draw the gradient of a loss by the values."""
    return np.random.default_rng(seed).normal(size=(batch, compiled.readouts))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("blocks", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_clusters_of_each_size_equal_the_cpu(
    dtype: str, blocks: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_EXECUTOR_CLUSTER", "16")
    width = BLOCK_QUBITS[dtype] + blocks.bit_length() - 1
    made, wanted = pair_of(width, 20 + seed, dtype)
    batch = 1 + 2 * (seed % 2)
    point, upstream = draw_point(seed, batch), upstream_of(made, batch, seed)
    for by_inputs in (True, False):
        check_gradients((made, wanted), point, upstream, dtype, input_gradients=by_inputs)
    assert_close(made.expectation(*point), wanted.expectation(*point), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_states_per_example_in_clusters_equal_the_cpu(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_EXECUTOR_CLUSTER", "8")
    width, batch = BLOCK_QUBITS[dtype] + 3, 2
    made, wanted = pair_of(width, 4, dtype, initial_states=True)
    rng = np.random.default_rng(5)
    states = rng.normal(size=(batch, 1 << width)) + 1j * rng.normal(size=(batch, 1 << width))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    options = {"initial_states": states, "state_gradients": True, "input_gradients": True}
    upstream = upstream_of(made, batch, 6)
    check_gradients((made, wanted), draw_point(6, batch), upstream, dtype, **options)


def test_calls_in_clusters_give_equal_bits() -> None:
    made, _ = pair_of(12, 3, "complex64")
    point, upstream = draw_point(7, 5), upstream_of(made, 5, 7)
    first, second = (made.value_and_gradient(*point, upstream) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1].parameters, second[1].parameters)
    np.testing.assert_array_equal(first[1].inputs, second[1].inputs)
