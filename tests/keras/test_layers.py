"""Layers of Keras 3: values and gradients on its backend."""

from typing import Any

import cirq
import keras
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.errors import ArgumentError, CircuitError, LibraryError
from qfleet.keras import (
    ControlledExpectation,
    Expectation,
    QuantumConvolution,
    Samples,
    State,
)
from tests.support import patches, random_circuits
from tests.support.keras3_cases import (
    ANGLES,
    BACKEND,
    CIRCUIT,
    INPUTS,
    QUBITS,
    SUMS,
    TRAINED,
    UPSTREAM,
    array,
    gradients,
    trained,
)
from tests.support.mixed_states import draw_mixed_case

FLOAT64 = {"dtype": "float64"}


def weighted(values: Any) -> Any:
    """Return the sum of values [4, 2] times UPSTREAM."""
    return keras.ops.sum(keras.ops.multiply(values, keras.ops.cast(UPSTREAM, values.dtype)))


def test_expectation_values_equal_those_of_cirq() -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS, **FLOAT64))
    simulator = cirq.Simulator(dtype=np.complex128)
    names = ["x0", "x1", "p", "q"]
    expected = [
        simulator.simulate_expectation_values(
            CIRCUIT, SUMS, dict(zip(names, map(float, [*row, *TRAINED]), strict=True))
        )
        for row in ANGLES
    ]
    np.testing.assert_allclose(array(layer(ANGLES)), np.real(expected), atol=1e-7)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_expectation_gradients_equal_those_of_numpy(dtype: str, tolerance: float) -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS, dtype=dtype))
    compiled = qfleet.compile(CIRCUIT, INPUTS, observables=SUMS)
    values, expected = compiled.value_and_gradient(ANGLES, TRAINED, upstream=UPSTREAM)
    assert array(layer(ANGLES)).dtype == dtype
    np.testing.assert_allclose(array(layer(ANGLES)), values, atol=tolerance)
    (by_inputs,), (by_angles,) = gradients(layer, weighted, ANGLES)
    np.testing.assert_allclose(by_inputs, expected.inputs, atol=tolerance)
    np.testing.assert_allclose(by_angles, expected.parameters, atol=tolerance)


def test_controlled_gradients_equal_those_of_numpy() -> None:
    layer = ControlledExpectation(CIRCUIT, INPUTS, SUMS, **FLOAT64)
    parameters = np.random.default_rng(4).normal(size=(4, 2))
    layer.build([(None, 2), (None, 2)])
    compiled = qfleet.compile(CIRCUIT, [*INPUTS, "p", "q"], observables=SUMS)
    symbols = np.concatenate([ANGLES, parameters], 1)
    values, expected = compiled.value_and_gradient(symbols, upstream=UPSTREAM)
    np.testing.assert_allclose(array(layer([ANGLES, parameters])), values, atol=1e-12)
    found, weights = gradients(layer, weighted, ANGLES, parameters)
    np.testing.assert_allclose(np.concatenate(found, 1), expected.inputs, atol=1e-12)
    assert not weights


