"""From data to a trained learner: Keras `fit`, taken up at any step."""

import time
from collections.abc import Callable, Iterator

from common.checkpoints import Checkpoint
from common.data import BatchSource, Dataset, WorkerSampler
from common.models import circuit_layers
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf
from training import distributed
from training.checkpointing import CheckpointCallback, TrainingState, restore_state
from training.cluster import ClusterSpec
from training.input_pipeline import batches, reraise_source_failure
from training.learner import MAX_STEPS_PER_CALL
from training.multi_start import MultiStart
from training.preemption import Preemption
from training.progress_callbacks import ProgressCallback, ThroughputCallback, ValidationCallback
from training.run_dir import LocalRunDir
from training.tensorboard_callbacks import (
    READOUT_SAMPLE_ROWS,
    MetricsJsonlCallback,
    ResourceCallback,
    TensorBoardCallback,
    profile_step_range,
)

# About how long one call into TensorFlow may take: Ctrl-C, SIGTERM and the deadline are
# heard between two calls.
MAX_CALL_SECONDS = 0.5


class StepsPerCallTuner(keras.callbacks.Callback):
    """Chooses how many steps one call into TensorFlow takes.

    Keras costs about 3 ms a call. TensorFlow tells the exchanges of a loop apart by the loop's
    turn, so every worker must cut its steps in the same places: they agree on the mean of how long
    their first steps took.

    Args:
        strategy: The workers.
        steps: Steps in a call, where a person chose; 0 chooses.
        single: Steps of the run, counted from 1, that take a call each: those that are profiled,
            since a profile tells steps apart by the host's calls.
    """

    # The first call does not count, since it traces the graph.
    MEASURED = (2, 3)

    def __init__(
        self, strategy: tf.distribute.Strategy, steps: int = 0, single: range = range(0)
    ) -> None:
        super().__init__()
        self._strategy = strategy
        self._steps = steps or 1
        self._single = single
        # A person's choice is not measured.
        self._calls = self.MEASURED[-1] if steps else 0
        self._seconds = float("inf")

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Have the profiled steps marked."""
        self.model.unlooped = bool(self._single)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Cut the first call; Keras has cut the last one before where the epoch ended."""
        self._cut()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Stop the clock of a call of one step; agree after the last that is measured."""
        self._calls += 1
        if self._calls in self.MEASURED:
            self._seconds = min(self._seconds, time.monotonic() - self._began)
        if self._calls == self.MEASURED[-1]:
            all_seconds = distributed.all_reduce_scalar(self._strategy, self._seconds)
            seconds = all_seconds / self._strategy.num_replicas_in_sync
            self._steps = min(MAX_STEPS_PER_CALL, max(1, int(MAX_CALL_SECONDS / seconds)))
        self._cut()

    def _cut(self) -> None:
        """Say how many steps the next call takes."""
        coming, steps = self.model.steps + 1, self._steps
        if coming in self._single:
            steps = 1
        elif coming < self._single.start:
            steps = min(steps, self._single.start - coming)
        if steps != self.model.steps_per_call:
            self.model.steps_per_call = steps


class Trainer:
    """One worker's part in training one model on one data set."""

    def __init__(
        self, settings: Settings, cluster: ClusterSpec, data: Dataset, place: LocalRunDir
    ) -> None:
        self.settings, self.cluster, self.data, self.place = settings, cluster, data, place
        self.strategy = distributed.create_strategy(settings, cluster)
        distributed.start_profiler_server(settings.monitoring.profiler_port)
        firsts = distributed.initial_weights(cluster, data, settings)
        self.learner = distributed.build_learner(self.strategy, cluster, data, settings)
        self._shares: dict[str, WorkerSampler] = {}
        self.starts = MultiStart(settings, firsts, lambda: self.measure("train")["mse"])
        # Batches of a split that is measured, epoch after epoch.
        self._endless: dict[str, tuple[BatchSource, Iterator]] = {}
        self.clock = ThroughputCallback(self._share("train").steps, data.rows("train"))
        self._from: TrainingState | None = None
        self._keeper: CheckpointCallback | None = None

    def resume(self, checkpoint: Checkpoint) -> None:
        """Set the state that a checkpoint holds; without one the first weights stay."""
        state = {name: checkpoint.state[name] for name in ("epoch", "step", "steps")}
        self._from = TrainingState(arrays=checkpoint.arrays, **state)
        restore_state(self.learner, self.starts, self._from)

    def fit(
        self,
        commit: Callable[[TrainingState], None] | None,
        preemption: Preemption,
        deadline: float | None,
    ) -> None:
        """Train to the end of the last epoch.

        Args:
            commit: The chief's way to write a checkpoint; None in the other workers.
            preemption: Tells whether SIGTERM came.
            deadline: `time.monotonic()` at which to leave a checkpoint and go, or None.

        Raises:
            Preempted, DeadlineReached: A checkpoint was left.
        """
        epoch, step = (self._from.epoch, self._from.step) if self._from else (0, 0)
        train = self._share("train")
        profiled = profile_step_range(self.settings)
        callbacks: list[keras.callbacks.Callback] = [
            self.clock,
            ResourceCallback(self.place.logs, self.cluster.rank, profiled),
            ValidationCallback(lambda: self.measure("validation")),
            StepsPerCallTuner(self.strategy, self.settings.training.steps_per_call, profiled),
            self.starts,
        ]
        report = ProgressCallback(
            self.settings.training.epochs, train.steps, done=epoch, shown=self.cluster.is_chief
        )
        if commit:
            self._keeper = CheckpointCallback(
                commit,
                self.starts,
                every=self.settings.checkpointing.checkpoint_interval,
                steps_per_epoch=train.steps,
                preemption=preemption,
                deadline=deadline,
            )
            self._keeper.start(self._from)
            callbacks += [*self._boards(epoch), report, self._keeper]
        else:
            callbacks.append(report)
        try:
            if step:
                self._epochs(callbacks, epoch, step, epoch + 1)
                epoch, step = epoch + 1, 0
            if epoch < self.settings.training.epochs:
                self._epochs(callbacks, epoch, step, self.settings.training.epochs)
        finally:
            report.stop()
            if self._keeper:
                self._keeper.close()

    def _epochs(
        self, callbacks: list[keras.callbacks.Callback], epoch: int, step: int, until: int
    ) -> None:
        """Epochs `epoch` to `until` - 1, the first of them from `step` on."""
        share = self._share("train")
        feed = self._feed("train")
        self.learner.offset = step
        with reraise_source_failure(feed, self.salvage):
            self.learner.fit(
                batches(feed, share, epoch=epoch, step=step),
                initial_epoch=epoch,
                epochs=until,
                steps_per_epoch=share.steps - step,
                callbacks=callbacks,
                verbose=0,
            )
        self.learner.offset = 0

    def _boards(self, epoch: int) -> list[keras.callbacks.Callback]:
        board = TensorBoardCallback(
            self.place.logs,
            circuits=len(list(circuit_layers(self.learner.model))),
            sample=self.data.sample("validation", READOUT_SAMPLE_ROWS).angles,
        )
        # A circuit that several workers hold can't be drawn, or run, by one of them.
        if self.settings.training.state_shards == 1:
            board.draw_graph(self.learner.model, self.data.features)
        return [board, MetricsJsonlCallback(self.place.metrics, epoch)]

    def measure(self, split: str) -> dict[str, float]:
        """What `Learner.measure` says of a whole split, by all workers together."""
        share = self._share(split)
        if split not in self._endless:
            feed = self._feed(split)
            self._endless[split] = feed, iter(batches(feed, share))
        feed, endless = self._endless[split]
        with reraise_source_failure(feed, self.salvage):
            return self.learner.measure(endless, share.steps)

    def salvage(self) -> None:
        """A peer was lost: the chief keeps the state of the last step boundary."""
        if self._keeper:
            self._keeper.commit()

    def barrier(self) -> None:
        """Return when every worker has come here."""
        distributed.all_reduce_scalar(self.strategy, 0.0)

    def _share(self, split: str) -> WorkerSampler:
        """Which rows of a split this worker takes, and in which step."""
        if split not in self._shares:
            self._shares[split] = WorkerSampler(
                self.data.partition_sizes(split),
                rank=self.cluster.rank // self.settings.training.state_shards,
                world_size=self.cluster.size // self.settings.training.state_shards,
                batch=self.settings.training.global_batch,
                seed=self.settings.data.seed,
                layout=self.data.layout(split),
            )
        return self._shares[split]

    def _feed(self, split: str) -> BatchSource:
        """What reads this worker's share of a split."""
        return self.data.batch_source(split, self._share(split))
