"""This replica's part of a distributed variable."""

from qfleet.tensorflow.runtime import tf


def local_part(variable: tf.Variable) -> tf.Variable:
    """Return the part of a variable that this replica has; a plain variable is its own part.

    A worker has one replica. Reading or assigning its part from Python takes 20 us. Through the
    distributed variable it takes 0.2 ms, since the strategy looks for all parts each time.
    """
    (part,) = tf.distribute.get_strategy().experimental_local_results(variable)
    return part
