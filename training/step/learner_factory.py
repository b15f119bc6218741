"""Construction of the learner and of the initial weights, in the strategy's scope."""

import math
from contextlib import nullcontext

import numpy as np

from common import models
from common.data import Dataset
from common.data.class_weights import class_factors
from common.models.pruning import prunable_circuits
from common.settings import Settings
from qfleet.distributed import state_group
from qfleet.engine import device_choice
from qfleet.tensorflow.runtime import keras, tf
from training.cluster.spec import ClusterSpec
from training.step.allreduce import connections
from training.step.learner import Learner, LimitedCall
from training.step.losses import Measures, measures_of
from training.step.micro_batches import MicroBatches
from training.step.pruning import Pruning
from training.step.reproducible_model import require_reproducible

# First TensorFlow group key of the groups of state shards; see allreduce.py.
FIRST_STATE_GROUP_KEY = 2_000_000

ADAM_BETA_2 = 0.999
"""Keras's own."""

EXACT_BETA_2 = 0.95
"""For energies and states, whose gradients are not those of a random batch. A shorter memory
follows their narrow valleys: the error of TFIM at 16 qubits was up to 100 times smaller in
trials."""


def build_learner(
    strategy: tf.distribute.Strategy,
    cluster: ClusterSpec,
    data: Dataset,
    settings: Settings,
    limited_call: LimitedCall = nullcontext,
) -> Learner:
    """Build the model and its optimizer in the strategy's scope.

    Args:
        strategy: The strategy.
        cluster: All workers, and the rank of this one.
        data: The data set.
        settings: Settings of the run.
        limited_call: See `Learner`.

    Raises:
        SimulationError: The workers on this machine need more memory than it has.
        SettingsError: The user's model can't be trained with REPRODUCIBLE=true, or the model can't
            be pruned.
    """
    is_problem = data.target.kind in ("energy", "state")  # most have one example
    rows = 1 if is_problem else math.ceil(settings.training.global_batch / cluster.size)
    group = local_state_group(cluster, settings)
    steps = device_choice.use_batch(rows, cluster.local_workers)
    with strategy.scope(), state_group.use_group(group), steps:
        keras.utils.set_random_seed(settings.data.seed)
        model = models.build_model(data.features, settings, data.placement, data.target)
        for layer in models.circuit_layers(model):
            layer.require_memory(cluster.local_workers)
        if settings.training.reproducible and ":" in settings.model.model:
            require_reproducible(model, data.features, settings.model.model)
        micro_batches = MicroBatches.of(settings, cluster)
        measures = build_measures(model, data, settings)
        learner = Learner(
            model, measures, settings.training.state_shards, micro_batches, limited_call
        )
        if settings.training.prune:
            learner.pruning = Pruning(
                prunable_circuits(
                    list(models.circuit_layers(model)),
                    data.features,
                    settings,
                    data.placement,
                    data.target,
                ),
                settings.training,
            )
        memory = EXACT_BETA_2 if is_problem else ADAM_BETA_2
        optimizer = keras.optimizers.Adam(settings.training.learning_rate, beta_2=memory)
        optimizer.build(model.trainable_variables)
        # With 2, Keras traces a loop, whose number of steps may change later; with 1, it does not.
        learner.compile(optimizer=optimizer, steps_per_execution=2)
        learner.make_train_function()
        learner.make_test_function()
    return learner


def build_measures(model: keras.Model, data: Dataset, settings: Settings) -> Measures:
    """Return the loss and the metrics of a model.

    Raises:
        SettingsError: LOSS or CLASS_WEIGHTS does not fit the target of the data set.
    """
    factors = class_factors(data.target, settings.data.class_weights, data.class_counts)
    # A user's model may be compiled with its loss.
    own_loss = getattr(model, "loss", None) if ":" in settings.model.model else None
    return measures_of(data.target, settings.training.loss, own_loss, factors)


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
            seeded = settings.replace(seed=seed)
            model = models.build_model(data.features, seeded, data.placement, data.target)
        drawn.append(model.get_weights())
    return drawn


def local_state_group(cluster: ClusterSpec, settings: Settings) -> state_group.StateGroup:
    """Return the group of STATE_SHARDS consecutive ranks that this worker shares states with."""
    shards = settings.training.state_shards
    number, rank = divmod(cluster.rank, shards)
    first = number * shards
    return state_group.StateGroup(
        shards,
        rank,
        FIRST_STATE_GROUP_KEY + number,
        connections(first, shards),
        first,
    )
