"""Layers of finite shots: probabilities, seeds, and the parameter-shift rule."""

from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import pytest

from qfleet.compiler.circuit.parameter_shift import shiftable_circuit
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers import SampledExpectation, Samples, State
from qfleet.tensorflow.runtime import keras, tf
from tests.support.layer_cases import (
    ANGLES,
    CIRCUIT,
    INPUTS,
    SUMS,
    TRAINED,
    A,
    B,
    C,
    P,
    Q,
    X,
    Y,
    exact,
    trained,
    value_and_gradients,
)


def test_samples_follow_the_probabilities_of_the_state() -> None:
    shots = 20_000
    layer = trained(Samples(CIRCUIT, INPUTS, shots, seed=11))
    bits = layer(ANGLES).numpy()
    assert bits.shape == (4, shots, 3)
    assert bits.dtype == np.int8
    probabilities = np.abs(trained(State(CIRCUIT, INPUTS))(ANGLES).numpy()) ** 2
    patterns = bits @ [4, 2, 1]
    for row in range(4):
        counts = np.bincount(patterns[row], minlength=8)
        # Five standard deviations of each count.
        spread = 5 * np.sqrt(shots * probabilities[row] * (1 - probabilities[row])) + 1e-3
        assert (np.abs(counts - shots * probabilities[row]) <= spread).all()


def test_pattern_of_probability_zero_is_never_drawn() -> None:
    ghz = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.CNOT(B, C))
    bits = Samples(ghz, (), 5000, seed=0)(np.zeros((3, 0))).numpy()
    assert set(map(tuple, bits.reshape(-1, 3))) == {(0, 0, 0), (1, 1, 1)}


def test_samples_depend_on_the_seed() -> None:
    def made(seed: int) -> np.ndarray:
        return trained(Samples(CIRCUIT, INPUTS, 50, seed=seed))(ANGLES).numpy()

    first = made(5)
    np.testing.assert_array_equal(first, made(5))
    assert (first != made(6)).any()
    layer = trained(Samples(CIRCUIT, INPUTS, 50, seed=5))
    np.testing.assert_array_equal(tf.function(layer)(ANGLES), first)
    np.testing.assert_array_equal(layer(ANGLES), first)
    assert (first[0] != layer(ANGLES[[0, 0]]).numpy()[1]).any(), "rows share their shots"


def test_missing_seed_is_drawn_and_saved() -> None:
    layers = [Samples(CIRCUIT, INPUTS, 5) for _ in range(2)]
    assert layers[0].seed != layers[1].seed
    assert Samples.from_config(layers[0].get_config()).seed == layers[0].seed


@pytest.mark.parametrize("shots", [0, -3, 1.5])
def test_invalid_number_of_shots_raises(shots: Any) -> None:
    with pytest.raises(ValueError, match="shots is"):
        Samples(CIRCUIT, INPUTS, shots)
    with pytest.raises(ValueError, match="shots is"):
        SampledExpectation(CIRCUIT, INPUTS, SUMS, shots)


def test_shift_rule_is_exact_for_every_symbol() -> None:
    """The shiftable circuit has the readouts and, by the two-term rule, the gradients."""
    wanted = {qubit for observable in SUMS for qubit in observable.qubits}
    parts = shiftable_circuit(CIRCUIT, INPUTS, wanted)
    simulator = build_simulator(
        parts.circuit, parts.data.names, parts.shared.names, SUMS, dtype="complex128"
    )
    point = dict(zip((X, Y, P, Q), map(float, [*ANGLES[0], *TRAINED]), strict=True))
    data = np.array([[float(e.subs(point)) for e in parts.data.exponents]])
    shared = np.array([float(e.subs(point)) for e in parts.shared.exponents])
    values, found = value_and_gradients(
        simulator.expectation, tf.constant(data), tf.constant(shared)
    )
    sources = tf.constant(ANGLES[:1], tf.float64), tf.constant(TRAINED, tf.float64)
    np.testing.assert_allclose(values, exact().expectation(*sources), atol=1e-12)
    weights = np.random.default_rng(1).normal(size=values.shape)
    for which, symbols in enumerate((parts.data, parts.shared)):
        assert len(symbols.names) > 2
        for at, (half_turns, shift) in enumerate(
            zip(symbols.half_turns, symbols.shifts, strict=True)
        ):

            def shifted(step: float, which: int = which, at: int = at) -> np.ndarray:
                points = [data.copy(), shared.copy()]
                points[which][..., at] += step
                return simulator.expectation(*map(tf.constant, points)).numpy()

            derivative = np.pi * half_turns * ((shifted(shift) - shifted(-shift)) * weights).sum()
            assert derivative == pytest.approx(float(tf.reshape(found[which], [-1])[at]), abs=1e-12)


