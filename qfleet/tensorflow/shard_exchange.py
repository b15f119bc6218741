"""What the members of a group exchange, by TensorFlow's own collectives.

Every place in a program that exchanges something has an instance key of its own, so that circuits
that run side by side do not wait for each other in different orders; the keys are counted as graphs
are traced, which all members do in the same order. In loops TensorFlow tells the turns apart.

A lost member shows as an OpError, such as UnavailableError, in all others.
"""

import collections

from qfleet.distributed.state_group import StateGroup
from qfleet.tensorflow.runtime import tf

_KEYS: collections.Counter[int] = collections.Counter()


class ShardExchange:
    """One place of a program where the members meet.

    Args:
        group: Who they are.
    """

    def __init__(self, group: StateGroup) -> None:
        self._size = group.size
        _KEYS[group.key] += 1
        self._keys = {
            "group_size": group.size,
            "group_key": group.key,
            "instance_key": _KEYS[group.key],
            "ordering_token": [],
        }

    def total(self, tensor: tf.Tensor) -> tf.Tensor:
        """The sum over the members of a tensor of the same shape in each; bit for bit the same."""
        return tf.raw_ops.CollectiveReduceV2(
            input=tensor, merge_op="Add", final_op="Id", **self._keys
        )

    def swapped(self, pieces: tf.Tensor) -> tf.Tensor:
        """[size, n]: row r goes to member r; what comes from member r is in row r."""
        return tf.raw_ops.CollectiveAllToAllV2(input=pieces, **self._keys)
