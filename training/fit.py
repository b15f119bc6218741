"""From data to a trained learner: Keras `fit`, taken up at any step."""

import time
from collections.abc import Callable, Iterator

from common.checkpoints import Checkpoint
from common.data import Dataset, Feed, Share
from common.models import circuits
from common.settings import Settings
from common.tensorflow import keras, tf
from training import computing
from training.board import SAMPLE, Board, Machine, Record, profiled_steps
from training.cluster import Cluster
from training.input import batches, own_failure
from training.keeper import Keeper, Snapshot, put
from training.learner import MOST_STEPS
from training.place import Place
from training.preemption import Preemption
from training.progress import Clock, Report, Validation
from training.starts import Starts

# About how long one call into TensorFlow may take: Ctrl-C, SIGTERM and the deadline are
# heard between two calls.
CALL_SECONDS = 0.5


class Pace(keras.callbacks.Callback):
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
            all_seconds = computing.exchange(self._strategy, self._seconds)
            seconds = all_seconds / self._strategy.num_replicas_in_sync
            self._steps = min(MOST_STEPS, max(1, int(CALL_SECONDS / seconds)))
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


class Training:
    """One worker's part in training one model on one data set."""

    def __init__(self, settings: Settings, cluster: Cluster, data: Dataset, place: Place) -> None:
        self.settings, self.cluster, self.data, self.place = settings, cluster, data, place
        self.strategy = computing.strategy(settings, cluster)
        computing.serve_profiles(settings.profiler_port)
        firsts = computing.first_weights(cluster, data, settings)
        self.learner = computing.learner(self.strategy, cluster, data, settings)
        self._shares: dict[str, Share] = {}
        self.starts = Starts(settings, firsts, lambda: self.measure("train")["mse"])
        # Batches of a split that is measured, epoch after epoch.
        self._endless: dict[str, tuple[Feed, Iterator]] = {}
        self.clock = Clock(self._share("train").steps, data.rows("train"))
        self._from: Snapshot | None = None
        self._keeper: Keeper | None = None

    def resume(self, checkpoint: Checkpoint) -> None:
        """Set the state that a checkpoint holds; without one the first weights stay."""
        state = {name: checkpoint.state[name] for name in ("epoch", "step", "steps")}
        self._from = Snapshot(arrays=checkpoint.arrays, **state)
        put(self.learner, self.starts, self._from)

    def fit(
        self,
        commit: Callable[[Snapshot], None] | None,
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
        profiled = profiled_steps(self.settings)
        callbacks: list[keras.callbacks.Callback] = [
            self.clock,
            Machine(self.place.logs, self.cluster.rank, profiled),
            Validation(lambda: self.measure("validation")),
            Pace(self.strategy, self.settings.steps_per_call, profiled),
            self.starts,
        ]
        report = Report(
            self.settings.all_epochs, train.steps, done=epoch, shown=self.cluster.is_chief
        )
        if commit:
            self._keeper = Keeper(
                commit,
                self.starts,
                every=self.settings.checkpoint_every,
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
            if epoch < self.settings.all_epochs:
                self._epochs(callbacks, epoch, step, self.settings.all_epochs)
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
        with own_failure(feed, self.salvage):
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
        board = Board(
            self.place.logs,
            circuits=len(list(circuits(self.learner.model))),
            sample=self.data.sample("validation", SAMPLE).angles,
        )
        # A circuit that several workers hold can't be drawn, or run, by one of them.
        if self.settings.split == 1:
            board.draw_graph(self.learner.model, self.data.features)
        return [board, Record(self.place.metrics, epoch)]

    def measure(self, split: str) -> dict[str, float]:
        """What `Learner.measure` says of a whole split, by all workers together."""
        share = self._share(split)
        if split not in self._endless:
            feed = self._feed(split)
            self._endless[split] = feed, iter(batches(feed, share))
        feed, endless = self._endless[split]
        with own_failure(feed, self.salvage):
            return self.learner.measure(endless, share.steps)

    def salvage(self) -> None:
        """A peer was lost: the chief keeps the state of the last step boundary."""
        if self._keeper:
            self._keeper.commit()

    def barrier(self) -> None:
        """Return when every worker has come here."""
        computing.exchange(self.strategy, 0.0)

    def _share(self, split: str) -> Share:
        """Which rows of a split this worker takes, and in which step."""
        if split not in self._shares:
            self._shares[split] = Share(
                self.data.lane_sizes(split),
                rank=self.cluster.rank // self.settings.split,
                world=self.cluster.size // self.settings.split,
                batch=self.settings.global_batch,
                seed=self.settings.seed,
                cut=self.data.cut(split),
            )
        return self._shares[split]

    def _feed(self, split: str) -> Feed:
        """What reads this worker's share of a split."""
        return self.data.feed(split, self._share(split))
