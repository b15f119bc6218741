"""A learner that is taken up in mid-epoch goes on as if nothing had happened; losses by step."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from training.tensorboard_callbacks import TensorBoardCallback

from qfleet.tensorflow.runtime import keras, tf
from training.checkpointing import capture_state, restore_state
from training.learner import TRACE, Learner

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
    restore_state(again, starts, capture_state(begun, starts, 0, 1))
    fit(again, 1, STEPS)
    assert whole.sums[2] == ROWS * STEPS
    np.testing.assert_allclose(again.sums, whole.sums)
    np.testing.assert_allclose(again.model.get_weights()[0], whole.model.get_weights()[0])


def test_the_next_epoch_begins_at_nothing() -> None:
    made = learner()
    fit(made, 0, STEPS)
    fit(made, 0, STEPS)
    assert made.sums[2] == ROWS * STEPS


def test_losses_are_shown_at_their_steps_also_where_a_call_holds_more_than_are_kept(
    tmp_path: Path,
) -> None:
    made = learner()
    board = TensorBoardCallback(tmp_path, circuits=1, sample=np.zeros((1, 2), "f4"))
    board.set_model(made)
    board.on_epoch_begin(0)
    for done in (1, 3, 3 + TRACE + 10, 3 + TRACE + 12):
        made.steps = done
        board.on_train_batch_end(0)
    board._steps.flush()
    (file,) = (tmp_path / "steps").iterdir()
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    events = [tf.compat.v1.Event.FromString(record) for record in records]
    shown = [event.step for event in events if event.summary.value]
    assert shown == [1, 2, 3, *range(3 + 10 + 1, 3 + TRACE + 12 + 1)]
