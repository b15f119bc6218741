"""The TensorFlow trainer: built once from strategy, learner, data and callbacks, and run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.checkpoints import Checkpoint
from common.models import circuit_layers, describe_model
from qfleet.tensorflow.runtime import keras, tf
from training import distributed, learner_factory
from training.allreduce import all_reduce_scalar
from training.callbacks.checkpointing import CheckpointCallback, restore_state
from training.callbacks.metrics import MetricsJsonlCallback
from training.callbacks.profiler import ProfilerCallback, ResourceCallback, parse_profile_steps
from training.callbacks.progress import ProgressCallback, ThroughputCallback, ValidationCallback
from training.callbacks.steps_per_call import StepsPerCallTuner
from training.callbacks.tensorboard import READOUT_SAMPLE_ROWS, TensorBoardCallback
from training.checkpointing import CheckpointWriter, TrainingState
from training.evaluation import SplitEvaluator
from training.input_pipeline import SplitSamplers, batches, reraise_source_failure
from training.learner import Learner
from training.multi_start import MultiStart
from training.peer_errors import PeerErrorTranslator
from training.progress import ProgressReporter
from training.trainer_protocol import TrainingContext


@contextmanager
def open_trainer(context: TrainingContext) -> Iterator["Trainer"]:
    """Build the trainer of this worker: strategy, model, data and callbacks.

    Raises:
        PeerLost, Preempted: TensorFlow reported a lost peer, here or in the body of the context.
        SimulationError: This worker ran out of memory.
    """
    settings, cluster = context.settings, context.cluster
    with PeerErrorTranslator(cluster, context.preemption) as errors:
        strategy = distributed.create_strategy(settings, cluster)
        distributed.start_profiler_server(settings.monitoring.profiler_port)
        initial = learner_factory.initial_weights(cluster, context.data, settings)
        learner = learner_factory.build_learner(strategy, cluster, context.data, settings)
        samplers = SplitSamplers(context.data, settings, cluster)
        writer = None
        if context.commit:
            writer = CheckpointWriter(context.commit, context.preemption, context.deadline)
            errors.on_peer_loss = writer.commit_newest
        evaluator = SplitEvaluator(learner, samplers, errors.on_peer_loss)
        multi_start = MultiStart(
            settings.training, initial, lambda: evaluator.measure("train")["mse"]
        )
        yield Trainer(context, strategy, learner, samplers, evaluator, multi_start, writer)


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
    ) -> None:
        self._context, self._settings, self._data = context, context.settings, context.data
        self._strategy, self._learner, self._samplers = strategy, learner, samplers
        self._evaluator, self._multi_start, self._writer = evaluator, multi_start, writer
        self._resumed_from: TrainingState | None = None
        train = samplers.sampler("train")
        self._throughput = ThroughputCallback(train.steps, context.data.rows("train"))

    @property
    def step_summary(self) -> str:
        """One line on the time of a step."""
        return self._throughput.summary

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint; without one, training starts from the initial weights."""
        state = {name: checkpoint.state[name] for name in ("epoch", "step", "steps")}
        self._resumed_from = TrainingState(arrays=checkpoint.arrays, **state)
        restore_state(self._learner, self._multi_start, self._resumed_from)

    def fit(self) -> None:
        """Train to the end of the last epoch; see `TrainerProtocol`."""
        resumed = self._resumed_from
        epoch, step = (resumed.epoch, resumed.step) if resumed else (0, 0)
        epochs = self._settings.training.epochs
        callbacks = self._callbacks(epoch)
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

    def _callbacks(self, epoch: int) -> list[keras.callbacks.Callback]:
        """Return the callbacks in the order in which Keras calls them.

        Args:
            epoch: Epochs that were done before this attempt.
        """
        settings, cluster = self._settings, self._context.cluster
        worker_logs = self._context.run_dir.logs / f"worker-{cluster.rank}"
        profiled = parse_profile_steps(settings.monitoring.profile_steps)
        steps = self._samplers.sampler("train").steps
        reporter = ProgressReporter(settings.training.epochs, steps, is_chief=cluster.is_chief)
        callbacks = [
            self._throughput,
            ProfilerCallback(worker_logs, profiled),
            ResourceCallback(worker_logs),
            ValidationCallback(lambda: self._evaluator.measure("validation")),
            StepsPerCallTuner(self._strategy, settings.training.steps_per_call, profiled),
            self._multi_start,
        ]
        if self._writer:
            callbacks += [
                self._tensorboard_callback(),
                MetricsJsonlCallback(self._context.run_dir.metrics, epoch),
            ]
        callbacks.append(ProgressCallback(reporter))
        if self._writer:
            callbacks.append(
                CheckpointCallback(
                    self._writer,
                    self._multi_start,
                    interval_epochs=settings.checkpointing.checkpoint_interval,
                    steps_per_epoch=steps,
                )
            )
        return callbacks

    def _tensorboard_callback(self) -> TensorBoardCallback:
        callback = TensorBoardCallback(
            self._context.run_dir.logs,
            circuits=len(list(circuit_layers(self._learner.model))),
            sample=self._data.sample("validation", READOUT_SAMPLE_ROWS).angles,
        )
        # A single worker can't run, or draw, a circuit whose state is sharded.
        if self._settings.training.state_shards == 1:
            callback.write_graph(self._learner.model, self._data.features)
        return callback

    def _save_newest(self) -> None:
        """Commit the state of the last step boundary, on the chief."""
        if self._writer:
            self._writer.commit_newest()
