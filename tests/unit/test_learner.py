"""A learner that resumes within an epoch; losses by step."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from qfleet.tensorflow.runtime import keras, tf
from training.callbacks.checkpointing import capture_state, restore_state
from training.callbacks.tensorboard import TensorBoardCallback
from training.learner import MAX_TRACED_STEPS, Learner

ROWS, STEPS = 3, 4


def build() -> Learner:
    initializer = keras.initializers.GlorotUniform(seed=1)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, kernel_initializer=initializer)]
    )
    learner = Learner(model)
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    learner.compile(optimizer, steps_per_execution=2)
    learner.steps_per_call = 1
    return learner


def fit(learner: Learner, first: int, end: int) -> None:
    """Train steps `first` to `end` - 1 of an epoch."""
    rng = np.random.default_rng(0)
    angles = tf.constant(rng.uniform(-1, 1, (STEPS, ROWS, 2)), tf.float32)
    batch = (angles, tf.sign(angles[:, :, 0]), tf.ones([STEPS, ROWS]), tf.fill([STEPS], 3.0))
    learner.epoch_step_offset = first
    data = tf.data.Dataset.from_tensor_slices(batch).skip(first)
    learner.fit(data, steps_per_epoch=end - first, verbose=0)
    learner.epoch_step_offset = 0


def test_resumed_epoch_counts_all_of_its_examples() -> None:
    whole, first, resumed = build(), build(), build()
    multi_start = SimpleNamespace(arrays={})
    fit(whole, 0, STEPS)
    fit(first, 0, 1)
    restore_state(resumed, multi_start, capture_state(first, multi_start, 0, 1))
    fit(resumed, 1, STEPS)
    assert whole.sums[2] == ROWS * STEPS
    np.testing.assert_allclose(resumed.sums, whole.sums)
    np.testing.assert_allclose(resumed.model.get_weights()[0], whole.model.get_weights()[0])


def test_next_epoch_resets_the_sums() -> None:
    learner = build()
    fit(learner, 0, STEPS)
    fit(learner, 0, STEPS)
    assert learner.sums[2] == ROWS * STEPS


def test_losses_have_their_steps_if_a_call_exceeds_the_trace(
    tmp_path: Path,
) -> None:
    learner = build()
    callback = TensorBoardCallback(tmp_path, circuits=1, sample=np.zeros((1, 2), "f4"))
    callback.set_model(learner)
    callback.on_epoch_begin(0)
    for done in (1, 3, 3 + MAX_TRACED_STEPS + 10, 3 + MAX_TRACED_STEPS + 12):
        learner.steps = done
        callback.on_train_batch_end(0)
    callback._steps.flush()
    (file,) = (tmp_path / "steps").iterdir()
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    events = [tf.compat.v1.Event.FromString(record) for record in records]
    shown = [event.step for event in events if event.summary.value]
    assert shown == [1, 2, 3, *range(3 + 10 + 1, 3 + MAX_TRACED_STEPS + 12 + 1)]
