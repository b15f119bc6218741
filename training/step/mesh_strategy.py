"""A distribution strategy without a server of TensorFlow: workers sum over their own connections.

The collectives of MultiWorkerMirroredStrategy need TensorFlow's gRPC server on each worker. It has
no authentication, and no option to bind it to one address. This strategy starts none: it places
variables on this worker's device, and allreduce.py sums over the peer mesh (mesh.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from qfleet.tensorflow.runtime import tf
from training.cluster.spec import ClusterSpec

ResultT = TypeVar("ResultT")


class MeshStrategy(tf.distribute.OneDeviceStrategy):
    """One replica on each worker. Its sums are those of `allreduce.all_reduce_sum` only.

    Args:
        cluster: All workers, and the rank of this one.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        gpus = tf.config.list_logical_devices("GPU")
        super().__init__(gpus[0].name if gpus else "/cpu:0")

    @property
    def num_replicas_in_sync(self) -> int:
        """Number of workers."""
        return self._cluster.size

    def run(
        self,
        fn: Callable[..., ResultT],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        options: object = None,
    ) -> ResultT:
        """Call a function in the context of this worker's replica."""
        context = tf.distribute.ReplicaContext(self, replica_id_in_sync_group=self._cluster.rank)
        with self.scope(), context:
            return fn(*args, **(kwargs or {}))
