"""State of the replicas: a digest of weights and optimizer, and the first step that went wrong.

All replicas apply the same update to the same weights, so their digests are equal at every step. A
difference comes from damaged memory or a defect, and would otherwise never be noticed.
"""

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qfleet import native
from qfleet.tensorflow.runtime import keras, tf

DIGEST_LENGTH = 2
_WORD = 0xFFFFFFFF


class Fault(enum.IntEnum):
    """Fault of a step, in the order of precedence."""

    NONE = 0
    REPLICAS_DIFFER = 1
    WEIGHTS = 2
    LOSS = 3
    GRADIENT = 4


@dataclass(frozen=True)
class StepStatus:
    """The first step with a fault.

    Attributes:
        fault: The fault; NONE if there was none.
        step: The step since the beginning of the run, counted from 0.
        digests: int64 [workers, 2], by rank.
    """

    fault: Fault
    step: int
    digests: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray) -> "StepStatus":
        """Decode the result of `next_status`."""
        return cls(Fault(int(numbers[0])), int(numbers[1]), numbers[2:].reshape(-1, DIGEST_LENGTH))

    @property
    def differing_ranks(self) -> list[int]:
        """Ranks outside of the largest group of equal replicas; all, without a majority."""
        digests = [tuple(digest) for digest in self.digests.tolist()]
        most, count = Counter(digests).most_common(1)[0]
        has_majority = 2 * count > len(digests)
        return [rank for rank, one in enumerate(digests) if not has_majority or one != most]


def status_length(workers: int) -> int:
    """Return the length of a status."""
    return 2 + DIGEST_LENGTH * workers


def next_status(
    status: tf.Tensor,
    step: tf.Tensor,
    digests: tf.Tensor,
    nonfinite: tf.Tensor,
    loss: tf.Tensor,
    gradients: tf.Tensor,
) -> tf.Tensor:
    """Return the status after a step: the given one, if it has a fault already.

    Args:
        status: int64 [2 + 2 workers].
        step: int64 [].
        digests: int64 [workers, 2], by rank.
        nonfinite: int64 [], numbers of this replica's state that are infinite or NaN.
        loss: Loss of the step.
        gradients: Float [n], the step's gradients.
    """
    checks = (
        (Fault.REPLICAS_DIFFER, tf.reduce_all(digests == digests[:1])),
        (Fault.WEIGHTS, nonfinite == 0),
        (Fault.LOSS, tf.math.is_finite(loss)),
        (Fault.GRADIENT, tf.reduce_all(tf.math.is_finite(gradients))),
    )
    fault = tf.constant(Fault.NONE, tf.int64)
    for kind, passed in reversed(checks):
        fault = tf.where(passed, fault, tf.constant(kind, tf.int64))
    found = tf.concat([tf.stack([fault, step]), tf.reshape(digests, [-1])], 0)
    is_first = (status[0] == Fault.NONE) & (fault != Fault.NONE)
    return tf.where(is_first, found, status)


def state_variables(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> list[tf.Variable]:
    """Return the variables that are equal in all replicas: weights and state of the optimizer."""
    variables = [*model.weights, *optimizer.variables]
    each_its_own = tf.VariableSynchronization.ON_READ
    return [
        variable
        for variable in variables
        if getattr(variable, "synchronization", None) != each_its_own and variable.dtype.size >= 4
    ]


def digest(values: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return int64 [2] and int64 []: a digest, and the count of infinite numbers and NaNs."""
    if native.unavailable_reason() is None:
        found = native.ops().qfleet_state_digest(values=values)
        return found[:DIGEST_LENGTH], found[DIGEST_LENGTH]
    parts = [tf.bitcast(tf.reshape(value, [-1]), tf.int32) for value in values]
    words = tf.concat([tf.reshape(part, [-1]) for part in parts], 0)
    words = tf.bitwise.bitwise_and(tf.cast(words, tf.int64), _WORD)
    places = tf.range(tf.size(words, tf.int64), dtype=tf.int64)
    sums = tf.stack([tf.reduce_sum(words), tf.reduce_sum(words * (2 * places + 1))])
    floats = [value for value in values if value.dtype.is_floating]
    nonfinite = [tf.reduce_sum(tf.cast(~tf.math.is_finite(one), tf.int64)) for one in floats]
    total = tf.add_n(nonfinite) if nonfinite else tf.constant(0, tf.int64)
    return tf.bitwise.bitwise_and(sums, _WORD), total


def host_digest(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return int64 [2]: the same digest of arrays on the host."""
    parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint32) for array in arrays]
    words = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
    places = np.arange(len(words), dtype=np.uint32)
    weighted = words * (2 * places + np.uint32(1))  # modulo 2**32
    sums = [int(words.sum(dtype=np.uint64)), int(weighted.sum(dtype=np.uint64))]
    return np.array([total & _WORD for total in sums], np.int64)