def test_state_has_amplitudes_and_gradients() -> None:
    layer = trained(State(CIRCUIT, INPUTS, **FLOAT64))
    compiled = qfleet.compile(CIRCUIT, INPUTS)
    np.testing.assert_allclose(array(layer(ANGLES)), compiled.state(ANGLES, TRAINED), atol=1e-12)
    readout = qfleet.compile(CIRCUIT, INPUTS, observables=[cirq.Z(QUBITS[0])])
    _, expected = readout.value_and_gradient(ANGLES, TRAINED, upstream=np.ones((4, 1)))
    signs = np.repeat([1.0, -1.0], 4)  # of Z on the first qubit

    def total(states: Any) -> Any:
        ops = keras.ops
        squares = ops.square(ops.real(states)) + ops.square(ops.imag(states))
        return ops.sum(ops.multiply(squares, ops.convert_to_tensor(signs)))

    (by_inputs,), (by_angles,) = gradients(layer, total, ANGLES)
    np.testing.assert_allclose(by_inputs, expected.inputs, atol=1e-12)
    np.testing.assert_allclose(by_angles, expected.parameters, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_initial_states_are_differentiable(dtype: str) -> None:
    draw = np.random.default_rng(5)
    states = draw.normal(size=(4, 8)).astype(dtype)
    if dtype == "complex128":
        states += 1j * draw.normal(size=(4, 8))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    layer = Expectation(CIRCUIT, INPUTS, SUMS, initial_states=True, **FLOAT64)
    layer.build([(None, 8), (None, 2)])
    layer.angles.assign(TRAINED)
    compiled = qfleet.compile(CIRCUIT, INPUTS, observables=SUMS, initial_states=True)
    values, expected = compiled.value_and_gradient(
        ANGLES, TRAINED, upstream=UPSTREAM, initial_states=states, state_gradients=True
    )
    np.testing.assert_allclose(array(layer([states, ANGLES])), values, atol=1e-12)
    (by_states, by_inputs), (by_angles,) = gradients(layer, weighted, states, ANGLES)
    wanted = expected.initial_states
    if dtype == "float64":
        wanted = wanted.real
    elif BACKEND == "jax":
        wanted = wanted.conj()
    np.testing.assert_allclose(by_states, wanted, atol=1e-12)
    np.testing.assert_allclose(by_inputs, expected.inputs, atol=1e-12)
    np.testing.assert_allclose(by_angles, expected.parameters, atol=1e-12)


def test_mixed_states_are_the_mean_of_their_vectors() -> None:
    case = draw_mixed_case(1)
    names = {"parameters": random_circuits.PARAMETERS, "initial_states": True, **FLOAT64}
    layer = Expectation(case.circuit, random_circuits.INPUTS, case.observables, **names)
    layer.build([(None, 8, 8), (None, 3)])
    layer.angles.assign(case.parameters)
    np.testing.assert_allclose(array(layer([case.matrices, case.inputs])), case.values, atol=1e-12)

    def total(values: Any) -> Any:
        return keras.ops.sum(values * keras.ops.convert_to_tensor(case.upstream))

    (by_states, by_inputs), (by_angles,) = gradients(layer, total, case.matrices, case.inputs)
    found = by_inputs, by_angles, by_states.conj() if BACKEND == "jax" else by_states
    for one, wanted in zip(found, case.gradients, strict=True):
        np.testing.assert_allclose(one, wanted, atol=1e-12)
    with pytest.raises(ValueError, match="takes states"):
        layer.build([(None, 8, 4), (None, 3)])
    with pytest.raises(ValueError, match='method="density_matrix"'):
        State(CIRCUIT, INPUTS, initial_states=True)([np.eye(8)[None] / 8, ANGLES[:1]])


def test_states_alone_are_enough_without_inputs() -> None:
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("p")).on(QUBITS[0]))
    layer = Expectation(circuit, [], [cirq.Z(QUBITS[0])], initial_states=True, initializer="zeros")
    values = layer(np.eye(2, dtype="float32"))
    np.testing.assert_allclose(array(values), [[1], [-1]], atol=1e-6)


def test_samples_have_the_states_probabilities() -> None:
    shots = 20_000
    layer = trained(Samples(CIRCUIT, INPUTS, shots, seed=3))
    bits = array(layer(ANGLES))
    assert (bits.shape, bits.dtype) == ((4, shots, 3), np.int8)
    np.testing.assert_array_equal(bits, array(layer(ANGLES)))
    places = bits @ [4, 2, 1]
    found = np.stack([np.bincount(row, minlength=8) for row in places]) / shots
    expected = np.abs(qfleet.compile(CIRCUIT, INPUTS).state(ANGLES, TRAINED)) ** 2
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(0.25 / shots))


def test_samples_avoid_impossible_bits() -> None:
    circuit = cirq.Circuit(cirq.X(QUBITS[0]), cirq.H(QUBITS[1]), cirq.CNOT(*QUBITS[1:]))
    bits = array(Samples(circuit, [], 1000, seed=1)(np.zeros((2, 0))))
    assert (bits[..., 0] == 1).all()
    assert (bits[..., 1] == bits[..., 2]).all()
    assert 0.4 < bits[..., 1].mean() < 0.6


