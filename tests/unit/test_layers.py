"""Keras layers: values, gradients, dtypes, engines and errors."""

from typing import Any

import cirq
import numpy as np
import pytest

from qfleet.errors import CircuitError
from qfleet.tensorflow.layers import (
    ControlledExpectation,
    Expectation,
    SampledExpectation,
    Samples,
    State,
)
from qfleet.tensorflow.runtime import keras, tf
from tests.support.layer_cases import (
    ANGLES,
    CIRCUIT,
    INPUTS,
    MAKERS,
    SUMS,
    TRAINED,
    A,
    X,
    dense,
    exact,
    trained,
    value_and_gradients,
)


def test_expectation_equals_its_simulator() -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS))
    assert layer.parameters == ("p", "q")
    angles = tf.constant(ANGLES)
    with tf.GradientTape() as tape:
        tape.watch(angles)
        values = layer(angles)
        total = tf.reduce_sum(values**2)
    found = tape.gradient(total, [angles, layer.angles])
    with tf.GradientTape() as tape:
        sources = tf.constant(ANGLES, tf.float64), tf.constant(TRAINED, tf.float64)
        tape.watch(sources)
        wanted = exact().expectation(*sources)
        total = tf.reduce_sum(wanted**2)
    np.testing.assert_allclose(values, wanted, atol=1e-5)
    for one, other in zip(found, tape.gradient(total, sources), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_controlled_expectation_has_parameters_per_example() -> None:
    layer = ControlledExpectation(CIRCUIT, INPUTS, SUMS)
    assert not layer.weights
    parameters = np.random.default_rng(2).uniform(-1, 1, (4, 2)).astype(np.float32)
    values, (by_angles, by_parameters) = value_and_gradients(
        lambda *sources: layer(list(sources)), tf.constant(ANGLES), tf.constant(parameters)
    )
    for row in range(4):
        one = tf.constant(ANGLES[row : row + 1], tf.float64)
        wanted = exact().expectation(one, tf.constant(parameters[row], tf.float64))
        np.testing.assert_allclose(values[row : row + 1], wanted, atol=1e-5)
    # A step along the gradient increases the value by its squared norm.
    step = 1e-3
    ahead, _ = value_and_gradients(
        lambda *sources: layer(list(sources)),
        tf.constant(ANGLES) + step * by_angles,
        tf.constant(parameters) + step * by_parameters,
    )
    weights = np.random.default_rng(1).normal(size=values.shape)
    increase = float(tf.reduce_sum((ahead - values) * weights)) / step
    squares = float(tf.reduce_sum(by_angles**2) + tf.reduce_sum(by_parameters**2))
    assert increase == pytest.approx(squares, rel=2e-2)


def test_controlled_expectation_trains_the_previous_layer() -> None:
    angles, context = keras.Input((2,)), keras.Input((3,))
    before = dense(2, 1)
    readouts = ControlledExpectation(CIRCUIT, INPUTS, SUMS)([angles, before(context)])
    model = keras.Model([angles, context], readouts)
    model.compile("adam", "mse")
    kernel = before.get_weights()[0]
    model.fit([ANGLES, np.ones((4, 3))], np.ones((4, 2)), epochs=1, verbose=0)
    assert (before.get_weights()[0] != kernel).all()


@pytest.mark.parametrize("given", [ANGLES, [ANGLES, ANGLES[:, :1]], [ANGLES] * 3])
def test_controlled_expectation_wrong_shapes_raise(given: Any) -> None:
    with pytest.raises(ValueError, match=r"takes \[angles, parameters\] of shapes \[batch, 2\]"):
        ControlledExpectation(CIRCUIT, INPUTS, SUMS)(given)


def test_state_equals_cirq() -> None:
    found = trained(State(CIRCUIT, INPUTS))(ANGLES)
    assert found.dtype == tf.complex64
    for row, angles in zip(found, ANGLES, strict=True):
        values = dict(zip((*INPUTS, "p", "q"), map(float, [*angles, *TRAINED]), strict=True))
        resolved = cirq.resolve_parameters(CIRCUIT, values)
        np.testing.assert_allclose(row, resolved.final_state_vector(dtype=np.complex128), atol=1e-6)


@pytest.mark.parametrize("name", MAKERS)
def test_layer_empty_batch_is_empty(name: str) -> None:
    layer = MAKERS[name]()
    whole = layer(ANGLES)
    empty = layer(ANGLES[:0])
    assert empty.shape == (0, *whole.shape[1:])
    assert empty.dtype == whole.dtype
    graph = tf.function(layer, input_signature=[tf.TensorSpec([None, 2])])
    assert graph(ANGLES[:0]).shape == empty.shape


def test_controlled_expectation_empty_batch_is_empty() -> None:
    layer = ControlledExpectation(CIRCUIT, INPUTS, SUMS)
    assert layer([ANGLES[:0], ANGLES[:0]]).shape == (0, 2)


@pytest.mark.parametrize("name", MAKERS)
def test_float64_layer_simulates_in_complex128(name: str) -> None:
    layer = trained(MAKERS[name](dtype="float64"))
    assert layer.angles.dtype == tf.float64
    found = layer(ANGLES.astype(np.float64))
    kinds = {"State": tf.complex128, "Samples": tf.int8}
    assert found.dtype == kinds.get(name, tf.float64)
    if name == "Expectation":
        point = tf.constant(ANGLES, tf.float64), tf.constant(TRAINED, tf.float64)
        np.testing.assert_allclose(found, exact().expectation(*point), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_float16_layer_raises(name: str) -> None:
    with pytest.raises(ValueError, match="dtype float16: use float32 or float64"):
        MAKERS[name](dtype="float16")


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_layer_gives_equal_results_on_every_backend(name: str, backend: str) -> None:
    found = trained(MAKERS[name](backend=backend))(ANGLES)
    wanted = trained(MAKERS[name]())(ANGLES)
    assert found.dtype == wanted.dtype
    if name in ("Samples", "SampledExpectation"):
        # A probability that differs in its seventh digit changes few shots.
        assert np.mean(found.numpy() != wanted.numpy()) < 0.05
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_layer_of_unsupported_circuit_raises() -> None:
    noisy = cirq.Circuit(cirq.rx(X).on(A), cirq.depolarize(0.1).on(A))
    measured = cirq.Circuit(cirq.rx(X).on(A), cirq.measure(A))
    for make, word in (
        (lambda: Expectation(measured, ["x0"], [cirq.Z(A)]), "measurement"),
        (lambda: ControlledExpectation(measured, ["x0"], [cirq.Z(A)]), "measurement"),
        (lambda: State(noisy, ["x0"]), "noise"),
        (lambda: Samples(noisy, ["x0"], 3), "noise"),
        (lambda: SampledExpectation(noisy, ["x0"], [cirq.Z(A)], 3), "noise"),
    ):
        with pytest.raises(CircuitError, match=word):
            make()


def test_weights_without_seed_follow_the_keras_seed() -> None:
    def drawn() -> list[np.ndarray]:
        keras.utils.set_random_seed(3)
        layers = [Expectation(CIRCUIT, INPUTS, SUMS), keras.layers.Dense(2)]
        for layer in layers:
            layer.build((None, 2))
        return [layer.get_weights()[0] for layer in layers]

    for one, other in zip(drawn(), drawn(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_describe_reports_symbols_and_shots() -> None:
    assert "2 inputs, 2 parameters, 2 readouts" in MAKERS["Expectation"]().describe()
    assert "20 shots of each of 2 groups" in MAKERS["SampledExpectation"]().describe()
    bound = trained(MAKERS["State"]()).bound_circuit()
    assert cirq.parameter_names(bound) == set(INPUTS)


def test_layer_with_another_circuit_evaluates_it() -> None:
    layer = trained(Expectation(CIRCUIT, INPUTS, SUMS))
    before = layer(ANGLES).numpy()
    shorter = cirq.resolve_parameters(CIRCUIT, {"p": 0.0})
    layer.set_circuit(shorter)
    angles = layer.angles.numpy()
    fresh = Expectation(shorter, INPUTS, SUMS, parameters=layer.parameters)
    fresh.build([None, len(INPUTS)])
    fresh.angles.assign(angles)
    np.testing.assert_allclose(layer(ANGLES), fresh(ANGLES), atol=1e-6)
    assert np.abs(layer(ANGLES).numpy() - before).max() > 1e-3
    assert layer.get_config()["circuit"] == fresh.get_config()["circuit"]
    with pytest.raises(NotImplementedError):
        Samples(CIRCUIT, INPUTS, 3).set_circuit(shorter)


def test_one_sum_is_one_observable() -> None:
    for kind in (Expectation, ControlledExpectation):
        assert len(kind(CIRCUIT, INPUTS, SUMS[0]).observables) == 1
    assert Expectation(CIRCUIT, INPUTS, cirq.Z(A)).observables == (cirq.PauliSum.wrap(cirq.Z(A)),)


def test_shots_are_a_positive_integer() -> None:
    assert SampledExpectation(CIRCUIT, INPUTS, SUMS, shots=np.int64(5)).shots == 5
    with pytest.raises(ValueError, match="shots is True"):
        SampledExpectation(CIRCUIT, INPUTS, SUMS, shots=True)


@pytest.mark.parametrize("kind", [np.complex64, np.bytes_])
def test_angles_that_are_not_real_are_refused(kind: type) -> None:
    """TensorFlow Quantum's layers take circuits as strings."""
    angles = np.ones((2, len(INPUTS)), kind)
    parameters = np.ones((2, len(cirq.parameter_names(CIRCUIT)) - len(INPUTS)), np.float32)
    with pytest.raises(ValueError, match="takes real angles"):
        Expectation(CIRCUIT, INPUTS, SUMS)(angles)
    with pytest.raises(ValueError, match="takes real angles"):
        ControlledExpectation(CIRCUIT, INPUTS, SUMS)([angles, parameters])


def test_changed_circuit_does_not_change_a_layer() -> None:
    circuit, observable = CIRCUIT.copy(), cirq.PauliSum.wrap(cirq.Z(A))
    layer = Expectation(circuit, INPUTS, [observable], gradient_circuit=circuit)
    config = layer.get_config()
    circuit.append(cirq.X(A))
    observable += cirq.X(A)
    assert layer.get_config() == config
