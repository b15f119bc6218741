"""The TensorFlow trainer: built once from strategy, learner, data and callbacks, and run."""

import functools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from common.checkpoints import Checkpoint
from common.models import circuit_layers, describe_model
from common.models.device import device_of_circuits
from common.settings import Settings, micro_batch_count
from common.storage.base import RETRY_SECONDS
from common.text import plural
from qfleet.tensorflow.runtime import keras, tf
from training.callbacks.checkpointing import CheckpointCallback, restore_state
from training.callbacks.health import HealthCallback
from training.callbacks.metrics import MetricsJsonlCallback
from training.callbacks.multi_start import MultiStart
from training.callbacks.profiler import ProfilerCallback, ResourceCallback, parse_profile_steps
from training.callbacks.progress import ProgressCallback, ThroughputCallback, ValidationCallback
from training.callbacks.pruning import PruningCallback
from training.callbacks.reporter import ProgressReporter
from training.callbacks.steps_per_call import StepsPerCallTuner
from training.callbacks.tensorboard import READOUT_SAMPLE_ROWS, TensorBoardCallback
from training.callbacks.trainjob_status import TrainJobStatus, open_status
from training.checkpointing import CheckpointWriter, TrainingState
from training.cluster.spec import ClusterSpec
from training.process.watchdog import Watchdog
from training.step import distributed, learner_factory
from training.step.allreduce import all_reduce_scalar, limit_wait
from training.step.evaluation import SplitEvaluator
from training.step.input_pipeline import SplitSamplers, batches, reraise_source_failure
from training.step.learner import Learner
from training.step.peer_errors import PeerErrorTranslator
from training.trainer_protocol import TrainingContext

ALL_REDUCE_FRACTION = 0.9
"""Limit of an all-reduce, as a fraction of that of the call that it is part of."""

log = logging.getLogger("qfleet")


@contextmanager
def open_trainer(context: TrainingContext) -> Iterator["Trainer"]:
    """Build the trainer of this worker: strategy, model, data and callbacks.

    Raises:
        PeerLost, Preempted: TensorFlow reported a lost peer, here or in the body of the context.
        SimulationError: This worker ran out of memory.
    """
    settings, cluster, watchdog = context.settings, context.cluster, context.watchdog
    writer, commit_newest = None, lambda: None
    if context.commit:
        writer = CheckpointWriter(context.commit, context.preemption, context.deadline)
        commit_newest = writer.commit_newest
    with PeerErrorTranslator(cluster, context.preemption, context.wait_for_loss, commit_newest):
        strategy = distributed.create_strategy(settings, cluster, watchdog, context.secret)
        watchdog.enter("the model", settings.fault_tolerance.stall_timeout_max)
        distributed.start_profiler_server(settings.monitoring.profiler_port)
        initial = learner_factory.initial_weights(cluster, context.data, settings)
        learner = learner_factory.build_learner(
            strategy, cluster, context.data, settings, functools.partial(_limited_call, watchdog)
        )
        _report_idle_workers(settings, cluster)
        samplers = SplitSamplers(context.data, settings, cluster)
        if samplers.read_storage:
            watchdog.allow(RETRY_SECONDS)
        evaluator = SplitEvaluator(learner, samplers, commit_newest)
        multi_start = MultiStart(
            settings.training,
            initial,
            lambda: evaluator.measure("train")[learner.measures.loss],
        )
        yield Trainer(
            context, strategy, learner, samplers, evaluator, multi_start, writer, commit_newest
        )


@contextmanager
def _limited_call(watchdog: Watchdog, stage: str) -> Iterator[None]:
    """Limit a call into TensorFlow, and its all-reduce a little more, which names the peer."""
    with watchdog.call(stage) as limit:
        limit_wait(ALL_REDUCE_FRACTION * limit)
        yield


def _report_idle_workers(settings: Settings, cluster: ClusterSpec) -> None:
    """Log on the chief if there are more workers than micro-batches."""
    count, groups = micro_batch_count(settings), cluster.size // settings.training.state_shards
    if cluster.is_chief and count is not None and count < groups:
        log.info(
            f"A batch of {settings.training.global_batch} examples is"
            f" {plural(count, 'micro-batch')}, so that {groups - count} of"
            f" {groups} workers compute nothing: set a lower MICRO_BATCH or a larger BATCH"
        )


