"""A learner that resumes within an epoch; losses by step."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from common.data.target import SIGNS
from qfleet.tensorflow.runtime import keras, tf
from training.callbacks.checkpointing import capture_state, digest_of_state, restore_state
from training.callbacks.metrics import finite_or_none
from training.callbacks.tensorboard import TensorBoardCallback
from training.step.learner import MAX_TRACED_STEPS, Learner
from training.step.losses import measures_of
from training.step.micro_batches import MicroBatches
from training.step.replica_state import Fault

ROWS, STEPS = 3, 4


def build(micro_batches: MicroBatches | None = None) -> Learner:
    initializer = keras.initializers.GlorotUniform(seed=1)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, kernel_initializer=initializer)]
    )
    learner = Learner(model, measures_of(SIGNS), micro_batches=micro_batches)
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    learner.compile(optimizer, steps_per_execution=2)
    learner.steps_per_call = 1
    return learner


def fit(learner: Learner, first: int, end: int, parts: tuple[int, ...] = (), bad: int = -1) -> None:
    """Train steps `first` to `end` - 1 of an epoch.

    Args:
        learner: The learner.
        first: First step.
        end: Step after the last.
        parts: Micro-batches and their rows.
        bad: Step with a label that is not a number.
    """
    rng = np.random.default_rng(0)
    angles = tf.constant(rng.uniform(-1, 1, (STEPS, ROWS, 2)), tf.float32)
    labels = tf.where((tf.range(STEPS) == bad)[:, None], np.nan, tf.sign(angles[:, :, 0]))
    shape = [STEPS, *(parts or (ROWS,))]
    batch = (
        tf.reshape(angles, [*shape, 2]), tf.reshape(labels, shape), tf.ones(shape),
        tf.fill([STEPS], 3.0),
    )  # fmt: skip
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
    callback = TensorBoardCallback(
        tmp_path, metrics=("mse",), circuits=1, sample=np.zeros((1, 2), "f4")
    )
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


def test_micro_batches_sum_to_the_whole_batch() -> None:
    whole, divided = build(), build(MicroBatches(ROWS, 0, ROWS))
    fit(whole, 0, STEPS)
    fit(divided, 0, STEPS, parts=(ROWS, 1))
    np.testing.assert_allclose(divided.sums, whole.sums, rtol=1e-6)
    for one, other in zip(divided.model.weights, whole.model.weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-6)


def test_label_that_is_not_a_number_is_found_in_its_step() -> None:
    learner = build()
    fit(learner, 0, 2)
    assert learner.replicas.status.fault == Fault.NONE
    learner.epoch_step_offset = 0
    fit(learner, 0, STEPS, bad=1)
    status = learner.replicas.status
    assert (status.fault, status.step) == (Fault.LOSS, 3)
    learner.replicas.reset()
    assert learner.replicas.status.fault == Fault.NONE


def test_captured_state_has_the_digest_of_the_graph() -> None:
    learner = build()
    fit(learner, 0, 2)
    multi_start = SimpleNamespace(arrays={})
    state = capture_state(learner, multi_start, 0, 2)
    agreed = learner.replicas.agreed_digest
    np.testing.assert_array_equal(digest_of_state(learner, state), agreed)
    learner.model.weights[1].assign_add([1e-7])
    damaged = capture_state(learner, multi_start, 0, 2)
    assert (digest_of_state(learner, damaged) != agreed).all()


def test_metrics_that_are_not_finite_become_null() -> None:
    assert [finite_or_none(value) for value in (0.25, np.nan, -np.inf)] == [0.25, None, None]
