"""Construction of the learner and of the initial weights, in the strategy's scope."""

import numpy as np

from common import models
from common.data import Dataset
from common.settings import Settings
from qfleet.distributed import state_group
from qfleet.tensorflow.runtime import keras, tf
from training.cluster import ClusterSpec
from training.learner import Learner
from training.micro_batches import MicroBatches
from training.reproducible_model import require_reproducible

# First TensorFlow group key of the groups of state shards; see allreduce.py.
FIRST_STATE_GROUP_KEY = 2_000_000


def build_learner(
    strategy: tf.distribute.Strategy, cluster: ClusterSpec, data: Dataset, settings: Settings
) -> Learner:
    """Build the model and its optimizer in the strategy's scope.

    Raises:
        SimulationError: The workers on this machine need more memory than it has.
        SettingsError: The user's model can't be trained with REPRODUCIBLE=true.
    """
    with strategy.scope(), state_group.use_group(local_state_group(cluster, settings)):
        keras.utils.set_random_seed(settings.data.seed)
        model = models.build_model(data.features, settings, data.placement)
        for layer in models.circuit_layers(model):
            layer.require_memory(cluster.local_workers)
        if settings.training.reproducible and ":" in settings.model.model:
            require_reproducible(model, data.features, settings.model.model)
        micro_batches = MicroBatches.of(settings, cluster)
        learner = Learner(model, settings.training.state_shards, micro_batches)
        optimizer = keras.optimizers.Adam(settings.training.learning_rate)
        optimizer.build(model.trainable_variables)
        # With 2, Keras traces a loop, whose number of steps may change later; with 1, it does not.
        learner.compile(optimizer=optimizer, steps_per_execution=2)
        learner.make_train_function()
        learner.make_test_function()
    return learner


def initial_weights(
    cluster: ClusterSpec, data: Dataset, settings: Settings
) -> list[list[np.ndarray]]:
    """Return the weights of each initialization, equal on all workers; none for a single one."""
    if settings.training.initialization_count == 1:
        return []
    drawn = []
    for index in range(settings.training.initialization_count):
        seed = (settings.data.seed * 7919 + index * 104_729 + 1) % 2**31
        keras.utils.set_random_seed(seed)
        with state_group.use_group(local_state_group(cluster, settings)):
            model = models.build_model(data.features, settings.replace(seed=seed), data.placement)
        drawn.append(model.get_weights())
    return drawn


def local_state_group(cluster: ClusterSpec, settings: Settings) -> state_group.StateGroup:
    """Return the group of STATE_SHARDS consecutive ranks that this worker shares states with."""
    shards = settings.training.state_shards
    number, rank = divmod(cluster.rank, shards)
    return state_group.StateGroup(shards, rank, FIRST_STATE_GROUP_KEY + number)