def test_sampled_results_scatter_around_the_exact_ones() -> None:
    shots = 40_000
    layer = trained(SampledExpectation(CIRCUIT, INPUTS, SUMS, shots, seed=2))
    sources = tf.constant(ANGLES), layer.angles
    with tf.GradientTape() as tape:
        tape.watch(sources)
        total = tf.reduce_sum(layer(sources[0], training=True) * [[1.0, -0.6]])
    found = tape.gradient(total, sources)
    points = tf.constant(ANGLES, tf.float64), tf.constant(TRAINED, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(points)
        wanted = exact().expectation(*points)
        total = tf.reduce_sum(wanted * np.array([[1.0, -0.6]]))
    # A readout's spread is at most its coefficients' sum over the root of the shots.
    np.testing.assert_allclose(layer(ANGLES), wanted, atol=5 * 1.8 / np.sqrt(shots))
    for one, other in zip(found, tape.gradient(total, points), strict=True):
        np.testing.assert_allclose(one, other, atol=0.12)
        assert (np.abs(other) > 0.3).any()


def test_shots_in_training_differ_per_call_and_follow_seed() -> None:
    def run(call: Callable[[keras.layers.Layer], tf.Tensor], times: int = 3) -> np.ndarray:
        layer = trained(SampledExpectation(CIRCUIT, INPUTS, SUMS, 30, seed=4))
        return np.stack([call(layer) for _ in range(times)])

    eager = run(lambda layer: layer(ANGLES, training=True))
    assert (eager[0] != eager[1]).any()
    assert (eager[1] != eager[2]).any()
    np.testing.assert_array_equal(run(lambda layer: layer(ANGLES, training=True)), eager)
    graphs: dict[int, Any] = {}

    def in_graph(layer: keras.layers.Layer) -> tf.Tensor:
        key = id(layer)
        graphs.setdefault(key, tf.function(lambda: layer(ANGLES, training=True)))
        return graphs[key]()

    np.testing.assert_array_equal(run(in_graph), eager)

    def in_loop(layer: keras.layers.Layer) -> tf.Tensor:
        @tf.function
        def loop() -> tf.Tensor:
            found = tf.TensorArray(tf.float32, 3)
            for at in tf.range(3):
                found = found.write(at, layer(ANGLES, training=True))
            return found.stack()

        return loop()

    np.testing.assert_array_equal(run(in_loop, 1)[0], eager)
    calm = run(lambda layer: layer(ANGLES))
    np.testing.assert_array_equal(calm[0], calm[1])


def test_gradients_from_shots_are_equal_in_a_graph() -> None:
    def gradient(layer: keras.layers.Layer) -> list[tf.Tensor]:
        angles = tf.constant(ANGLES)
        with tf.GradientTape() as tape:
            tape.watch(angles)
            total = tf.reduce_sum(layer(angles, training=True) ** 2)
        return tape.gradient(total, [angles, *layer.trainable_variables])

    layers = [trained(SampledExpectation(CIRCUIT, INPUTS, SUMS, 30, seed=4)) for _ in range(2)]
    eager, graph = gradient(layers[0]), tf.function(gradient)(layers[1])
    for one, other in zip(eager, graph, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_derivative_that_is_not_needed_is_not_measured() -> None:
    circuit = cirq.Circuit(cirq.rx(X).on(A), cirq.ry(P).on(A), cirq.rz(X).on(A), cirq.ry(P).on(A))
    layer = SampledExpectation(circuit, ["x0"], [cirq.Z(A)], 10, seed=4)
    measured = []
    measure = layer.simulator._measure
    layer.simulator._measure = lambda *args: measured.append(1) or measure(*args)
    angles = tf.constant(ANGLES[:, :1])
    with tf.GradientTape(persistent=True) as tape:
        total = tf.reduce_sum(layer(angles))
    assert len(measured) == 1
    tape.gradient(total, layer.angles)
    assert len(measured) == 1 + 2 * 2
    with tf.GradientTape() as tape:
        tape.watch(angles)
        total = tf.reduce_sum(layer.simulator.expectation(angles, tf.zeros([1]), [0, 0]))
    tape.gradient(total, angles)
    assert len(measured) == 1 + 2 * 2 + 1 + 2 * 2


def test_shots_train_a_model() -> None:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(X).on(qubit), cirq.rx(P).on(qubit))
    angles = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
    layer = SampledExpectation(circuit, ["x0"], [cirq.Z(qubit)], 200, seed=1, initializer="ones")
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(keras.optimizers.Adam(0.1), "mse")
    model.fit(angles, np.cos(angles - 0.5), epochs=60, batch_size=16, verbose=0)
    assert layer.angles.numpy()[0] == pytest.approx(-0.5, abs=0.1)
