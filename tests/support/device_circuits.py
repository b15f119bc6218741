"""Circuits and points of the tests that compare a device with the CPU."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import cirq
import numpy as np
import sympy

import qfleet
from tests.support.device_library import DEVICE
from tests.support.random_circuits import INPUTS, PARAMETERS, draw_case

TOLERANCE = {"complex64": 1e-5, "complex128": 1e-12}
HVP_TOLERANCE = {"complex64": 3e-5, "complex128": 1e-12}


def draw_circuit(width: int, seed: int) -> tuple[cirq.Circuit, list[cirq.PauliSum]]:
    """Draw a circuit of all supported gates, and observables that depend on every qubit."""
    qubits = cirq.LineQubit.range(width)
    case = draw_case(Random(100 * width + seed), width)
    symbols = sympy.symbols((*INPUTS, *PARAMETERS))
    first = [cirq.ry(symbols[at % len(symbols)] + at).on(one) for at, one in enumerate(qubits)]
    chain = [cirq.CNOT(*pair) for pair in pairwise(qubits)]
    total = sum((0.1 * at + 0.5) * cirq.Z(one) for at, one in enumerate(qubits))
    return cirq.Circuit(first, case.circuit, chain), [*case.observables, total]


def compile_both(
    circuit: cirq.Circuit, observables: Sequence[cirq.PauliSum], **options: Any
) -> tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit]:
    """Compile a circuit for the device and for the CPU, with options of `qfleet.compile`."""
    made, wanted = (
        qfleet.compile(circuit, INPUTS, PARAMETERS, observables, device=device, **options)
        for device in (DEVICE, "cpu")
    )
    return made, wanted


@cache
def compile_pair(
    width: int,
    seed: int,
    *,
    dtype: str = "complex128",
    state: bool = False,
    takes_states: bool = False,
) -> tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit]:
    """Compile a random circuit for the device and for the CPU."""
    circuit, observables = draw_circuit(width, seed)
    made, wanted = compile_both(
        circuit,
        () if state else observables,
        dtype=dtype,
        method="subspace",
        initial_states=takes_states,
    )
    assert len(made.qubits) == width
    assert made.device.kind == DEVICE.partition(":")[0]
    return made, wanted


def draw_point(seed: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs and parameters."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.5, 1.5, (batch, len(INPUTS))), rng.uniform(-1.5, 1.5, len(PARAMETERS))


def assert_close(
    found: np.ndarray | None,
    wanted: np.ndarray | None,
    dtype: str,
    tolerance: dict[str, float] = TOLERANCE,
) -> None:
    """Compare arrays to within a tolerance of their largest number, or of 1."""
    assert found is not None
    assert wanted is not None
    assert found.dtype == wanted.dtype
    scale = max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance[dtype] * scale)


def check_gradients(
    pair: tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit],
    point: tuple[np.ndarray, np.ndarray],
    upstream: np.ndarray,
    dtype: str,
    **options: Any,
) -> np.ndarray:
    """Compare values and gradients with options of `value_and_gradient`; return the values."""
    (values, found), (right_values, right) = (
        one.value_and_gradient(*point, upstream, **options) for one in pair
    )
    assert_close(values, right_values, dtype)
    assert_close(found.parameters, right.parameters, dtype)
    for name, option in (("inputs", "input_gradients"), ("initial_states", "state_gradients")):
        if options.get(option):
            assert_close(getattr(found, name), getattr(right, name), dtype)
        else:
            assert getattr(found, name) is None
    return values
