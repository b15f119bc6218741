"""Keras layer of different circuits: each row equals its own circuit of the NumPy interface."""

from pathlib import Path

import cirq
import numpy as np
import pytest

import qfleet
from qfleet.errors import ArgumentError, CircuitError
from qfleet.tensorflow.layers import BatchExpectation
from qfleet.tensorflow.runtime import keras, tf
from tests.unit.qfleet.test_circuit_batches import GATES, POINT, SUMS, random_circuit

PLAIN = len(GATES) - 2  # gates whose numbers become symbols
FEW = [random_circuit(seed % 2, seed, PLAIN) for seed in range(6)]
ANGLES, TRAINED = POINT[0][:6], POINT[1]
ROWS = np.array([5, 0, 4, 4, 2])
WEIGHTS = np.random.default_rng(9).normal(size=(5, 3))


def made(**options: object) -> BatchExpectation:
    """Return a layer of six circuits in two groups, with trained angles."""
    options = {"dtype": "float64", "initializer": keras.initializers.Constant(TRAINED)} | options
    return BatchExpectation(FEW, ["x"], SUMS, parameters=["p", "r"], **options)


@pytest.mark.parametrize("traced", [False, True])
def test_values_and_gradients_of_rows_equal_numpy(traced: bool) -> None:
    layer, angles = made(), tf.constant(ANGLES[ROWS])

    def weighted(rows: tf.Tensor, angles: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(layer([rows, angles]) * WEIGHTS)

    function = tf.function(weighted, reduce_retracing=True) if traced else weighted
    function(tf.constant([1]), tf.constant(ANGLES[:1]))  # another batch size
    with tf.GradientTape() as tape:
        tape.watch(angles)
        value = function(tf.constant(ROWS), angles)
    by_angles, by_weight = tape.gradient(value, [angles, layer.angles])
    same = qfleet.compile_batch([FEW[row] for row in ROWS], ["x"], ["p", "r"], SUMS)
    values, expected = same.value_and_gradient(ANGLES[ROWS], TRAINED, WEIGHTS)
    np.testing.assert_allclose(value, np.sum(values * WEIGHTS), atol=1e-12)
    np.testing.assert_allclose(by_angles, expected.inputs, atol=1e-12)
    np.testing.assert_allclose(by_weight, expected.parameters, atol=1e-12)
    assert layer.groups == 2


@pytest.mark.exhaustive
def test_fit_and_file_keep_the_circuits(tmp_path: Path) -> None:
    rows, angles = keras.Input((), dtype="int64"), keras.Input((1,))
    model = keras.Model([rows, angles], made(dtype="float32")([rows, angles]))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    data = [np.arange(6), ANGLES]
    history = model.fit(data, np.zeros((6, 3)), epochs=2, batch_size=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = model.predict(data, verbose=0)
    np.testing.assert_array_equal(loaded.predict(data, verbose=0), expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.array([6]), ANGLES[:1]], "rows are numbers of the 6 circuits: pass 0 to 5"),
        ([np.array([-1]), ANGLES[:1]], "pass 0 to 5"),
        ([np.array([1.0]), ANGLES[:1]], "rows have dtype float.*: pass integers"),
        ([np.array([1]), ANGLES[:2]], r"angles have shape \(2, 1\): pass \[1, 1\]"),
        (np.array([1]), r"takes \[rows, angles\], but was given 1 inputs"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(given: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        made()(given)


def test_rows_out_of_range_in_a_graph_are_refused() -> None:
    layer = made()
    with pytest.raises(tf.errors.InvalidArgumentError, match="pass 0 to 5"):
        tf.function(layer)([tf.constant([6]), tf.constant(ANGLES[:1])])


def test_circuit_that_does_not_fit_is_named() -> None:
    with pytest.raises(CircuitError, match="circuit 1 and circuit 0 have different qubits"):
        BatchExpectation([FEW[0], FEW[1] + cirq.X(cirq.LineQubit(9))], ["x"], SUMS)
