"""Sums of floating-point numbers whose bits do not depend on the order of addition.

Each number becomes two integers, a whole part and a fraction in units of 2**-44. Integers are added
without rounding, so that any order and any grouping gives the same sum. The unit is far below the
1e-7 that Adam adds to the size of a gradient.

A vector of n numbers is encoded as int64 [2 n + 1]: whole parts, fractions, and how many vectors
had a number that is infinite, NaN or beyond LIMIT. Up to 2**19 vectors can be added before `carry`.
"""

from qfleet.tensorflow.runtime import tf

FRACTION_BITS = 44
LIMIT = 2.0**50
"""Largest absolute number. Gradients beyond it come from a training that has diverged."""


def encoded_length(numbers: int) -> int:
    """Return the length of an encoded vector of this many numbers."""
    return 2 * numbers + 1


def encode(numbers: tf.Tensor) -> tf.Tensor:
    """Return int64 [2 n + 1] for a float vector [n]."""
    numbers = tf.cast(numbers, tf.float64)
    usable = tf.reduce_all(tf.abs(numbers) <= LIMIT)  # False for NaN
    numbers = tf.where(usable, numbers, tf.zeros_like(numbers))
    whole = tf.round(numbers)
    fraction = tf.round((numbers - whole) * 2.0**FRACTION_BITS)
    unusable = 1 - tf.cast(usable, tf.float64)
    return tf.cast(tf.concat([whole, fraction, unusable[tf.newaxis]], 0), tf.int64)


def decode(total: tf.Tensor) -> tf.Tensor:
    """Return float64 [n] for a sum of encoded vectors; all are NaN if one number was unusable."""
    count = total.shape.num_elements() // 2
    numbers = tf.cast(total[: 2 * count], tf.float64)
    decoded = numbers[:count] + numbers[count:] * 2.0**-FRACTION_BITS
    nan = tf.fill([count], tf.constant(float("nan"), tf.float64))
    return tf.where(total[-1] > 0, nan, decoded)


def carry(total: tf.Tensor) -> tf.Tensor:
    """Return the same sum with fractions below 1, so that more vectors can be added."""
    count = total.shape.num_elements() // 2
    whole, fraction = total[:count], total[count : 2 * count]
    carried = tf.bitwise.right_shift(fraction, tf.constant(FRACTION_BITS, tf.int64))
    rest = fraction - tf.bitwise.left_shift(carried, tf.constant(FRACTION_BITS, tf.int64))
    return tf.concat([whole + carried, rest, total[-1:]], 0)
