"""Keras layers that take an initial state per example."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import pytest

import qfleet
from qfleet.errors import ArgumentError, CircuitError
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers import (
    ControlledExpectation,
    Expectation,
    SampledExpectation,
    Samples,
)
from qfleet.tensorflow.runtime import keras, tf
from tests.support import random_circuits
from tests.support.layer_cases import (
    ANGLES,
    CIRCUIT,
    INPUTS,
    MAKERS,
    SUMS,
    TRAINED,
    A,
    B,
    P,
    value_and_gradients,
)
from tests.support.mixed_states import draw_mixed_case

RANDOM = np.random.default_rng(5)
BACKENDS = ("qfleet", "tensorflow")


def random_states(examples: int = 4, qubits: int = 3) -> np.ndarray:
    parts = RANDOM.normal(size=(2, examples, 2**qubits))
    states = parts[0] + 1j * parts[1]
    return states / np.linalg.norm(states, axis=1, keepdims=True)


STATES = random_states()


def build(name: str = "Expectation", **how: Any) -> keras.layers.Layer:
    """Build a layer of complex128 states with the angles TRAINED."""
    layer = MAKERS[name](initial_states=True, dtype="float64", **how)
    layer([STATES, ANGLES])
    layer.angles.assign(TRAINED)
    return layer


def real_weights(shape: tf.TensorShape) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape)


def loss(values: tf.Tensor) -> tf.Tensor:
    """Return a real function of values or states."""
    if values.dtype.is_complex:
        weights = real_weights(values.shape) + 1j * real_weights(values.shape)[::-1]
        return tf.reduce_sum(tf.math.real(values * weights) ** 2)
    return tf.reduce_sum(values * real_weights(values.shape))


def gradients(layer: keras.layers.Layer, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the gradients of `loss` by the inputs and the weight."""
    sources = [tf.constant(one) for one in inputs]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        total = loss(layer(sources))
    return [one.numpy() for one in tape.gradient(total, [*sources, layer.angles])]


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_with_initial_states_equal_the_engine(backend: str) -> None:
    for name, readouts in (("Expectation", SUMS), ("State", ())):
        compiled = qfleet.compile(CIRCUIT, INPUTS, ("p", "q"), readouts, initial_states=True)
        arguments = ANGLES.astype(np.float64), TRAINED.astype(np.float64)
        wanted: Callable[..., np.ndarray] = compiled.expectation if readouts else compiled.state
        found = build(name, backend=backend)([STATES, ANGLES])
        np.testing.assert_allclose(found, wanted(*arguments, initial_states=STATES), atol=1e-12)


@pytest.mark.parametrize("name", ["Expectation", "State"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_with_initial_states_are_differences(name: str, backend: str) -> None:
    layer, angles = build(name, backend=backend), ANGLES.astype(np.float64)
    by_states, by_angles, by_weights = gradients(layer, STATES, angles)
    step = 1e-6
    # Along directions that keep the norms: phases of single amplitudes, and rotations of pairs.
    turned = np.roll(STATES.conj(), 1, axis=1) * np.where(np.arange(8) % 2, 1, -1)
    for direction in (1j * STATES * np.arange(8), 0.5 * turned):
        tangent = direction - STATES * np.real(np.sum(STATES.conj() * direction, 1, keepdims=True))
        ends = [float(loss(layer([STATES + s * tangent, angles]))) for s in (step, -step)]
        slope = np.sum(by_states.real * tangent.real + by_states.imag * tangent.imag)
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    ahead, back = (float(loss(layer([STATES, angles + s * by_angles]))) for s in (step, -step))
    assert np.sum(by_angles**2) == pytest.approx((ahead - back) / (2 * step), rel=1e-6)
    ends = []
    for sign in (step, -step):
        layer.angles.assign(TRAINED + sign * by_weights)
        ends.append(float(loss(layer([STATES, angles]))))
    assert np.sum(by_weights**2) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("name", ["Expectation", "State"])
def test_gradients_with_initial_states_in_a_graph_are_equal(name: str) -> None:
    layer, angles = build(name), tf.constant(ANGLES, tf.float64)
    wanted = gradients(layer, STATES, angles.numpy())

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.complex128)])
    def compute(states: tf.Tensor) -> list[tf.Tensor]:
        rows = angles[: tf.shape(states)[0]]
        with tf.GradientTape() as tape:
            tape.watch([states, rows])
            total = loss(tf.ensure_shape(layer([states, rows]), [4, None]))
        return tape.gradient(total, [states, rows, layer.angles])  # type: ignore[no-any-return]

    for found, other in zip(compute(tf.constant(STATES)), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-12)


