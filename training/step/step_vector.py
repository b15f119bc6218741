"""The vector that is summed over workers in each step, and its parts.

    numbers     gradients, loss and sums over the rows; each worker adds its share
    digests     the state of each replica (replica_state.py)
    durations   the last all-reduce of each worker

Digests and durations have a place for each rank, which the other workers leave at 0. The numbers
are float32, or integers whose sum does not depend on the order (fixed_point.py).
"""

from collections.abc import Sequence

from qfleet.tensorflow.runtime import tf
from training.step import fixed_point
from training.step.replica_state import DIGEST_LENGTH

_PIECE_BITS = 16
"""Bits of a digest in one float32, which holds integers below 2**24 exactly."""

_PIECES = 32 // _PIECE_BITS
_NANOSECONDS = 1e9


def flatten(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return all parts as one float32 vector."""
    return tf.concat([tf.cast(tf.reshape(part, [-1]), tf.float32) for part in parts], 0)


def unflatten(vector: tf.Tensor, like: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
    """Return the parts of a vector, in the shapes and types of those that were flattened."""
    parts = tf.split(vector, [spec.shape.num_elements() for spec in like])
    return [
        tf.cast(tf.reshape(part, spec.shape), spec.dtype)
        for part, spec in zip(parts, like, strict=True)
    ]


def pack(numbers: tf.Tensor, digest: tf.Tensor, seconds: tf.Tensor) -> tf.Tensor:
    """Return this worker's vector.

    Args:
        numbers: float32 [n], or int64 from `fixed_point.encode`.
        digest: int64 [2].
        seconds: float64 [], duration of the last all-reduce.
    """
    if numbers.dtype == tf.int64:
        duration = tf.cast(seconds * _NANOSECONDS, tf.int64)
    else:
        duration = tf.cast(seconds, tf.float32)
        digest = tf.cast(_split(digest), tf.float32)
    own = tf.concat([digest, duration[tf.newaxis]], 0)
    return tf.concat([numbers, tf.reshape(one_hot_rank(own.dtype)[:, tf.newaxis] * own, [-1])], 0)


def unpack(total: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the parts of the sum of all workers' vectors.

    Args:
        total: Sum of the results of `pack`.
        length: Length of `numbers`.

    Returns:
        Numbers like those that were packed; digests int64 [workers, 2]; seconds float64 [workers].
    """
    is_exact = total.dtype == tf.int64
    width = 1 + DIGEST_LENGTH * (1 if is_exact else _PIECES)
    by_rank = tf.reshape(total[length:], [-1, width])
    digests, durations = by_rank[:, :-1], tf.cast(by_rank[:, -1], tf.float64)
    if is_exact:
        return total[:length], digests, durations / _NANOSECONDS
    return total[:length], _join(tf.cast(digests, tf.int64)), durations


def one_hot_rank(dtype: tf.DType) -> tf.Tensor:
    """Return [workers]: 1 at this worker's rank, else 0."""
    context = tf.distribute.get_replica_context()
    return tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync, dtype=dtype)


def decoded(numbers: tf.Tensor) -> tf.Tensor:
    """Return the numbers of a summed vector as floats."""
    return fixed_point.decode(numbers) if numbers.dtype == tf.int64 else numbers


def _split(digest: tf.Tensor) -> tf.Tensor:
    """Return int64 [2 pieces]: high and low piece of each number."""
    bits = tf.constant(_PIECE_BITS, tf.int64)
    high = tf.bitwise.right_shift(digest, bits)
    return tf.reshape(tf.stack([high, digest - tf.bitwise.left_shift(high, bits)], 1), [-1])


def _join(pieces: tf.Tensor) -> tf.Tensor:
    """Return int64 [workers, 2] from [workers, 2 pieces]."""
    pairs = tf.reshape(pieces, [-1, DIGEST_LENGTH, _PIECES])
    return pairs[..., 0] * 2**_PIECE_BITS + pairs[..., 1]
