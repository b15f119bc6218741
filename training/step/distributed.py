"""TensorFlow's distributed set-up of a worker: threads, strategy, connections, profiler server."""

import logging
import socket

from common.errors import PeerLost, SettingsError
from common.processes import cpu_count
from common.settings import Settings
from qfleet import native
from qfleet.engine import library
from qfleet.tensorflow.runtime import configure, tf
from training.cluster.spec import ClusterSpec
from training.group import unlocked_connect
from training.group.mesh import connect_at_addresses, connect_or_fall_back
from training.process.watchdog import Watchdog
from training.step.allreduce import build_sum, limit_wait, use_connections
from training.step.mesh_strategy import MeshStrategy

log = logging.getLogger("qfleet")


CONNECT_SECONDS = 60.0
"""Limit of the connections of TensorFlow and of the peer mesh; both take about a second."""


def create_strategy(
    settings: Settings,
    cluster: ClusterSpec,
    watchdog: Watchdog | None = None,
    secret: bytes = b"",
) -> tf.distribute.Strategy:
    """Create MultiWorkerMirroredStrategy from TF_CONFIG; the default strategy for one worker.

    TensorFlow waits for the other workers without a usable timeout: the watchdog has one. With
    TARGET=slurm, no server of TensorFlow is started: see mesh_strategy.py.

    Args:
        settings: All settings.
        cluster: All workers, and the rank of this one.
        watchdog: Limits the time of the connections.
        secret: Secret of the group, from its rendezvous; unused with one worker.
    """
    threads = settings.training.threads or default_threads(cluster)
    if settings.training.reproducible:
        # The bits of TensorFlow's own operations depend on the number of their threads.
        configure(threads=threads, operation_threads=1, seed=settings.data.seed)
        if native.unavailable_reason() is None:
            library.set_num_threads(threads)
    else:
        configure(threads=threads, seed=settings.data.seed)
    # Equal inputs give equal sums, bit for bit, so a restarted run ends with identical weights.
    tf.config.experimental.enable_op_determinism()
    if cluster.size == 1:
        return tf.distribute.get_strategy()
    watchdog = watchdog or Watchdog()
    if settings.job.target == "slurm":
        if reason := native.unavailable_reason():
            raise SettingsError(
                f"TARGET=slurm needs the native library for its all-reduce: {reason}"
            )
        watchdog.enter("the connections of the all-reduce", CONNECT_SECONDS, PeerLost)
        use_connections(connect_at_addresses(cluster, secret))
        limit_wait(settings.fault_tolerance.stall_timeout_max)
        return MeshStrategy(cluster)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    watchdog.enter("TensorFlow's connection to the other workers", CONNECT_SECONDS, PeerLost)
    unlocked_connect.install()
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    watchdog.enter("the connections of the all-reduce", CONNECT_SECONDS, PeerLost)
    sum_vectors = build_sum(strategy)
    use_connections(
        connect_or_fall_back(
            cluster,
            secret,
            settings.fault_tolerance.rendezvous_port,
            lambda own: sum_vectors(tf.constant(own, tf.float64)).numpy(),
        )
    )
    limit_wait(settings.fault_tolerance.stall_timeout_max)
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