def test_states_without_gradient_give_equal_gradients() -> None:
    layer, angles = build(), tf.constant(ANGLES, tf.float64)
    with tf.GradientTape() as tape:
        total = loss(layer([STATES, angles]))
    found = tape.gradient(total, layer.angles)
    wanted = gradients(layer, STATES, angles.numpy())
    np.testing.assert_allclose(found, wanted[-1], rtol=1e-12)


def test_second_derivatives_with_initial_states_equal_reference() -> None:
    found = []
    for backend in BACKENDS:
        layer = build(backend=backend)
        sources = [tf.constant(STATES), tf.constant(ANGLES, tf.float64)]
        with tf.GradientTape() as outer:
            outer.watch(sources)
            with tf.GradientTape() as inner:
                inner.watch(sources)
                total = loss(layer(sources))
            first = inner.gradient(total, [*sources, layer.angles])
            norm = sum(tf.reduce_sum(tf.abs(one) ** 2) for one in first)
        found.append(outer.gradient(norm, [*sources, layer.angles]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_real_states_have_real_gradients() -> None:
    layer = build()
    states = np.linalg.qr(RANDOM.normal(size=(8, 8)))[0][:4]
    angles = ANGLES.astype(np.float64)
    by_real, by_angles, _ = gradients(layer, states, angles)
    by_complex, others, _ = gradients(layer, states + 0j, angles)
    np.testing.assert_allclose(by_real, by_complex.real, atol=1e-12)
    np.testing.assert_allclose(by_angles, others, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_circuit_without_inputs_takes_states_alone(backend: Any) -> None:
    circuit = cirq.Circuit(cirq.ry(P).on(A), cirq.CNOT(A, B))
    options = {"initial_states": True, "backend": backend, "initializer": "ones"}
    layer = Expectation(circuit, [], [cirq.Z(B)], **options)
    states = random_states(5, 2).astype(np.complex64)
    alone = layer(states)
    assert alone.shape == (5, 1)
    np.testing.assert_array_equal(layer([states]), alone)
    np.testing.assert_array_equal(layer([states, np.zeros((5, 0))]), alone)
    unitary = cirq.unitary(cirq.resolve_parameters(circuit, {"p": 1.0}))
    wanted = np.abs(states @ unitary.T) ** 2 @ [1, -1, 1, -1]
    np.testing.assert_allclose(alone[:, 0], wanted, atol=1e-6)


def test_samples_of_basis_states_are_their_bits() -> None:
    circuit = cirq.Circuit(cirq.CNOT(A, B))
    layer = Samples(circuit, [], shots=3, initial_states=True)
    bits = layer(np.eye(4)).numpy()
    wanted = [[0, 0], [0, 1], [1, 1], [1, 0]]
    np.testing.assert_array_equal(bits, np.repeat(np.array(wanted)[:, None], 3, axis=1))


def test_controlled_expectation_takes_states_first() -> None:
    layer = ControlledExpectation(CIRCUIT, INPUTS, SUMS, initial_states=True, dtype="float64")
    parameters = tf.constant(np.tile(TRAINED, (4, 1)), tf.float64)
    sources = tf.constant(STATES), tf.constant(ANGLES, tf.float64), parameters
    values, found = value_and_gradients(lambda *each: layer(list(each)), *sources)
    other = build()
    np.testing.assert_allclose(values, other([STATES, ANGLES]), atol=1e-12)
    wanted = gradients(other, STATES, ANGLES.astype(np.float64))
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-12)
    np.testing.assert_allclose(tf.reduce_sum(found[2], axis=0), wanted[2], atol=1e-12)
    with pytest.raises(ValueError, match="states, angles, parameters"):
        ControlledExpectation(CIRCUIT, INPUTS, SUMS, initial_states=True)([ANGLES, parameters])


def test_model_with_initial_states_trains_and_is_saved(tmp_path: Path) -> None:
    states, angles = keras.Input((8,), dtype="complex64"), keras.Input((2,))
    values = Expectation(CIRCUIT, INPUTS, SUMS, initial_states=True, seed=1)([states, angles])
    model = keras.Model([states, angles], values)
    model.compile(keras.optimizers.Adam(0.1), "mse")
    data = [STATES.astype(np.complex64), ANGLES]
    history = model.fit(data, np.zeros((4, 2)), epochs=5, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(data, verbose=0), model.predict(data, verbose=0))


def test_changed_circuit_keeps_initial_states() -> None:
    layer = build("State")
    before = layer([STATES, ANGLES])
    layer.set_circuit(CIRCUIT + cirq.X(A))
    np.testing.assert_allclose(layer([STATES, ANGLES]), np.roll(before, 4, axis=1), atol=1e-12)


def test_empty_batch_with_states_gives_no_values() -> None:
    assert build()([STATES[:0], ANGLES[:0]]).shape == (0, 2)


@pytest.mark.parametrize(
    "inputs",
    [
        lambda: ANGLES,
        lambda: [STATES],
        lambda: [STATES, ANGLES, ANGLES],
        lambda: [STATES[:, :4], ANGLES],
        lambda: [STATES[:2], ANGLES],
        lambda: [ANGLES, STATES],
    ],
)
def test_layer_with_other_inputs_raises(inputs: Callable[[], Any]) -> None:
    layer = build()
    with pytest.raises(ValueError, match=r"layer .* takes|initial states have shape"):
        layer(inputs())


@pytest.mark.parametrize("backend", ["qfleet", "tensorflow"])
@pytest.mark.parametrize(("wrong", "message"), [(1.01, "[2].* norm 1.01"), (np.nan, "finite")])
def test_states_of_another_norm_raise(backend: str, wrong: float, message: str) -> None:
    layer = build(backend=backend)
    given = [tf.constant(STATES * np.array([1, 1, wrong, 1])[:, None]), tf.constant(ANGLES)]
    with pytest.raises(ArgumentError, match=message):
        layer(given)
    with pytest.raises(tf.errors.InvalidArgumentError, match="norm"):
        tf.function(layer)(given)


def test_initial_states_elsewhere_raise() -> None:
    given: dict[str, Any] = {"initial_states": True}
    for layer in (
        lambda: SampledExpectation(CIRCUIT, INPUTS, SUMS, 20, **given),
        lambda: Expectation(CIRCUIT, INPUTS, SUMS, gradient_circuit=CIRCUIT, **given),
        lambda: Expectation(CIRCUIT, INPUTS, SUMS, sampler=cirq.Simulator(), shots=5, **given),
        lambda: Expectation(CIRCUIT, INPUTS, SUMS, initial_states=2),
    ):
        with pytest.raises(ArgumentError, match="initial_states is"):
            layer()
    for other in (
        lambda: Expectation(CIRCUIT, INPUTS, SUMS, method="tensor_network", **given),
        lambda: Expectation(CIRCUIT, INPUTS, SUMS, backend="tfq", **given),
    ):
        with pytest.raises(CircuitError) as caught:
            other()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"trajectories": 20, "seed": 3}, {"shots": 50, "seed": 3}])
