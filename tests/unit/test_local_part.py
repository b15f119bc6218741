"""The part of a distributed variable that a worker reads and assigns."""

import numpy as np

from qfleet.tensorflow.runtime import tf
from training.step.local_part import local_part


def test_part_is_a_plain_variable_outside_of_the_strategy() -> None:
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        variable = tf.Variable([1.0, 2.0])
    assert isinstance(variable, tf.distribute.DistributedValues)
    part = local_part(variable)
    assert not isinstance(part, tf.distribute.DistributedValues)
    part.assign([3.0, 4.0])
    assert np.array_equal(variable.numpy(), [3, 4])


def test_plain_variable_is_its_own_part() -> None:
    variable = tf.Variable(1.0)
    assert local_part(variable) is variable
