"""All-reduce between the workers: the sum of their vectors, with identical bits on each.

A native op sums over connections of our own (mesh.py). A small vector goes from every worker to
every other at once: one hop, but each worker sends W - 1 vectors. A large one takes two hops, and
each worker sends about two vectors: everyone sums one part, and sends the sum to the others. Both
add in the order of ranks. Between CPU-bound steps, a hop takes 0.1 to 0.3 ms, compared with 1 to 3
ms for TensorFlow's all-to-all.

TensorFlow's all-to-all has the same bits for every length. It is used where there is no native
kernel, or where workers can't connect. `benchmarks/allreduce.py` measures all of them.

A lost peer ends an all-reduce with a tf.errors.OpError (see peer_errors.py), and so does one that
sends nothing for `limit_wait`; the watchdog limits TensorFlow's own collectives.
"""

import ctypes
import functools
from collections.abc import Callable

from qfleet import native
from qfleet.native.libraries import tensorflow_path
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.shard_exchange import mesh_order
from training.group.mesh import PeerMesh
from training.step.constants import hops
from training.step.mesh_strategy import MeshStrategy

# TensorFlow identifies collectives by the keys of group and instance, and by the loop iteration.
# Its strategy numbers groups from 1; groups of state shards have other numbers.
ALLREDUCE_GROUP_KEY = 1_000_003

_mesh: PeerMesh | None = None  # a process belongs to one process group


def use_connections(mesh: PeerMesh | None) -> None:
    """Use these connections from now on; graphs that exist already keep theirs."""
    global _mesh
    _mesh = mesh


def connections(first_rank: int, workers: int) -> tuple[int, ...]:
    """Return the file descriptors of consecutive ranks, -1 for this worker; none without a mesh."""
    if _mesh is None:
        return ()
    return tuple(_mesh.file_descriptors[first_rank : first_rank + workers])


def limit_wait(seconds: float) -> None:
    """Limit the wait for peers in each collective of this process, also in one that runs.

    Only collectives over our own connections have this limit; their error names the silent ranks.
    """
    if _mesh is not None:
        _timeout_setter()(seconds)


@functools.cache
def _timeout_setter() -> Callable[[float], None]:
    native.ops()  # loads the library into this process
    function = ctypes.CDLL(str(tensorflow_path())).qfleet_set_all_reduce_timeout
    function.argtypes, function.restype = (ctypes.c_double,), None
    return function


@tf.autograph.experimental.do_not_convert  # AutoGraph takes 0.1 s, and has nothing to convert
def all_reduce_sum(vector: tf.Tensor) -> tf.Tensor:
    """Return the sum of all workers' vectors. Call it in a graph, in a replica's context.

    All workers must call it in the same order, and no two calls may overlap.

    Args:
        vector: float32, float64 or int64 [n], n known and equal on every worker.

    Returns:
        A tensor of the same type and shape, identical bit for bit on every worker.
    """
    context = tf.distribute.get_replica_context()
    workers = context.num_replicas_in_sync
    if workers == 1:
        return vector
    if _mesh is not None:
        length = vector.shape.num_elements()
        return native.ops().qfleet_all_reduce(
            own=vector,
            order=mesh_order(),
            sockets=_mesh.file_descriptors,
            hops=hops(workers, length * vector.dtype.size),
        )
    assert not isinstance(context.strategy, MeshStrategy), "it has no other connections"
    return all_reduce_via_all_to_all(vector, workers)


def all_reduce_via_all_to_all(vector: tf.Tensor, workers: int) -> tf.Tensor:
    """Return the same sum, using TensorFlow's all-to-all."""
    length = vector.shape.num_elements()
    sent = tf.tile(vector[None], [workers, 1])
    received = tf.raw_ops.CollectiveAllToAllV2(
        input=sent,
        group_size=workers,
        group_key=ALLREDUCE_GROUP_KEY,
        # One key per length and type: an instance has one type permanently.
        instance_key=64 * length + vector.dtype.as_datatype_enum,
        ordering_token=[],
        communication_hint="auto",
    )
    return tf.ensure_shape(tf.reduce_sum(received, axis=0), vector.shape)


def all_reduce_scalar(strategy: tf.distribute.Strategy, value: float) -> float:
    """Return the sum of all workers' values; it returns when every worker has called it."""
    if strategy.num_replicas_in_sync == 1:
        return value
    return float(_summing_function(strategy)(tf.constant([value], tf.float64))[0])


def build_sum(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that sums the vectors of all workers outside a replica's context."""
    # The all-reduce needs a tensor on the replica's own device.
    function: Callable[[tf.Tensor], tf.Tensor] = tf.function(
        lambda own: strategy.run(lambda: all_reduce_sum(tf.identity(own))), autograph=False
    )
    return function


# Tracing takes longer than an all-reduce. The cached function uses the mesh, once that is set.
_summing_function = functools.cache(build_sum)
