"""Collectives of a state group: over its connections, or else by TensorFlow's own operations.

Every call site in a program has a number of its own, which is assigned while graphs are traced. All
processes trace in the same order. TensorFlow runs the collectives over connections in that order,
too, because they take one resource: two of them never share a connection at one time.

A lost process raises an OpError, such as UnavailableError, in all others.
"""

import collections
import functools

from qfleet import native
from qfleet.distributed.state_group import StateGroup
from qfleet.tensorflow.framework import tf

_CALL_SITES: collections.Counter[int] = collections.Counter()
MAX_CALL_SITES = 2**19 - 1


@functools.cache
def mesh_order() -> tf.Tensor:
    """Return the resource that all collectives over connections take.

    TensorFlow orders the uses of a resource, also in functions, branches and loops. It does not
    order stateful operations without one if their function reads a variable.
    """
    with tf.init_scope(), tf.device("/cpu:0"):
        return tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[], shared_name="qfleet_mesh_order")


class ShardExchange:
    """One call site of collectives.

    Args:
        group: The processes that take part.
    """

    def __init__(self, group: StateGroup) -> None:
        self._group = group
        self._number = _CALL_SITES[group.key] % MAX_CALL_SITES + 1
        _CALL_SITES[group.key] += 1

    def all_reduce_sum(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the sum over the processes, in the order of ranks: equal bits in all of them."""
        if self._group.sockets:
            return native.ops().qfleet_all_reduce(own=tensor, hops=1, **self._connections)
        received = self.all_to_all(tf.tile(tf.reshape(tensor, [1, -1]), [self._group.size, 1]))
        return tf.reshape(tf.reduce_sum(received, axis=0), tf.shape(tensor))

    def all_to_all(self, rows: tf.Tensor) -> tf.Tensor:
        """Send row r of [size, n] to process r; row r of the result is from process r."""
        if self._group.sockets:
            return native.ops().qfleet_all_to_all(rows=rows, **self._connections)
        return tf.raw_ops.CollectiveAllToAllV2(
            input=rows,
            group_size=self._group.size,
            group_key=self._group.key,
            instance_key=self._number,
            ordering_token=[],
        )

    @property
    def _connections(self) -> dict[str, object]:
        group = self._group
        return {
            "order": mesh_order(),
            "sockets": list(group.sockets),
            "first_rank": group.first_rank,
            "call_site": self._number,
        }
