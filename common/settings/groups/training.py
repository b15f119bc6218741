"""Settings of training: optimization, checkpoints and fault tolerance."""

from typing import Annotated, ClassVar, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import StringConstraints, model_validator

from common.settings.fields import AUTO, OR_AUTO, Port, Scope, Scopes, Setting, SettingsGroup

DEFAULT_BATCH = 64
AUTO_INITIALIZATIONS = 8
AUTO_INITIALIZATION_EPOCHS = 15
LOSSES = (
    "binary_crossentropy", "binary_focal_crossentropy", "categorical_crossentropy",
    "categorical_focal_crossentropy", "categorical_hinge", "cosine_similarity", "hinge", "huber",
    "kl_divergence", "log_cosh", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_error", "mean_squared_logarithmic_error", "poisson",
    "sparse_categorical_crossentropy", "squared_hinge",
)  # fmt: skip
"""The losses of Keras."""


class TrainingSettings(SettingsGroup):
    """The optimization: workers, batch size, epochs, initializations and learning rate.

    A training of several initializations has two phases. The initialization phase trains each
    initialization for `epochs_per_initialization` epochs. The main phase trains the best of them
    for the remaining epochs. With one initialization there is only the main phase.
    """

    title: ClassVar[str] = "Training"
    scope: ClassVar[Scopes] = frozenset({Scope.WORKER, Scope.BENCHMARK_POD, Scope.PLAN_FILE})

    workers: Annotated[
        int,
        Le(4096),
        *OR_AUTO,
        Setting(
            "worker processes in the process group; auto lets the planner choose",
            allowed="a whole number from 1 to 4,096, or auto",
            choices=("auto",),
            also=frozenset({Scope.POD_SPEC, Scope.BENCHMARK_ENV}),
            without=frozenset({Scope.WORKER, Scope.BENCHMARK_POD}),
        ),
    ] = 2
    min_workers: Annotated[
        int | None,
        Ge(1),
        Le(4096),
        Setting(
            "fewest workers to continue with while others are missing (see ELASTIC_AFTER); default:"
            " WORKERS, which always waits for all",
            allowed="a whole number from 1 to WORKERS that STATE_SHARDS divides",
            without=frozenset({Scope.BENCHMARK_POD}),
        ),
    ] = None
    state_shards: Annotated[
        int,
        Ge(1),
        Le(4096),
        Setting(
            "workers that share the state vector of one circuit, for circuits that exceed one"
            " worker's memory",
            allowed="1, 2, 4, 8 or another power of two that divides WORKERS",
            also=frozenset({Scope.GROUP}),
        ),
    ] = 1
    batch: Annotated[
        int | None,
        Le(1_000_000),
        *OR_AUTO,
        Setting(
            f"examples per step over all workers; default: {DEFAULT_BATCH}; auto lets the planner"
            " choose",
            identity=True,
            allowed="a whole number from 1 to 1,000,000, or auto",
            choices=("auto",),
        ),
    ] = None
    epochs: Annotated[
        int,
        Ge(1),
        Le(1_000_000),
        Setting(
            "passes over the training data, including those of all initializations",
            also=frozenset({Scope.GROUP}),
        ),
    ] = 170
    learning_rate: Annotated[
        float,
        Gt(0),
        Le(10),
        Setting(
            "peak learning rate of Adam, with cosine decay to 0; 0.01 unless given for a MODEL that"
            " a search found",
            identity=True,
        ),
    ] = 0.1
    loss: Annotated[
        str,
        StringConstraints(pattern=f"^({'|'.join(LOSSES)})?$"),
        Setting(
            "loss of classification and regression; default: the mean squared error of the sign or"
            " the number, or the cross-entropy of several classes",
            identity=True,
            allowed="a loss of Keras: " + ", ".join(LOSSES),
            choices=LOSSES,
        ),
    ] = ""
    initializations: Annotated[
        int | None,
        Ge(1),
        Le(1000),
        Setting(
            "random initializations, of which the best is trained further; default:"
            f" {AUTO_INITIALIZATIONS}, or as many as fit into three quarters of EPOCHS; 1 for a"
            " MODEL that a search found",
            identity=True,
        ),
    ] = None
    initialization_epochs: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000),
        Setting(
            "epochs per initialization, if there are several; default:"
            f" {AUTO_INITIALIZATION_EPOCHS}, or as many as fit into three quarters of EPOCHS",
            identity=True,
        ),
    ] = None
    prune: Annotated[
        float,
        Ge(0),
        Lt(1),
        Setting(
            "largest fraction of the trained angles that pruning drops while training; 0 drops"
            " none",
            identity=True,
        ),
    ] = 0.0
    reproducible: Annotated[
        bool,
        Setting(
            "train to the same bits with any number of workers and threads; a batch is then divided"
            " into micro-batches",
            identity=True,
        ),
    ] = False
    micro_batch: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000),
        Setting(
            "examples per micro-batch with REPRODUCIBLE=true; a batch can be shared by as many"
            " workers as it has micro-batches; default: chosen by QUBITS, BATCH and DATA",
            identity=True,
        ),
    ] = None
    steps_per_call: Annotated[
        int,
        Ge(0),
        Le(10_000),
        Setting(
            "training steps per TensorFlow function call; 0 is automatic",
            unit="steps",
            also=frozenset({Scope.GROUP}),
        ),
    ] = 0
    threads: Annotated[
        int,
        Ge(0),
        Le(1024),
        Setting(
            "compute threads per worker; 0 divides the machine's cores among its workers",
            unit="threads",
            also=frozenset({Scope.POD_SPEC, Scope.BENCHMARK_ENV}),
            without=frozenset({Scope.WORKER, Scope.BENCHMARK_POD}),
        ),
    ] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        shards = self.state_shards
        if shards & (shards - 1):
            above = 1 << shards.bit_length()
            raise ValueError(
                f"STATE_SHARDS={shards} is not a power of two: set STATE_SHARDS to"
                f" {above // 2} or {above}"
            )
        if self.workers != AUTO and self.workers % shards:
            raise ValueError(
                f"WORKERS={self.workers} can't be divided into groups of STATE_SHARDS={shards}:"
                f" set WORKERS to a multiple of {shards}"
            )
        if self.min_workers and self.workers != AUTO and self.min_workers > self.workers:
            raise ValueError(
                f"MIN_WORKERS={self.min_workers} is more than WORKERS={self.workers}: lower"
                " MIN_WORKERS or raise WORKERS"
            )
        if self.min_workers and self.min_workers % shards:
            raise ValueError(
                f"MIN_WORKERS={self.min_workers} can't be divided into groups of"
                f" STATE_SHARDS={shards}: set MIN_WORKERS to a multiple of {shards}"
            )
        self.check_epochs()
        return self

    def check_epochs(self) -> None:
        """Require at least one epoch after the initialization phase.

        Raises:
            ValueError: No epoch is left.
        """
        count, each = self._resolve_initializations()
        if self.initializations is None and (self.initialization_epochs or 0) >= self.epochs:
            # The automatic count is 1 here, which would silently ignore the explicit epochs.
            count, each = 2, self.initialization_epochs or 0
        if (phase := count * each) >= self.epochs:
            raise ValueError(
                f"EPOCHS={self.epochs} leaves no epoch after the initialization phase of"
                f" INITIALIZATIONS={count} with INITIALIZATION_EPOCHS={each}: set EPOCHS to at"
                f" least {phase + 1:,}, or lower INITIALIZATIONS or INITIALIZATION_EPOCHS"
            )

    def _resolve_initializations(self) -> tuple[int, int]:
        budget = 3 * self.epochs // 4
        count, each = self.initializations, self.initialization_epochs
        if count is None:
            count = min(AUTO_INITIALIZATIONS, budget // (each or 1))
        if count <= 1:
            return 1, 0
        return count, each or max(1, min(AUTO_INITIALIZATION_EPOCHS, budget // count))

    @property
    def global_batch(self) -> int:
        """Examples per step over all workers."""
        return self.explicit_batch or DEFAULT_BATCH

    @property
    def explicit_batch(self) -> int | None:
        """BATCH; None if the planner chooses it."""
        return None if self.batch == AUTO else self.batch

    @property
    def is_elastic(self) -> bool:
        """True if fewer than WORKERS may train."""
        return bool(self.min_workers) and self.min_workers != self.workers

    @property
    def initialization_count(self) -> int:
        """Number of initializations: INITIALIZATIONS, or the automatic number."""
        return self._resolve_initializations()[0]

    @property
    def epochs_per_initialization(self) -> int:
        """Epochs of each initialization; 0 if there is only one initialization."""
        return self._resolve_initializations()[1]

    @property
    def initialization_phase_epochs(self) -> int:
        """Epochs of all initializations together; 0 if there is only one initialization."""
        count, each = self._resolve_initializations()
        return count * each

    @property
    def main_phase_epochs(self) -> int:
        """Epochs after the initialization phase."""
        return self.epochs - self.initialization_phase_epochs

    def resolved(self) -> dict[str, int]:
        """Return the settings that a run records with their resolved, not their given value."""
        count, each = self._resolve_initializations()
        return {
            "batch": self.global_batch,
            "initializations": count,
            "initialization_epochs": each,
        }


class CheckpointingSettings(SettingsGroup):
    """Checkpoints: how often they are written, and how many are kept."""

    title: ClassVar[str] = "Checkpointing"
    scope: ClassVar[Scopes] = frozenset({Scope.WORKER, Scope.BENCHMARK_POD, Scope.PLAN_FILE})

    checkpoint_interval: Annotated[
        int, Ge(1), Le(1_000_000), Setting("interval between checkpoints", unit="epochs")
    ] = 1
    keep_checkpoints: Annotated[
        int, Ge(1), Le(1000), Setting("number of most recent checkpoints to keep")
    ] = 3
    keep_best: Annotated[
        bool,
        Setting(
            "also keep the checkpoint of the epoch with the lowest validation loss, and write its"
            " weights with the result"
        ),
    ] = False


class FaultToleranceSettings(SettingsGroup):
    """Fault tolerance: deadline, limits of attempts and restarts, and the rendezvous."""

    title: ClassVar[str] = "Fault tolerance"
    scope: ClassVar[Scopes] = frozenset({Scope.WORKER, Scope.BENCHMARK_POD, Scope.PLAN_FILE})

    deadline: Annotated[
        int,
        Ge(0),
        Le(31_536_000),
        Setting(
            "time after which training saves a checkpoint and exits; 0: none on this machine,"
            " 7 days in a cluster",
            unit="seconds",
        ),
    ] = 0
    max_attempts: Annotated[
        int,
        Ge(1),
        Le(1000),
        Setting("failed starts of a worker in a row without a new checkpoint, at most"),
    ] = 5
    max_restarts: Annotated[
        int,
        Ge(0),
        Le(1000),
        Setting(
            "restarts of the process group on this machine, at most",
            also=frozenset({Scope.CLIENT}),
            without=frozenset({Scope.WORKER}),
        ),
    ] = 10
    rendezvous_timeout: Annotated[
        int,
        Ge(1),
        Le(86_400),
        Setting(
            "time that workers wait for each other before training starts",
            unit="seconds",
            also=frozenset({Scope.BENCHMARK}),
        ),
    ] = 120
    stall_timeout_min: Annotated[
        float,
        Ge(1),
        Le(86_400),
        Setting(
            "shortest limit of a training call, an all-reduce or an evaluation call; the limit"
            " itself is 20 times the slowest recent one",
            unit="seconds",
        ),
    ] = 60.0
    stall_timeout_max: Annotated[
        float,
        Ge(1),
        Le(604_800),
        Setting(
            "longest limit of a training call, an all-reduce or an evaluation call; also that of"
            " the first one, which builds graphs, and of the data preparation between two messages",
            unit="seconds",
        ),
    ] = 1800.0
    rendezvous_port: Annotated[
        Port,
        Setting("port of the rendezvous, and of the all-reduce between pods; 0: any free port"),
    ] = 2224
    peer_timeout: Annotated[
        int,
        Ge(5),
        Le(600),
        Setting("time without a sign of life after which a worker is lost", unit="seconds"),
    ] = 30
    elastic_after: Annotated[
        int,
        Ge(0),
        Le(86_400),
        Setting(
            "time after which MIN_WORKERS workers start without the missing ones",
            unit="seconds",
            without=frozenset({Scope.BENCHMARK_POD}),
        ),
    ] = 300

    @model_validator(mode="after")
    def _check_stall_timeouts(self) -> Self:
        if self.stall_timeout_min > self.stall_timeout_max:
            raise ValueError(
                f"STALL_TIMEOUT_MIN={self.stall_timeout_min:g} is greater than"
                f" STALL_TIMEOUT_MAX={self.stall_timeout_max:g}: raise STALL_TIMEOUT_MAX"
            )
        return self
