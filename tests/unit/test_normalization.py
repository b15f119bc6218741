"""NORMALIZE_READOUTS: statistics of readouts, and their update over micro-batches."""

import numpy as np
import pytest

from common import models
from common.models.normalization import (
    DECAY,
    EPSILON,
    ReadoutNormalization,
    collect_readouts,
    readout_normalization,
)
from common.settings import Settings
from qfleet.tensorflow.runtime import tf
from training.step import step_vector
from training.step.losses import measures_of
from training.step.objective import Objective

READOUTS = np.array([[0.1, -0.5], [0.3, -0.1], [0.8, 0.0]], np.float32)
SETTINGS = ("QUBITS=4", "NORMALIZE_READOUTS=true")


def normalized(readouts: np.ndarray) -> np.ndarray:
    return (readouts - readouts.mean(axis=0)) / np.sqrt(readouts.var(axis=0) + EPSILON)


def test_normalization_before_the_first_step_changes_nothing() -> None:
    np.testing.assert_array_equal(ReadoutNormalization()(READOUTS), READOUTS)


def test_normalization_scales_by_its_statistics() -> None:
    layer = ReadoutNormalization()
    layer(READOUTS)
    sums = tf.constant(np.concatenate([READOUTS.sum(axis=0), (READOUTS**2).sum(axis=0)]))
    layer.update(sums, tf.constant(3.0))
    assert layer(READOUTS).numpy() == pytest.approx(normalized(READOUTS), abs=1e-4)
    layer.update(tf.zeros([4]), tf.constant(3.0))
    means = layer.get_weights()[0]
    assert means[0] == pytest.approx(0.4 * DECAY * (1 - DECAY))
    assert means[-1] == pytest.approx((1 - DECAY) * (1 + DECAY))


def test_adapted_normalization_forgets_the_training() -> None:
    layer = ReadoutNormalization()
    layer(READOUTS)
    layer.update(tf.ones([4]), tf.constant(3.0))
    layer.adapt(READOUTS)
    assert layer(READOUTS).numpy() == pytest.approx(normalized(READOUTS), abs=1e-4)


def test_objective_sums_readouts_without_padding() -> None:
    model = models.build_model(4, Settings.from_args([*SETTINGS]))
    target = measures_of(models.SIGNS)
    objective = Objective(model, target, 1, None)
    angles = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    labels, weights = np.ones(3, np.float32), np.array([1, 1, 0], np.float32)
    batch = tuple(map(tf.constant, (angles, labels, weights, np.float32(2))))
    vector = objective.derive(batch, tf.constant(0, tf.int64))
    *_, sums, moments = step_vector.unflatten(vector, objective.parts)
    with collect_readouts() as found:
        model(angles[:2])
    expected = found[0].numpy().sum(axis=0)
    assert moments.numpy()[: len(expected)] == pytest.approx(expected, abs=1e-5)
    objective.update(sums, moments)
    layer = readout_normalization(model)
    assert layer is not None
    assert layer.get_weights()[0][-1] == pytest.approx(1 - DECAY)
