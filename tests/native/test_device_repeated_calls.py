"""Calls that are made again and again: their launches are recorded, and started again."""

import itertools
from functools import cache

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from tests.support.device_circuits import TOLERANCE, assert_close, compile_both, draw_point
from tests.support.device_library import DEVICE, build_device_library
from tests.support.random_circuits import INPUTS, PARAMETERS

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

WIDTHS = (4, 10, 11, 13) if DEVICE == "host" else (4, 12, 14, 18)
"""Lanes, a thread block, a cluster, and the device's memory."""
Pair = tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit]


@cache
def pair_of(width: int, dtype: str) -> Pair:
    """Compile a circuit whose gates have inputs or parameters, not both."""
    qubits = cirq.LineQubit.range(width)
    inputs, parameters = sympy.symbols(INPUTS), sympy.symbols(PARAMETERS)
    gates = [cirq.ry(inputs[at % len(inputs)] + at).on(one) for at, one in enumerate(qubits)]
    gates += [cirq.CNOT(*pair) for pair in itertools.pairwise(qubits)]
    trained = (cirq.rx(2 * parameters[at % len(parameters)]) for at in range(width))
    gates += [gate.on(one) for gate, one in zip(trained, qubits, strict=True)]
    gates += [cirq.CZ(*pair) ** parameters[0] for pair in itertools.pairwise(qubits)]
    observables = [cirq.Z(qubits[0]) * cirq.X(qubits[-1]), cirq.PauliSum.wrap(cirq.Y(qubits[1]))]
    return compile_both(cirq.Circuit(gates), observables, dtype=dtype, method="state_vector")


def check_step(pair: Pair, seed: int, batch: int, dtype: str, *, by_inputs: bool) -> None:
    """Compare a training step at a point of its own."""
    point = draw_point(seed, batch)
    upstream = np.random.default_rng(seed).normal(size=(batch, pair[0].readouts))
    (values, found), (right_values, right) = (
        one.value_and_gradient(*point, upstream, input_gradients=by_inputs) for one in pair
    )
    assert_close(values, right_values, dtype)
    assert_close(found.parameters, right.parameters, dtype)
    if by_inputs:
        assert_close(found.inputs, right.inputs, dtype)


def check_values(pair: Pair, seed: int, batch: int, dtype: str) -> None:
    """Compare an evaluation at a point of its own."""
    made, wanted = (one.expectation(*draw_point(seed, batch)) for one in pair)
    assert_close(made, wanted, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", WIDTHS)
def test_epochs_of_steps_and_evaluations_equal_the_cpu(width: int, dtype: str) -> None:
    pair, seeds = pair_of(width, dtype), itertools.count(1)
    for _ in range(2):  # epochs, whose last batch is smaller
        for batch in (3, 3, 3, 2):
            check_step(pair, next(seeds), batch, dtype, by_inputs=False)
        for _ in range(3):
            check_values(pair, next(seeds), 3, dtype)
        for _ in range(3):
            check_step(pair, next(seeds), 3, dtype, by_inputs=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_steps_after_a_larger_batch_equal_the_cpu(width: int) -> None:
    pair, seeds = pair_of(width, "complex64"), itertools.count(1)
    for batch in (2, 2, 2, 8, 2, 2, 2):  # the memory of the first calls is freed for the fourth
        check_step(pair, next(seeds), batch, "complex64", by_inputs=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_values_and_gradients_in_turns_equal_the_cpu(width: int) -> None:
    pair = pair_of(width, "complex64")  # as layers of frameworks call it
    for seed in range(4):
        point, upstream = draw_point(seed, 3), np.full((3, 2), 1.0 + seed)
        check_values(pair, seed, 3, "complex64")
        found, right = (one.vjp(*point, upstream) for one in pair)
        assert_close(found.parameters, right.parameters, "complex64")
        assert_close(found.inputs, right.inputs, "complex64")


def test_calls_of_other_kinds_after_a_recorded_one_equal_the_cpu() -> None:
    for first in ("values", "gradients"):
        pair = pair_of.__wrapped__(4, "complex64")  # a program without recordings
        check_step(pair, 20, 8, "complex64", by_inputs=True)  # so that all calls use its memory
        for seed in range(3):
            point, upstream = draw_point(seed, 3), np.full((3, 2), 1.0 + seed)
            if first == "values":
                check_values(pair, seed, 3, "complex64")
                continue
            found, right = (one.vjp(*point, upstream) for one in pair)
            assert_close(found.parameters, right.parameters, "complex64")
        for by_inputs in (False, True):
            check_step(pair, 10, 3, "complex64", by_inputs=by_inputs)


@pytest.mark.parametrize("width", WIDTHS[:3])
def test_hessian_vector_products_again_equal_the_cpu(width: int) -> None:
    made, wanted = pair_of(width, "complex128")
    for seed in range(4):
        point, along = draw_point(seed, 2), draw_point(seed + 10, 2)
        (values, found), (right_values, right) = (
            one.hvp(*point, None, *along) for one in (made, wanted)
        )
        assert_close(values, right_values, "complex128")
        assert_close(found.parameters, right.parameters, "complex128")
