"""Models whose traces need AutoGraph, and a learner that trains one."""

from typing import Any

import numpy as np
import pytest

from common.data.target import SIGNS
from common.models import build_model
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf
from training.step.learner import Learner
from training.step.losses import measures_of
from training.step.tracing import needs_autograph


class Branching(keras.layers.Layer):
    """Doubles its inputs where their sum is positive: a Python `if` on a tensor."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the inputs or their double."""
        if tf.reduce_sum(inputs) > 0:  # noqa: SIM108
            outputs = 2 * inputs
        else:
            outputs = inputs
        return outputs


class Subclassed(keras.Model):
    """A model with a `call` of its own."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the inputs."""
        return inputs


@pytest.mark.parametrize("kind", ["qcnn", "hybrid", "multi-filter"])
def test_shipped_models_need_no_autograph(kind: str) -> None:
    model = build_model(4, Settings.from_args([f"--model={kind}", "--qubits=4"]))
    assert not needs_autograph(model)


@pytest.mark.parametrize(
    "layers", [[Branching()], [keras.layers.Lambda(lambda x: x)], [keras.Sequential([Branching()])]]
)
def test_layers_of_the_user_need_autograph(layers: list[Any]) -> None:
    assert needs_autograph(keras.Sequential([*layers, keras.layers.Dense(1)]))


def test_model_class_of_the_user_needs_autograph() -> None:
    assert needs_autograph(Subclassed())


@pytest.mark.parametrize(
    "single_step_calls", [True, pytest.param(False, marks=pytest.mark.exhaustive)]
)
def test_branch_on_a_tensor_is_trained(single_step_calls: bool) -> None:
    model = keras.Sequential([keras.Input((2,)), Branching(), keras.layers.Dense(1)])
    learner = Learner(model, measures_of(SIGNS))
    learner.compile(optimizer=keras.optimizers.SGD(0.1), steps_per_execution=1)
    learner.single_step_calls = single_step_calls
    before = model.get_weights()[0]
    rows = np.ones((4, 2), "f4"), np.ones(4, "f4"), np.ones(4, "f4"), np.float32(4)
    learner.make_train_function()(iter(tf.data.Dataset.from_tensors(rows)))
    # d/dw of mean (2 w x + b - 1)**2 with x = 1: 4 (prediction - 1)
    error = 2 * before.sum() - 1
    assert model.get_weights()[0] == pytest.approx(before - 0.1 * 4 * error, abs=1e-5)