class Trainer:
    """Trains one model on one data set, on one worker.

    Args:
        context: Settings, data and folders of the run.
        strategy: The workers' strategy.
        learner: The model with its optimizer.
        samplers: This worker's batches.
        evaluator: Measures splits.
        multi_start: The initializations.
        writer: Commits checkpoints; None in workers other than the chief.
        save_newest: Commits the state of the last step boundary, on the chief.
    """

    def __init__(
        self,
        context: TrainingContext,
        strategy: tf.distribute.Strategy,
        learner: Learner,
        samplers: SplitSamplers,
        evaluator: SplitEvaluator,
        multi_start: MultiStart,
        writer: CheckpointWriter | None,
        save_newest: Callable[[], None],
    ) -> None:
        self._context, self._settings, self._data = context, context.settings, context.data
        self._strategy, self._learner, self._samplers = strategy, learner, samplers
        self._evaluator, self._multi_start, self._writer = evaluator, multi_start, writer
        self._save_newest = save_newest
        self._resumed_from: TrainingState | None = None
        train = samplers.sampler("train")
        self._throughput = ThroughputCallback(train.steps, context.data.rows("train"))

    @property
    def step_summary(self) -> str:
        """One line on the time of a step."""
        return self._throughput.summary

    @property
    def pruned_angles(self) -> tuple[int, int] | None:
        """Dropped and all angles; None with PRUNE=0."""
        return self._learner.pruning.counts if self._learner.pruning else None

    @property
    def device(self) -> str:
        """The device of the circuits; empty where another simulator chooses it."""
        return device_of_circuits(self._learner.model)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint; without one, training starts from the initial weights."""
        self._resumed_from = TrainingState.of(checkpoint)
        restore_state(self._learner, self._multi_start, self._resumed_from)

    def fit(self) -> None:
        """Train to the end of the last epoch; see `TrainerProtocol`."""
        resumed = self._resumed_from
        epoch, step = (resumed.epoch, resumed.step) if resumed else (0, 0)
        epochs = self._settings.training.epochs
        self._context.watchdog.enter("training", self._settings.fault_tolerance.stall_timeout_max)
        with open_status(is_chief=self._context.cluster.is_chief) as status:
            callbacks = self._callbacks(epoch, status)
            if self._writer:
                self._writer.start(resumed)
            try:
                if step:
                    self._fit_epochs(callbacks, epoch, step, epoch + 1)
                    epoch, step = epoch + 1, 0
                if epoch < epochs:
                    self._fit_epochs(callbacks, epoch, step, epochs)
            finally:
                if self._writer:
                    self._writer.close()

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of a split, over all workers."""
        limit = self._settings.fault_tolerance.stall_timeout_max
        self._context.watchdog.enter(f"the metrics of the {split} split", limit)
        return self._evaluator.measure(split)

    def save_model(self, weights: Path) -> dict[str, object]:
        """Write the weights and return the content of model.json."""
        model = self._learner.model
        model.save_weights(weights)
        return describe_model(
            model, self._data.features, self._settings, self._data.manifest.encoding
        )

    def barrier(self) -> None:
        """Return when every worker has called this."""
        limit_wait(math.inf)  # the chief writes the result before, and the watchdog has the limit
        all_reduce_scalar(self._strategy, 0.0)

    def _fit_epochs(
        self, callbacks: list[keras.callbacks.Callback], epoch: int, step: int, end: int
    ) -> None:
        """Train from a step of an epoch to the end of epoch `end` - 1."""
        sampler, source = self._samplers.sampler("train"), self._samplers.source("train")
        self._learner.epoch_step_offset = step
        with reraise_source_failure(source, self._save_newest):
            self._learner.fit(
                batches(source, sampler, epoch=epoch, step=step),
                initial_epoch=epoch,
                epochs=end,
                steps_per_epoch=sampler.steps - step,
                callbacks=callbacks,
                verbose=0,
            )
        self._learner.epoch_step_offset = 0

    def _callbacks(self, epoch: int, status: TrainJobStatus) -> list[keras.callbacks.Callback]:
        """Return the callbacks in the order in which Keras calls them.

        Args:
            epoch: Epochs that were done before this attempt.
            status: Gets the progress.
        """
        settings, cluster = self._settings, self._context.cluster
        worker_logs = self._context.run_dir.logs / f"worker-{cluster.rank}"
        profiled = parse_profile_steps(settings.monitoring.profile_steps)
        steps = self._samplers.sampler("train").steps
        metrics = self._learner.measures.metrics
        reporter = ProgressReporter(
            settings.training, steps, metrics, is_chief=cluster.is_chief, status=status
        )
        callbacks = [
            self._throughput,
            ProfilerCallback(worker_logs, profiled),
            ResourceCallback(worker_logs),
            ValidationCallback(lambda: self._evaluator.measure("validation")),
            HealthCallback(self._multi_start, steps, metrics[0], self._save_newest),
            StepsPerCallTuner(self._strategy, settings.training.steps_per_call, profiled),
            self._multi_start,
        ]
        if self._learner.pruning:
            callbacks.append(PruningCallback(self._learner.pruning, metrics[0]))
        if self._writer:
            callbacks += [
                self._tensorboard_callback(),
                MetricsJsonlCallback(self._context.run_dir, metrics, epoch),
            ]
        callbacks.append(ProgressCallback(reporter))
        if self._writer:
            callbacks.append(
                CheckpointCallback(
                    self._writer,
                    self._multi_start,
                    loss=metrics[0],
                    interval_epochs=settings.checkpointing.checkpoint_interval,
                    steps_per_epoch=steps,
                    keep_best=settings.checkpointing.keep_best,
                    best=self._resumed_from.best if self._resumed_from else None,
                )
            )
        return callbacks

    def _tensorboard_callback(self) -> TensorBoardCallback:
        callback = TensorBoardCallback(
            self._context.run_dir.logs,
            metrics=self._learner.measures.metrics,
            circuits=len(list(circuit_layers(self._learner.model))),
            sample=self._data.sample("validation", READOUT_SAMPLE_ROWS).angles,
        )
        callback.write_settings(self._settings.run_name, self._settings.identity())
        # A single worker can't run, or draw, a circuit whose state is sharded.
        if self._settings.training.state_shards == 1:
            callback.write_graph(self._learner.model, self._data.features)
        return callback
