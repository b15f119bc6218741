"""Memory and failures of a device: planned, given back, and one sentence; by the host executor."""

import gc
import pickle
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from common.errors import DeviceLost, as_qfleet_error
from qfleet.engine import devices
from tests.native.test_device_density import compile_pair as compile_density
from tests.native.test_device_density import point_of
from tests.support.device_circuits import assert_close, compile_both, draw_point
from tests.support.device_library import DEVICE, build_device_library
from tests.support.random_circuits import INPUTS, PARAMETERS

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)
pytestmark = pytest.mark.skipif(DEVICE != "host", reason="a GPU has more memory, and is not lost")

WIDTH, BATCH = 11, 3
WIDTH_OF_CLUSTERS = 12  # two states of so few qubits have no room in a thread block
STATE_BYTES = 8 << WIDTH
TOLERANCE = {"complex64": 3e-5}
Pair = tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit]


@pytest.fixture(autouse=True)
def no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let states be in the device's memory, as on a GPU without clusters of thread blocks."""
    monkeypatch.setenv("HOST_EXECUTOR_CLUSTER", "1")


def used_bytes() -> int:
    """Return the memory that programs cannot give to others."""
    info = devices.info_of(devices.resolve(DEVICE))
    return info.total_bytes - info.free_bytes


def leave(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device have some free memory, and what programs hold for their next call."""
    monkeypatch.setenv("HOST_EXECUTOR_BYTES", str(used_bytes() + free))


@cache
def pair_of(kind: str = "values", width: int = WIDTH) -> Pair:
    """Compile a circuit for the device and for the CPU."""
    if kind == "density":
        return compile_density(6, "complex64")
    qubits = cirq.LineQubit.range(width)
    symbols = sympy.symbols((*INPUTS, *PARAMETERS))
    gates = [cirq.ry(symbols[at % len(symbols)] + at).on(one) for at, one in enumerate(qubits)]
    circuit = cirq.Circuit(gates, [cirq.CZ(*pair) for pair in pairwise(qubits)], cirq.H(qubits[0]))
    observables = [] if kind == "states" else [cirq.X(one) for one in qubits]
    options = {"dtype": "complex64", "method": "auto" if kind == "states" else "state_vector"}
    return compile_both(circuit, observables, **options, initial_states=kind == "initial states")


def copy_of(kind: str, width: int = WIDTH) -> qfleet.CompiledCircuit:
    """Return a program of the device that has no memory for calls yet."""
    copied: qfleet.CompiledCircuit = pickle.loads(pickle.dumps(pair_of(kind, width)[0]))
    return copied


def values(one: qfleet.CompiledCircuit) -> np.ndarray:
    return one.expectation(*draw_point(1, BATCH))


def gradient(one: qfleet.CompiledCircuit) -> np.ndarray:
    return one.value_and_gradient(*draw_point(1, BATCH))[1].parameters


def product(one: qfleet.CompiledCircuit) -> np.ndarray:
    point = draw_point(1, BATCH)
    return one.hvp(*point, None, *point)[1].parameters


def states(one: qfleet.CompiledCircuit) -> np.ndarray:
    return one.state(*draw_point(1, BATCH))


def samples(one: qfleet.CompiledCircuit) -> np.ndarray:
    return one.sample(*draw_point(1, BATCH), shots=20, seed=3)


def gradient_by_state(one: qfleet.CompiledCircuit) -> np.ndarray:
    upstream = np.random.default_rng(1).normal(size=(BATCH, 2**WIDTH)) / 2 ** (WIDTH / 2)
    return one.state_vjp(*draw_point(1, BATCH), upstream.astype(one.dtype)).parameters


def gradient_by_initial_state(one: qfleet.CompiledCircuit) -> np.ndarray:
    start = np.zeros((BATCH, 2**WIDTH), one.dtype)
    start[:, 5] = 1
    options = {"initial_states": start, "state_gradients": True}
    _, gradients = one.value_and_gradient(*draw_point(1, BATCH), **options)
    assert gradients.initial_states is not None
    return gradients.initial_states


def gradient_of_density(one: qfleet.CompiledCircuit) -> np.ndarray:
    return one.value_and_gradient(*point_of(BATCH))[1].parameters


CALLS: dict[str, tuple[str, Callable[[Any], np.ndarray]]] = {
    "a state of 11": ("values", values),
    "a gradient of 11": ("values", gradient),
    "a Hessian-vector product of 11": ("values", product),
    "samples of 11": ("states", samples),
    "a gradient by a state of 11": ("states", gradient_by_state),
    "a density matrix of 4": ("density", gradient_of_density),
}
"""Beginnings of the sentences of calls: the kind of a program, and the call."""

ROOM = {product: 2, gradient_by_state: 3}
"""Bytes of states that are left, as there are before the memory that is refused; 1 for others."""

MORE_CALLS = {
    **CALLS,
    "states": ("states", states),
    "initial states": ("initial states", gradient_by_initial_state),
}


@pytest.mark.parametrize("name", MORE_CALLS)
def test_call_without_room_is_a_sentence_and_then_works(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, call = MORE_CALLS[name]
    compiled, right = copy_of(kind), call(pair_of(kind)[1])
    leave(ROOM.get(call, 1) * STATE_BYTES, monkeypatch)
    with pytest.raises(qfleet.MemoryLimitError) as caught:
        call(compiled)
    text = str(caught.value)
    assert f"{name} qubits needs 1 MiB of the" in text or name not in CALLS
    assert " MiB of the device's memory, but 0 MiB are free, enough for " in text
    assert "\n" not in text
    monkeypatch.delenv("HOST_EXECUTOR_BYTES")
    assert_close(call(compiled), right, "complex64", TOLERANCE)


@pytest.mark.parametrize("blocks", ["1", "4"])
def test_state_in_a_cluster_takes_no_device_memory(
    blocks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_EXECUTOR_CLUSTER", blocks)
    compiled, right = (
        copy_of("values", WIDTH_OF_CLUSTERS),
        values(pair_of(width=WIDTH_OF_CLUSTERS)[1]),
    )
    leave(8 << WIDTH_OF_CLUSTERS, monkeypatch)
    if blocks == "1":
        with pytest.raises(qfleet.MemoryLimitError):
            values(compiled)
    else:
        assert_close(values(compiled), right, "complex64", TOLERANCE)


@pytest.mark.parametrize("name", [one for one in CALLS if "density" not in one])
def test_batch_is_divided_where_room_is_short(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, call = CALLS[name]
    compiled, right = copy_of(kind), call(pair_of(kind)[1])
    call(copy_of(kind))
    leave(12 * STATE_BYTES, monkeypatch)
    assert_close(call(compiled), right, "complex64", TOLERANCE)


def test_too_large_batch_states_the_examples_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = copy_of("values", 3)
    leave(2 * STATE_BYTES, monkeypatch)
    words = r"inputs of 9999 examples need 1 MiB .* enough for [1-9]\d* examples: use smaller"
    with pytest.raises(qfleet.MemoryLimitError, match=words):
        compiled.expectation(*draw_point(1, 9999))
    assert len(compiled.expectation(*draw_point(1, 9))) == 9


def test_idle_program_gives_its_memory_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = copy_of("values"), copy_of("values")
    before, wanted = used_bytes(), gradient(one)
    assert used_bytes() < before + 1000  # what an idle program keeps is free for others
    leave(5 * STATE_BYTES, monkeypatch)  # a gradient has two states, and sums
    for _ in range(2):
        assert_close(gradient(other), wanted, "complex64", TOLERANCE)
        assert_close(gradient(one), wanted, "complex64", TOLERANCE)


def test_collected_programs_free_their_memory() -> None:
    gc.collect()  # programs of earlier tests
    kept = used_bytes()
    for kind, call in MORE_CALLS.values():
        compiled = copy_of(kind)
        call(compiled)
        assert used_bytes() > kept
        del compiled
        assert used_bytes() == kept


@pytest.mark.parametrize("name", MORE_CALLS)
def test_call_on_a_lost_device_is_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, call = MORE_CALLS[name]
    compiled = pair_of(kind)[0]
    before = call(compiled)
    monkeypatch.setenv("HOST_EXECUTOR_LOST", "1")
    for _ in range(2):
        with pytest.raises(qfleet.DeviceLostError) as caught:
            call(compiled)
        assert isinstance(as_qfleet_error(caught.value), DeviceLost)
    with pytest.raises(qfleet.DeviceError):
        copy_of(kind)
    monkeypatch.delenv("HOST_EXECUTOR_LOST")
    np.testing.assert_array_equal(call(compiled), before)


def test_state_wider_than_the_device_names_the_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    leave(100 << 20, monkeypatch)
    circuit = cirq.Circuit(cirq.H.on_each(cirq.LineQubit.range(24)))
    with pytest.raises(qfleet.MemoryLimitError, match=r"24 qubits .* use at most 23 qubits"):
        qfleet.compile(circuit, dtype="complex64", device=DEVICE)
