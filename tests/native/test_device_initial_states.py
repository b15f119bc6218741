"""A caller's initial states on the device, compared with the engine on the CPU.

QFLEET_TEST_DEVICE names the device, as for test_device_engine.py.
"""

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from tests.support.device_circuits import (
    HVP_TOLERANCE,
    TOLERANCE,
    assert_close,
    check_gradients,
    compile_pair,
    draw_point,
)
from tests.support.device_library import DEVICE, build_device_library

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

# Of the host executor: 1, 4, 16 and 32 lanes, a thread block, and states that are too wide for it.
CASES = ((2, 5), (4, 3), (6, 2), (9, 2), (10, 2), (12, 2))
"""Qubits, and examples of a batch."""


def draw_states(seed: int, batch: int, width: int) -> np.ndarray:
    """Draw states of norm 1."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(batch, 1 << width)) + 1j * rng.normal(size=(batch, 1 << width))
    return states / np.linalg.norm(states, axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("width", "batch"), CASES)
def test_values_and_gradients_equal_those_of_the_cpu(width: int, batch: int, dtype: str) -> None:
    made, wanted = compile_pair(width, 1, dtype=dtype, takes_states=True)
    point, start = draw_point(width, batch), draw_states(width, batch, width)
    upstream = np.random.default_rng(1).normal(size=(batch, made.readouts))
    for by_states in (True, False):
        options = {"initial_states": start, "state_gradients": by_states}
        options["input_gradients"] = by_states
        values = check_gradients((made, wanted), point, upstream, dtype, **options)
    np.testing.assert_array_equal(made.expectation(*point, initial_states=start), values)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", [4, 10, 12])
def test_states_and_gradients_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    made, wanted = compile_pair(width, 1, dtype=dtype, state=True, takes_states=True)
    point, start = draw_point(width, 2), draw_states(width, 2, width)
    assert_close(
        made.state(*point, initial_states=start),
        wanted.state(*point, initial_states=start),
        dtype,
    )
    options = {"initial_states": start, "state_gradients": True}
    upstream = draw_states(width + 1, 2, width)
    gradients = made.state_vjp(*point, upstream, **options)
    right = wanted.state_vjp(*point, upstream, **options)
    for name in ("inputs", "parameters", "initial_states"):
        assert_close(getattr(gradients, name), getattr(right, name), dtype)
    options = {"shots": 20, "seed": 3, "initial_states": start}
    if dtype == "complex128":
        np.testing.assert_array_equal(
            made.sample(*point, **options), wanted.sample(*point, **options)
        )


@pytest.mark.parametrize(("width", "dtype"), [(4, "complex128"), (11, "complex64")])
def test_hessian_products_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    made, wanted = compile_pair(width, 1, dtype=dtype, takes_states=True)
    point, start = draw_point(width, 2), draw_states(width, 2, width)
    arguments = *point, np.ones((2, made.readouts)), *draw_point(width + 1, 2)
    values, products = made.hvp(*arguments, initial_states=start)
    right_values, right = wanted.hvp(*arguments, initial_states=start)
    assert_close(values, right_values, dtype, HVP_TOLERANCE)
    assert_close(products.parameters, right.parameters, dtype, HVP_TOLERANCE)
    assert_close(products.inputs, right.inputs, dtype, HVP_TOLERANCE)


def test_batch_of_several_launches_equals_its_examples() -> None:
    made, _ = compile_pair(6, 0, dtype="complex64", takes_states=True)
    point, start = draw_point(6, 400), draw_states(6, 400, 6)
    upstream = np.ones((400, made.readouts))
    options = {"state_gradients": True}
    values, gradients = made.value_and_gradient(*point, upstream, initial_states=start, **options)
    for rows in (slice(0, 2), slice(200, 202), slice(398, 400)):
        part = point[0][rows], point[1]
        some, right = made.value_and_gradient(
            *part, upstream[rows], initial_states=start[rows], **options
        )
        assert_close(values[rows], some, "complex64")
        assert gradients.initial_states is not None
        assert_close(gradients.initial_states[rows], right.initial_states, "complex64")


def test_permutations_before_all_gates_are_undone() -> None:
    qubits = cirq.LineQubit.range(12)
    shuffled = [
        cirq.CNOT(one, qubits[(at + step) % 12])
        for step in (5, 1, 7, 3)
        for at, one in enumerate(qubits)
    ]
    circuit = cirq.Circuit(shuffled, cirq.ry(sympy.Symbol("p")).on_each(*qubits))
    start = draw_states(2, 1, 12)
    found = []
    for device in (DEVICE, "cpu"):
        compiled = qfleet.compile(
            circuit, (), ("p",), cirq.X(qubits[3]), initial_states=True, device=device
        )
        _, gradients = compiled.value_and_gradient(
            None, [0.3], initial_states=start, state_gradients=True
        )
        found.append(gradients.initial_states)
    assert_close(*found, "complex128")
