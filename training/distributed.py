"""What a worker computes with: TensorFlow's threads, its strategy, and the learner in its scope."""

import functools
import logging
import os
import socket
from typing import Any

import numpy as np

from common import models
from common.data import Dataset
from common.settings import Settings
from qfleet.distributed import state_group
from qfleet.tensorflow.runtime import configure, keras, tf
from training import peer_mesh
from training.allreduce import all_reduce_sum, use_connections
from training.cluster import ClusterSpec
from training.learner import Learner

log = logging.getLogger("qfleet")

# Groups of workers that hold circuits together are numbered from here; see exchange.py.
FIRST_STATE_GROUP_KEY = 2_000_000


def create_strategy(settings: Settings, cluster: ClusterSpec) -> tf.distribute.Strategy:
    """MultiWorkerMirroredStrategy from TF_CONFIG; a worker alone needs none.

    All workers must be there: TensorFlow waits for them without a usable deadline of its own,
    which is what the start gate is for.
    """
    configure(threads=settings.training.threads or _fair_threads(cluster), seed=settings.data.seed)
    # Same inputs, same sums, bit for bit: a restarted run ends with the weights it would have had.
    tf.config.experimental.enable_op_determinism()
    if cluster.size == 1:
        return tf.distribute.get_strategy()
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    gang = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    told = _summing(gang)
    use_connections(
        peer_mesh.connect_mesh(
            cluster,
            settings.fault_tolerance.rendezvous_port,
            lambda own: told(tf.constant(own, tf.float64)).numpy(),
        )
    )
    return gang


def start_profiler_server(port: int) -> None:
    """Let TensorBoard capture a profile of this worker on demand; port 0 serves none.

    A taken port costs the profiler alone, not the training.
    """
    if not port:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            log.warning(f"no profiler here: PROFILER_PORT={port} can't be used ({error.strerror})")
            return
    tf.profiler.experimental.server.start(port)


def local_state_group(cluster: ClusterSpec, settings: Settings) -> state_group.StateGroup:
    """The workers that hold the states of circuits together with this one: STATE_SHARDS in a row."""
    number, rank = divmod(cluster.rank, settings.training.state_shards)
    return state_group.StateGroup(
        settings.training.state_shards, rank, FIRST_STATE_GROUP_KEY + number
    )


def build_learner(
    gang: tf.distribute.Strategy, cluster: ClusterSpec, data: Dataset, settings: Settings
) -> Learner:
    """The model and its optimizer, built in the strategy's scope.

    Raises:
        CircuitError: The workers on this machine need more memory than it has.
    """
    with gang.scope(), state_group.use_group(local_state_group(cluster, settings)):
        keras.utils.set_random_seed(settings.data.seed)
        model = models.build_model(data.features, settings, data.placement)
        for layer in models.circuit_layers(model):
            layer.require_memory(cluster.here)
        made = Learner(model, settings.training.state_shards)
        optimizer = keras.optimizers.Adam(settings.training.learning_rate)
        optimizer.build(model.trainable_variables)
        # Keras makes a function of one step or of a loop by the number that it finds now; with the
        # loop, the number may be any later on.
        made.compile(optimizer=optimizer, steps_per_execution=2)
        made.make_train_function()
        made.make_test_function()
    return made


def initial_weights(
    cluster: ClusterSpec, data: Dataset, settings: Settings
) -> list[list[np.ndarray]]:
    """First weights of each start, the same in every worker; none where there is one start."""
    if settings.training.initialization_count == 1:
        return []
    drawn = []
    for start in range(settings.training.initialization_count):
        seed = (settings.data.seed * 7919 + start * 104_729 + 1) % 2**31
        keras.utils.set_random_seed(seed)
        with state_group.use_group(local_state_group(cluster, settings)):
            model = models.build_model(data.features, settings.replace(seed=seed), data.placement)
        drawn.append(model.get_weights())
    return drawn


def all_reduce_scalar(gang: tf.distribute.Strategy, value: float) -> float:
    """The sum of all workers' values, the same in each; returns when every worker has come here."""
    if gang.num_replicas_in_sync == 1:
        return value
    return float(_summed(gang)(tf.constant([value], tf.float64))[0])


def _summing(gang: tf.distribute.Strategy) -> Any:
    """Makes the sum of all workers' vectors of one."""
    # The exchange wants a tensor that lies on the replica's own device.
    return tf.function(lambda own: gang.run(lambda: all_reduce_sum(tf.identity(own))))


# Over the connections of the gang's start: their graph takes longer to make than an exchange.
_summed = functools.cache(_summing)


def _fair_threads(cluster: ClusterSpec) -> int:
    """This worker's share of the machine's cores, where a gang is on one machine."""
    cores = len(os.sched_getaffinity(0))
    neighbours = sum(a.startswith("127.0.0.1:") for a in cluster.workers) or 1
    return max(1, cores // neighbours)
