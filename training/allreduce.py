"""One exchange between the workers of a gang: the sum of their vectors, the same bits in each.

A small vector goes from every worker to every other at once, and each adds what it has got in the
order of ranks: one hop, however many workers there are. The ring that TensorFlow's strategy takes
needs 2 (W - 1) hops one after another, but each worker sends about two vectors instead of W - 1, so
large vectors go that way.

The hop goes over connections of our own (links.py), which takes 0.1 to 0.3 ms beside a busy
processor. TensorFlow's all-to-all does the same in 1 to 3 ms, and is what is left where there is no
native kernel, or where workers can't reach each other. `benchmarks/allreduce.py` measures all three.

A peer that is lost ends an exchange with a tf.errors.OpError (see training/train.py).
"""

from qfleet import native
from qfleet.tensorflow.runtime import tf
from training.limits import MAX_ONE_HOP_BYTES
from training.peer_mesh import PeerMesh

# TensorFlow tells exchanges apart by the keys of group and instance, and by the loop's turn. Its
# strategy numbers its groups from 1; groups of workers that hold one state have other numbers.
ALLREDUCE_GROUP_KEY = 1_000_003

# A process is in one gang.
_links: PeerMesh | None = None


def use_connections(links: PeerMesh | None) -> None:
    """Take these connections from now on; graphs that were made before keep their way."""
    global _links
    _links = links


def all_reduce_sum(vector: tf.Tensor) -> tf.Tensor:
    """The sum of all workers' vectors; to be called in a replica's context, in a graph.

    All workers must make the same exchanges in the same order, and no two at a time.

    Args:
        vector: float32 or float64 [n], n known and the same in every worker.

    Returns:
        Of the same type and shape, and the same bit for bit in every worker.
    """
    context = tf.distribute.get_replica_context()
    workers = context.num_replicas_in_sync
    if workers == 1:
        return vector
    length = vector.shape.num_elements()
    if workers * length * vector.dtype.size > MAX_ONE_HOP_BYTES:
        return context.all_reduce(tf.distribute.ReduceOp.SUM, vector)
    if _links is not None:
        return native.ops().qfleet_exchange(own=vector, links=_links.numbers)
    return all_reduce_via_all_to_all(vector, workers)


def all_reduce_via_all_to_all(vector: tf.Tensor, workers: int) -> tf.Tensor:
    """The same by TensorFlow's own all-to-all."""
    length = vector.shape.num_elements()
    sent = tf.tile(vector[None], [workers, 1])
    came = tf.raw_ops.CollectiveAllToAllV2(
        input=sent,
        group_size=workers,
        group_key=ALLREDUCE_GROUP_KEY,
        # One key for each length and type: an instance is of one type for good.
        instance_key=16 * length + vector.dtype.size,
        ordering_token=[],
        communication_hint="auto",
    )
    return tf.ensure_shape(tf.reduce_sum(came, axis=0), vector.shape)
