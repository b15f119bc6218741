"""Density matrices on the device, compared with those of the CPU."""

from functools import cache

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from tests.support.device_library import DEVICE, build_device_library

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

INPUTS, PARAMETERS = ("x0", "x1"), ("p0", "p1", "p2")
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-12}
CHANNELS = (
    cirq.depolarize(0.05),
    cirq.amplitude_damp(0.1),
    cirq.phase_damp(0.2),
    cirq.bit_flip(0.03),
    cirq.generalized_amplitude_damp(0.6, 0.1),
)


def noisy_circuit(width: int) -> cirq.Circuit:
    """Return two layers of gates of inputs, of parameters and of both, with channels."""
    qubits = cirq.LineQubit.range(width)
    symbols = sympy.symbols((*INPUTS, *PARAMETERS))
    circuit = cirq.Circuit()
    for layer in range(2):
        for at, qubit in enumerate(qubits):
            symbol, other = symbols[(at + layer) % 5], symbols[(at + 2 * layer + 1) % 5]
            circuit.append(
                [cirq.ry(symbol + at).on(qubit), cirq.rz(symbol * 0.7 + other).on(qubit)]
            )
            circuit.append(CHANNELS[(at + layer) % len(CHANNELS)].on(qubit))
        for first, second in zip(qubits[::2], qubits[1::2], strict=False):
            circuit.append(cirq.CZ(first, second) ** (symbols[4] + 0.3))
            circuit.append(cirq.depolarize(0.04, n_qubits=2).on(first, second))
        circuit.append(cirq.ISWAP(qubits[layer], qubits[-1]) if width > 2 else [])
    return circuit


@cache
def compile_pair(
    width: int, dtype: str, shots: int | None = None
) -> tuple[qfleet.CompiledCircuit, qfleet.CompiledCircuit]:
    """Compile the circuit for the device and for the CPU."""
    qubits = cirq.LineQubit.range(width)
    observables = [cirq.Z(qubits[0]) + 0.4, cirq.X(qubits[0]) * cirq.Y(qubits[-1])]
    made, wanted = (
        qfleet.compile(
            noisy_circuit(width),
            INPUTS,
            PARAMETERS,
            observables[: min(2, width)],
            method="density_matrix",
            dtype=dtype,
            shots=shots,
            device=device,
        )
        for device in (DEVICE, "cpu")
    )
    assert made.device.kind == DEVICE.partition(":")[0]
    assert made.describe().startswith(f"device: {made.device}, ")
    return made, wanted


def point_of(batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and parameters."""
    rng = np.random.default_rng(batch)
    return rng.uniform(-1.5, 1.5, (batch, len(INPUTS))), rng.uniform(-1.5, 1.5, len(PARAMETERS))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("width", "batch"), [(1, 1), (2, 3), (3, 70), (4, 5), (6, 2)])
def test_density_matrices_equal_those_of_the_cpu(width: int, batch: int, dtype: str) -> None:
    made, wanted = compile_pair(width, dtype)
    point = point_of(batch)
    upstream = np.random.default_rng(1).normal(size=(batch, made.readouts))
    for by_inputs in (True, False):
        options = {"input_gradients": by_inputs}
        values, gradients = made.value_and_gradient(*point, upstream, **options)
        right_values, right = wanted.value_and_gradient(*point, upstream, **options)
        np.testing.assert_allclose(values, right_values, rtol=0, atol=TOLERANCE[dtype])
        tolerance = {"rtol": 0, "atol": TOLERANCE[dtype] * max(1, np.abs(right.parameters).max())}
        np.testing.assert_allclose(gradients.parameters, right.parameters, **tolerance)
        if by_inputs:
            np.testing.assert_allclose(gradients.inputs, right.inputs, **tolerance)
    np.testing.assert_array_equal(made.expectation(*point), values)


def test_density_matrices_of_an_empty_batch_are_empty() -> None:
    made, _ = compile_pair(2, "complex64")
    values, gradients = made.value_and_gradient(np.empty((0, len(INPUTS))), point_of(1)[1])
    assert values.shape == (0, 2)
    np.testing.assert_array_equal(gradients.parameters, np.zeros(len(PARAMETERS)))


def test_shots_of_a_device_equal_those_of_the_cpu() -> None:
    made, wanted = compile_pair(3, "complex128", 100)
    point = point_of(5)
    np.testing.assert_allclose(made.expectation(*point), wanted.expectation(*point), atol=1e-12)


@pytest.mark.skipif(DEVICE != "host", reason="a GPU has more memory")
def test_wide_density_matrix_exceeds_the_memory_of_the_device() -> None:
    qubits = cirq.LineQubit.range(15)
    circuit = cirq.Circuit(cirq.H.on_each(qubits), cirq.depolarize(0.1).on_each(*qubits))
    parity = cirq.PauliString(dict.fromkeys(qubits, cirq.X))
    with pytest.raises(qfleet.MemoryLimitError, match="15 qubits"):
        qfleet.compile(circuit, observables=parity, method="density_matrix", device=DEVICE)
