"""Collectives of a state group, by TensorFlow's own operations.

Every call site in a program has an instance key of its own, so circuits that run concurrently do
not wait for each other in different orders. Keys are assigned while graphs are traced, which all
processes do in the same order. In loops TensorFlow distinguishes the iterations.

A lost process raises an OpError, such as UnavailableError, in all others.
"""

import collections

from qfleet.distributed.state_group import StateGroup
from qfleet.tensorflow.runtime import tf

_KEYS: collections.Counter[int] = collections.Counter()


class ShardExchange:
    """One call site of collectives.

    Args:
        group: The processes that take part.
    """

    def __init__(self, group: StateGroup) -> None:
        _KEYS[group.key] += 1
        self._keys = {
            "group_size": group.size,
            "group_key": group.key,
            "instance_key": _KEYS[group.key],
            "ordering_token": [],
        }

    def all_reduce_sum(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the sum over the processes; bit for bit the same in all of them."""
        return tf.raw_ops.CollectiveReduceV2(
            input=tensor, merge_op="Add", final_op="Id", **self._keys
        )

    def all_to_all(self, rows: tf.Tensor) -> tf.Tensor:
        """Send row r of [size, n] to process r; row r of the result is from process r."""
        return tf.raw_ops.CollectiveAllToAllV2(input=rows, **self._keys)