def test_convolution_equals_each_patch_of_each_circuit() -> None:
    circuits = [patches.patch_circuit(2), patches.patch_circuit(3)]
    options = {"stride": (1, 2), "dtype": "float64"}
    layer = QuantumConvolution(circuits, patches.INPUTS, patches.OBSERVABLES, 2, **options)
    images = np.random.default_rng(1).normal(size=(3, 5, 6, 2))
    found = array(layer(images))
    assert found.shape == (3, 4, 3, 4) == layer.compute_output_shape(images.shape)
    for at, circuit in enumerate(layer.circuits):
        compiled = qfleet.compile(circuit.circuit, patches.INPUTS, observables=patches.OBSERVABLES)
        for row, column in ((0, 0), (1, 2), (3, 1)):
            pixels = images[:, row : row + 2, 2 * column : 2 * column + 2].reshape(3, -1)
            np.testing.assert_allclose(
                found[:, row, column, 2 * at : 2 * at + 2],
                compiled.expectation(pixels, array(circuit.angles)),
                atol=1e-12,
            )
    fixed = QuantumConvolution(circuits, patches.INPUTS, patches.OBSERVABLES, 2, trainable=False)
    fixed.build(images.shape)
    assert (len(fixed.weights), fixed.trainable_weights) == (2, [])


def test_noise_and_sampling_reach_the_engine() -> None:
    noisy = CIRCUIT + cirq.depolarize(0.1).on_each(*QUBITS)
    exact = trained(Expectation(noisy, INPUTS, SUMS, **FLOAT64))
    compiled = qfleet.compile(noisy, INPUTS, observables=SUMS)
    np.testing.assert_allclose(
        array(exact(ANGLES)), compiled.expectation(ANGLES, TRAINED), atol=1e-12
    )
    shots = {"shots": 50, "seed": 7}
    drawn = trained(Expectation(CIRCUIT, INPUTS, SUMS, sampling=shots, **FLOAT64))
    sampled = qfleet.compile(CIRCUIT, INPUTS, observables=SUMS, **shots)
    np.testing.assert_array_equal(array(drawn(ANGLES)), sampled.expectation(ANGLES, TRAINED))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_rounds_results_only(policy: str) -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS, dtype=policy))
    exact = trained(Expectation(CIRCUIT, INPUTS, SUMS, dtype="float32"))
    single = ANGLES.astype("float32")
    found, dtype = layer(single), policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    assert keras.backend.standardize_dtype(layer.angles.dtype) == "float32"
    expected = keras.ops.cast(exact(single), dtype)
    np.testing.assert_array_equal(
        array(keras.ops.cast(found, "float32")), array(keras.ops.cast(expected, "float32"))
    )


def test_bound_circuit_has_the_trained_angles() -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS, **FLOAT64))
    compiled = qfleet.compile(layer.bound_circuit(), INPUTS, observables=SUMS)
    np.testing.assert_allclose(compiled.expectation(ANGLES), array(layer(ANGLES)), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_layer_in_half_precision_is_refused(dtype: str) -> None:
    with pytest.raises(ArgumentError, match=f"dtype {dtype}: use float32"):
        Expectation(CIRCUIT, INPUTS, SUMS, dtype=dtype)


@pytest.mark.parametrize(
    "shape", [(4, 3), (2,), (4, 2, 2)], ids=lambda shape: "x".join(map(str, shape))
)
def test_angles_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"takes angles \[batch, 2\]"):
        Expectation(CIRCUIT, INPUTS, SUMS)(np.zeros(shape))


def test_complex_angles_are_refused() -> None:
    with pytest.raises(ValueError, match="takes real angles, not complex128"):
        Expectation(CIRCUIT, INPUTS, SUMS)(np.zeros((4, 2), complex))


def test_unsupported_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="method"):
        State(CIRCUIT, INPUTS, method="tensor_network")
    with pytest.raises(ArgumentError, match="initializer"):
        Expectation(CIRCUIT, INPUTS, SUMS, initializer="flat")
    with pytest.raises(CircuitError):
        Expectation(CIRCUIT + cirq.measure(*QUBITS), INPUTS, SUMS)
    patch = patches.patch_circuit(2)
    layer = QuantumConvolution(patch, patches.INPUTS, patches.OBSERVABLES, 2)
    with pytest.raises(ArgumentError, match="images have shape"):
        layer(np.zeros((2, 4, 4)))
    strided = QuantumConvolution(patch, patches.INPUTS, patches.OBSERVABLES, 2, stride=2)
    with pytest.raises(ArgumentError, match=r"width 5, which patches of 2 pixels .* to 4 or 6"):
        strided(np.zeros((2, 4, 5, 2)))


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX has a switch for 64 bits")
def test_float64_layer_in_32_bits_of_jax_is_refused() -> None:
    import jax

    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(LibraryError, match="JAX computes in 32 bits"):
            Expectation(CIRCUIT, INPUTS, SUMS, **FLOAT64)
    finally:
        jax.config.update("jax_enable_x64", True)
