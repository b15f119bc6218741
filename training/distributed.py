"""TensorFlow's distributed set-up of a worker: threads, strategy, connections, profiler server."""

import logging
import socket

from common.processes import cpu_count
from common.settings import Settings
from qfleet.tensorflow.runtime import configure, tf
from training import peer_mesh
from training.allreduce import build_sum, use_connections
from training.cluster import ClusterSpec

log = logging.getLogger("qfleet")


def create_strategy(settings: Settings, cluster: ClusterSpec) -> tf.distribute.Strategy:
    """Create MultiWorkerMirroredStrategy from TF_CONFIG; the default strategy for one worker.

    All workers must be alive, because TensorFlow waits for them without a usable timeout. The
    rendezvous ensures it.
    """
    configure(
        threads=settings.training.threads or default_threads(cluster), seed=settings.data.seed
    )
    # Equal inputs give equal sums, bit for bit, so a restarted run ends with identical weights.
    tf.config.experimental.enable_op_determinism()
    if cluster.size == 1:
        return tf.distribute.get_strategy()
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    sum_vectors = build_sum(strategy)
    use_connections(
        peer_mesh.connect_mesh(
            cluster,
            settings.fault_tolerance.rendezvous_port,
            lambda own: sum_vectors(tf.constant(own, tf.float64)).numpy(),
        )
    )
    return strategy


def start_profiler_server(port: int) -> None:
    """Let TensorBoard capture profiles of this worker on demand; port 0 starts no server.

    A taken port is logged and does not affect training.
    """
    if not port:
        return
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            log.warning(f"No profiler server: PROFILER_PORT={port} is unusable ({error.strerror})")
            return
    tf.profiler.experimental.server.start(port)


def default_threads(cluster: ClusterSpec) -> int:
    """Return this worker's share of the machine's CPUs."""
    local_workers = sum(address.startswith("127.0.0.1:") for address in cluster.workers) or 1
    return max(1, cpu_count() // local_workers)
