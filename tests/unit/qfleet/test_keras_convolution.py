"""Keras layer: circuits on all patches of images."""

from pathlib import Path

import numpy as np
import pytest

import qfleet
from qfleet.errors import ArgumentError
from qfleet.tensorflow.layers import QuantumConvolution
from qfleet.tensorflow.runtime import keras, tf
from tests.support.patches import INPUTS, OBSERVABLES, patch_circuit


def convolution(**options: object) -> QuantumConvolution:
    """Return a layer of two circuits, with rows of stride 1 and columns of stride 2."""
    circuits = [patch_circuit(2), patch_circuit(3)]
    options = {"stride": (1, 2), "dtype": "float64"} | options
    return QuantumConvolution(circuits, INPUTS, OBSERVABLES, 2, **options)


def images() -> np.ndarray:
    """Return [3, 5, 6, 2] images."""
    return np.random.default_rng(1).normal(size=(3, 5, 6, 2))


def test_channels_equal_each_patch_of_each_circuit() -> None:
    layer, batch = convolution(), images()
    found = layer(batch).numpy()
    assert found.shape == (3, 4, 3, 4)
    for at, circuit in enumerate(layer.circuits):
        compiled = qfleet.compile(circuit.circuit, INPUTS, observables=OBSERVABLES)
        for row in range(4):
            for column in range(3):
                patches = batch[:, row : row + 2, 2 * column : 2 * column + 2].reshape(3, -1)
                np.testing.assert_allclose(
                    found[:, row, column, 2 * at : 2 * at + 2],
                    compiled.expectation(patches, circuit.angles.numpy()),
                    atol=1e-12,
                )


def test_gradients_of_a_graph_equal_differences() -> None:
    layer, batch = convolution(), tf.constant(images())
    weights = layer(batch).shape
    upstream = tf.constant(np.random.default_rng(2).normal(size=weights))

    @tf.function
    def loss(batch: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(layer(batch) * upstream)

    with tf.GradientTape() as tape:
        tape.watch(batch)
        value = loss(batch)
    by_images, by_angles = tape.gradient(value, [batch, layer.circuits[1].angles])
    step = 1e-5 * np.random.default_rng(3).normal(size=batch.shape)
    change = (loss(batch + step) - loss(batch - step)).numpy() / 2
    np.testing.assert_allclose(np.sum(by_images * step), change, rtol=1e-6)
    assert by_angles.shape == (4,)


def test_saved_model_has_equal_values(tmp_path: Path) -> None:
    model = keras.Sequential(
        [
            keras.Input((5, 6, 2), dtype="float64"),
            convolution(),
            keras.layers.Flatten(dtype="float64"),
            keras.layers.Dense(1, dtype="float64"),
        ]
    )
    model.compile("adam", "mse")
    model.fit(images(), np.zeros((3, 1)), epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = model.predict(images(), verbose=0)
    np.testing.assert_array_equal(loaded.predict(images(), verbose=0), expected)


def test_fixed_circuits_have_no_trained_angles() -> None:
    layer = convolution(trainable=False)
    layer(images())
    assert len(layer.trainable_weights) == 0
    assert len(layer.weights) == 2


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 5, 5, 2), "width 5, which patches of 2 pixels with stride 2.* to 4 or 6"),
        ((1, 5, 6, 1), "8 names: a patch of 2 x 2 pixels with 1 channels has 4 numbers"),
        ((1, 2, 5, 6), r"pass \[..., height, .*, for example tf.transpose\(images"),
        ((5, 6), r"pass \[batch, height, width, channels\]"),
    ],
)
def test_images_that_do_not_fit_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        convolution()(np.zeros(shape))


def test_no_circuit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="circuits is empty"):
        QuantumConvolution([], INPUTS, OBSERVABLES, 2)
