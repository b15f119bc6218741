"""The trainer of MODEL=kernel: tiles by all workers, a fit by the chief, metrics by all.

There are no steps and no checkpoints: the tiles are files, and a restart computes the missing ones.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common.data import Examples
from common.model_circuits import kernel_circuit
from common.models import build_model, describe_model
from common.models.device import device_of_circuits
from common.models.kernel_machine import KernelShape, set_machine
from common.settings import Settings
from common.start_check import require_kernel_memory
from common.storage.base import RETRY_SECONDS
from common.text import plural
from common.tuning import BANDWIDTHS, MAX_TUNING_ROWS, sample_rows
from qfleet.kernels import FidelityKernel
from qfleet.tensorflow.runtime import keras, tf
from training.kernel.fit import Fit, Tuning, fit, tune
from training.kernel.tiles import TilePlan, assemble, compute_tiles
from training.parts.trainer import PartsTrainer, open_strategy
from training.step.allreduce import all_reduce_scalar, build_sum
from training.step.evaluation import SplitEvaluator
from training.step.input_pipeline import SplitSamplers
from training.step.learner import Learner
from training.step.losses import measures_of
from training.step.micro_batches import MicroBatches
from training.trainer_protocol import TrainingContext

MEASURED_ROWS = 1024
"""Examples of a worker that are compared with all stored rows at a time."""


class _Matrix(NamedTuple):
    """A kernel matrix in tiles: the arguments of `assemble`."""

    plan: TilePlan
    kernel: FidelityKernel
    examples: np.ndarray


@contextmanager
def open_kernel_trainer(context: TrainingContext) -> Iterator["KernelTrainer"]:
    """Build the trainer of this worker.

    Raises:
        PeerLost, Preempted: TensorFlow reported a lost peer, here or in the body of the context.
        SettingsError: The kernel matrix does not fit into the chief's memory.
    """
    if context.cluster.is_chief:
        require_kernel_memory(context.data.rows("train"))
    with open_strategy(context) as strategy:
        yield KernelTrainer(context, strategy)


class KernelTrainer(PartsTrainer):
    """Fits a kernel machine to one data set, on one worker.

    Args:
        context: Settings, data and folders of the run.
        strategy: The workers' strategy.
    """

    parts = "tiles"

    def __init__(self, context: TrainingContext, strategy: tf.distribute.Strategy) -> None:
        super().__init__(context, strategy)
        self._bandwidth = math.nan
        self._computed = 0
        self._model: keras.Model | None = None
        self._evaluator: SplitEvaluator | None = None
        self._summary = ""

    @property
    def device(self) -> str:
        """The device of the circuits; empty before `fit`."""
        return device_of_circuits(self._model) if self._model else ""

    @property
    def step_summary(self) -> str:
        """One line on the tiles and the fit."""
        return self._summary

    def fit(self) -> None:
        """Compute this worker's tiles, let the chief tune and fit, and get its results."""
        watchdog = self._context.watchdog
        limit = self._settings.fault_tolerance.stall_timeout_max
        watchdog.enter("the training examples", limit)
        train = self._data.split("train")
        began = time.monotonic()
        tuning = self._tune(train)
        matrix = self._matrix(train.angles, self._bandwidth)
        self._compute([matrix])
        seconds = time.monotonic() - began
        numbers = np.zeros((len(train.labels) + 1) * self._data.target.outputs)
        if tuning:
            watchdog.enter("the fit", limit)
            fitted = fit(assemble(*matrix), train.labels, self._data.target, tuning)
            numbers = np.concatenate([fitted.coefficients.ravel(), fitted.constant])
            self._summary = (
                f"Kernel matrix: worker 0 computed {plural(self._computed, 'tile')}, with the"
                f" tuning in {seconds:.1f} s; {tuning}; predictions compare with"
                f" {len(fitted.support):,} of {len(train.labels):,} training rows"
            )
        watchdog.enter("the result of the fit", limit)
        shared = build_sum(self._strategy)(tf.constant(numbers)).numpy()
        self._open_model(train, shared)

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of a split, over all workers."""
        assert self._evaluator is not None, "fit comes first"
        limit = self._settings.fault_tolerance.stall_timeout_max
        self._context.watchdog.enter(f"the metrics of the {split} split", limit)
        return self._evaluator.measure(split)

    def save_model(self, weights: Path) -> dict[str, object]:
        """Write the weights and return the content of model.json."""
        assert self._model is not None, "fit comes first"
        self._model.save_weights(weights)
        encoding = self._data.manifest.encoding
        described = describe_model(self._model, self._data.features, self._settings, encoding)
        return {**described, "bandwidth": self._bandwidth}

    def _matrix(self, angles: np.ndarray, bandwidth: float) -> _Matrix:
        circuit = kernel_circuit(self._settings.model, self._data.features, bandwidth)
        plan = TilePlan.of(self._run, self._settings, self._data, len(angles), bandwidth)
        return _Matrix(plan, FidelityKernel(circuit.circuit, circuit.inputs), angles)

    def _compute(self, matrices: Sequence[_Matrix]) -> None:
        """Compute this worker's tiles of some matrices, and wait for those of the others."""
        cluster, watchdog = self._context.cluster, self._context.watchdog
        limit = self._settings.fault_tolerance.stall_timeout_max
        watchdog.enter("the tiles of the kernel matrix", limit)
        for one in matrices:
            self._computed += compute_tiles(*one, cluster.rank, cluster.size, self.before_part)
        watchdog.enter("the tiles of the other workers", limit)
        self.barrier()

    def _tune(self, train: Examples) -> Tuning | None:
        """Let the chief choose the bandwidth; return all that it chose, on the chief."""
        rows = sample_rows(len(train.labels), MAX_TUNING_ROWS, self._settings.data.seed)
        tried = {one: self._matrix(train.angles[rows], one) for one in BANDWIDTHS}
        self._compute(list(tried.values()))
        tuning, watchdog = None, self._context.watchdog
        limit = self._settings.fault_tolerance.stall_timeout_max
        if self._context.cluster.is_chief:
            watchdog.enter("the tuning", limit)
            matrices = {one: assemble(*matrix) for one, matrix in tried.items()}
            tuning = tune(matrices, rows, train.labels, self._data.target)
        watchdog.enter("the result of the tuning", limit)
        chosen = BANDWIDTHS.index(tuning.bandwidth) if tuning else 0
        self._bandwidth = BANDWIDTHS[round(all_reduce_scalar(self._strategy, chosen))]
        return tuning

    def _open_model(self, train: Examples, numbers: np.ndarray) -> None:
        """Build the Keras model of the fit, and what measures it; equal on all workers."""
        outputs = self._data.target.outputs
        coefficients = numbers[:-outputs].reshape(-1, outputs)
        found = Fit(coefficients, numbers[-outputs:])
        support = found.support
        settings = _measuring(self._settings, self._context.cluster.size, len(train.labels))
        with self._strategy.scope():
            self._model = build_model(
                self._data.features,
                self._settings,
                self._data.placement,
                self._data.target,
                KernelShape(len(support), self._bandwidth),
            )
            set_machine(self._model, train.angles[support], coefficients[support], found.constant)
            learner = Learner(
                self._model,
                measures_of(self._data.target),
                micro_batches=MicroBatches.of(settings, self._context.cluster),
                limited_call=self._context.watchdog.call,
            )
            learner.compile(steps_per_execution=2)
            learner.make_test_function()
        samplers = SplitSamplers(self._data, settings, self._context.cluster)
        if samplers.read_storage:
            self._context.watchdog.allow(RETRY_SECONDS)
        self._evaluator = SplitEvaluator(learner, samplers, lambda: None)


def _measuring(settings: Settings, workers: int, rows: int) -> Settings:
    """Return settings whose batches are as large as a worker measures them."""
    return settings.replace(batch=workers * min(MEASURED_ROWS, -(-rows // workers)))