def test_noisy_layer_of_states_equals_the_library(options: dict[str, int]) -> None:
    noisy = CIRCUIT + cirq.depolarize(0.1).on_each(*sorted(CIRCUIT.all_qubits()))
    layer = Expectation(noisy, INPUTS, SUMS, sampling=options, initial_states=True, dtype="float64")
    layer([STATES, ANGLES])
    layer.angles.assign(TRAINED)
    compiled = qfleet.compile(noisy, INPUTS, observables=SUMS, initial_states=True, **options)
    upstream = np.ones((len(STATES), len(SUMS)))
    values, gradients = compiled.value_and_gradient(
        ANGLES, TRAINED, upstream, initial_states=STATES, state_gradients=True
    )
    states = tf.constant(STATES)
    with tf.GradientTape() as tape:
        tape.watch(states)
        found = layer([states, ANGLES])
    by_angles, by_states = tape.gradient(found, [layer.angles, states])
    np.testing.assert_allclose(found, values, atol=1e-12)
    np.testing.assert_allclose(by_angles, gradients.parameters, atol=1e-12)
    np.testing.assert_allclose(by_states, gradients.initial_states, atol=1e-12)


def test_layer_of_mixed_states_averages_their_vectors() -> None:
    case = draw_mixed_case(1)
    layer = Expectation(
        *(case.circuit, random_circuits.INPUTS, case.observables),
        parameters=random_circuits.PARAMETERS,
        initial_states=True,
        dtype="float64",
    )
    sources = [tf.constant(one) for one in (case.matrices, case.inputs)]
    layer(sources)
    layer.angles.assign(case.parameters)
    for call in (layer.call, tf.function(layer.call)):
        with tf.GradientTape() as tape:
            tape.watch(sources)
            values = call(sources)
        found = tape.gradient(values, [sources[1], layer.angles, sources[0]], case.upstream)
        np.testing.assert_allclose(values, case.values, atol=1e-12)
        for one, wanted in zip(found, case.gradients, strict=True):
            np.testing.assert_allclose(one, wanted, atol=1e-12)


