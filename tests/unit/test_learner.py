"""A learner that is taken up in mid-epoch goes on as if nothing had happened."""

from types import SimpleNamespace

import numpy as np

from common.tensorflow import keras, tf
from training.keeper import put, take
from training.learner import Learner

ROWS, STEPS = 3, 4


def learner() -> Learner:
    drawn = keras.initializers.GlorotUniform(seed=1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer=drawn)])
    made = Learner(model)
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    made.compile(optimizer, steps_per_execution=2)
    made.steps_per_call = 1
    return made


def fit(made: Learner, first: int, until: int) -> None:
    """Steps `first` to `until` - 1 of an epoch."""
    rng = np.random.default_rng(0)
    angles = tf.constant(rng.uniform(-1, 1, (STEPS, ROWS, 2)), tf.float32)
    batch = (angles, tf.sign(angles[:, :, 0]), tf.ones([STEPS, ROWS]), tf.fill([STEPS], 3.0))
    made.offset = first
    data = tf.data.Dataset.from_tensor_slices(batch).skip(first)
    made.fit(data, steps_per_epoch=until - first, verbose=0)
    made.offset = 0


def test_an_epoch_that_is_taken_up_counts_all_of_its_examples() -> None:
    whole, begun, again = learner(), learner(), learner()
    starts = SimpleNamespace(arrays={})
    fit(whole, 0, STEPS)
    fit(begun, 0, 1)
    put(again, starts, take(begun, starts, 0, 1))
    fit(again, 1, STEPS)
    assert whole.sums[2] == ROWS * STEPS
    np.testing.assert_allclose(again.sums, whole.sums)
    np.testing.assert_allclose(again.model.get_weights()[0], whole.model.get_weights()[0])


def test_the_next_epoch_begins_at_nothing() -> None:
    made = learner()
    fit(made, 0, STEPS)
    fit(made, 0, STEPS)
    assert made.sums[2] == ROWS * STEPS