MIXED = np.broadcast_to(np.eye(8) / 8, (4, 8, 8))


@pytest.mark.parametrize("name", ["Expectation", "State"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_density_matrices_need_their_method(name: str, backend: str) -> None:
    with pytest.raises(ArgumentError, match='method="density_matrix"'):
        build(name, backend=backend)([MIXED, ANGLES])


@pytest.mark.parametrize(
    ("wrong", "message", "in_graph"),
    [
        (2 * MIXED, "has the trace 2: divide", "has the trace 2"),
        (MIXED + np.eye(8, k=1), "differs from its adjoint by 1", "differs from its adjoint by 1"),
        (np.diag([1.5, -0.5, *6 * [0]]) + 0 * MIXED, "has the eigenvalue -0.5", None),
        (MIXED[:, :4], r"the circuit takes \[4, 8, 8\]", r"the circuit takes \[4, 8, 8\]"),
    ],
)
def test_wrong_density_matrix_raises(wrong: np.ndarray, message: str, in_graph: str | None) -> None:
    layer = build(method="density_matrix")
    given = [tf.constant(wrong), tf.constant(ANGLES)]
    with pytest.raises(ValueError, match=message):
        layer(given)
    if in_graph is not None:
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=in_graph):
            tf.function(layer)(given)


def test_program_of_the_other_kind_raises() -> None:
    from qfleet.compiler.choose_method import compile_circuit_by

    program = compile_circuit_by("auto", CIRCUIT, INPUTS, ("p", "q"), SUMS)
    with pytest.raises(ArgumentError, match="takes_states=True"):
        Expectation(CIRCUIT, INPUTS, SUMS, program=program, initial_states=True)


def test_simulator_without_its_states_raises() -> None:
    for initial_states in (False, True):
        simulator = build_simulator(
            CIRCUIT, INPUTS, ("p", "q"), SUMS, initial_states=initial_states
        )
        given = [] if initial_states else [STATES]
        with pytest.raises(ValueError, match="tensors of initial states"):
            simulator.expectation(ANGLES, TRAINED, *given)
