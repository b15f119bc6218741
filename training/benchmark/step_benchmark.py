"""Step benchmark: a case is built, warmed up, and trained at a steady rate while it is timed."""

import contextlib
import ctypes
import functools
import gc
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypedDict, cast

import numpy as np
import psutil

from common.data import Dataset, Examples, WorkerSampler, partition_sizes
from common.data.problems import PROBLEMS
from common.data.target import SIGNS, Target
from common.processes import cpu_count, usable_cpus
from common.settings import Settings, micro_batch_count
from qfleet.tensorflow.runtime import keras, tf
from training.benchmark.case import BenchmarkCase
from training.callbacks.steps_per_call import StepsPerCallTuner
from training.cluster.spec import ClusterSpec
from training.step import distributed, learner_factory
from training.step.allreduce import all_reduce_scalar
from training.step.constants import STEP_PARTS
from training.step.input_pipeline import batches
from training.step.learner import Learner

LearnerKey = tuple[BenchmarkCase, int | None]

SHORT_EPOCHS, SHORT_EPOCH_STEPS = 12, 4
"""The epochs that the host's work is measured in."""

EPOCH_PAUSE_SECONDS = 0.01
"""About the time that training takes between two epochs."""

MIN_STEPS_PER_CALL = 25
"""The host's work is measured where at least this many steps fit into a call."""


class SyntheticDataset:
    """Random examples in memory, with the attributes of a data set that a learner needs.

    Args:
        case: `turned` data rotates every qubit of an example, `excitations` one. With TASK=energy
            and TASK=state, Hamiltonians or states are repeated.
    """

    class_counts: ClassVar[dict[str, int]] = {}

    def __init__(self, case: BenchmarkCase) -> None:
        settings = case.settings
        # Enough batches that the order of an epoch is drawn seldom, as in training.
        batch = settings.training.global_batch
        self._rows = batch * max(4, min(64, 65_536 // batch))
        self._seed, self._data = settings.data.seed, case.data
        self.features, self.placement = case.angles, case.placement
        self.target: Target = SIGNS
        if case.classes > 2:
            self.target = Target("classes", "label", tuple(map(str, range(case.classes))))
        self._members: Examples | None = None
        if settings.data.task in PROBLEMS:
            named = settings.data.model_copy(update={"data": case.data})
            prepared = PROBLEMS[settings.data.task](named, settings.model.qubits)
            train = prepared.splits["train"]
            self._members, self.target = train.read(0, train.rows), prepared.encoding.target
            self.features = prepared.encoding.symbols
        self.partition_sizes = partition_sizes(self._rows, settings.data.partitions)

    @functools.cached_property
    def examples(self) -> Examples:
        """The rows; building a learner does not need them."""
        rows = self._rows
        if self._members is not None:
            chosen = np.arange(rows) % len(self._members.labels)
            return Examples(*(part[chosen] for part in self._members))
        generator = np.random.Generator(np.random.PCG64([self._seed, rows]))
        angles = generator.uniform(-np.pi, np.pi, (rows, self.features)).astype("f4")
        if self._data == "excitations":
            rotated = generator.integers(self.features, size=rows)
            angles *= np.arange(self.features) == rotated[:, None]
        if self.placement == "amplitude":
            angles /= np.linalg.norm(angles, axis=1, keepdims=True)
        labels = generator.integers(max(2, self.target.outputs), size=rows).astype("f4")
        if self.target.kind == "signs":
            labels = 2 * labels - 1
        return Examples(angles, labels)


class MeasuredSteps(TypedDict):
    """Steps of a measurement, and their times."""

    steps: int
    seconds: float
    cpu_seconds: float
    step_ms: dict[str, float]
    wait_ms: float


class StepTimerCallback(keras.callbacks.Callback):
    """Runs `fit` until its rate is steady, and then for about `seconds`.

    Args:
        strategy: The workers that start together and take the same number of steps.
        seconds: Approximate duration of the measurement.
        warmup_calls: Calls before the duration of a call is measured. With 2 or more, and several
            steps per call, one more is added.
    """

    def __init__(self, strategy: tf.distribute.Strategy, seconds: float, warmup_calls: int) -> None:
        super().__init__()
        self._strategy, self._seconds, self._warmup_calls = strategy, seconds, warmup_calls
        self._calls = self._remaining_calls = 0
        self.steps, self.first_call_seconds = 0, 0.0

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Start the clock of the time before the first step."""
        self._call_start = time.monotonic()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the clock of a call."""
        if self._calls:
            self._call_start = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Count a call; agree on the number of steps after warm-up; stop after the last one."""
        call_seconds = time.monotonic() - self._call_start
        self._calls += 1
        if self._calls == 1:
            self.first_call_seconds = call_seconds
        if self._remaining_calls:
            self._remaining_calls -= 1
            if not self._remaining_calls:
                self._end = self._clocks()
                self.model.stop_training = True
            return
        # A new loop of several steps needs a warm-up call of its own.
        extra = self._warmup_calls > 1 and self.model.steps_per_call > 1
        if self._calls < self._warmup_calls + extra:
            return
        total = all_reduce_scalar(self._strategy, call_seconds)
        mean = total / self._strategy.num_replicas_in_sync
        self._remaining_calls = max(1, round(self._seconds / mean))
        self.steps = self._remaining_calls * self.model.steps_per_call
        self._start = self._clocks()

    def _clocks(self) -> tuple[float, float, np.ndarray, float]:
        model = self.model
        return (
            time.monotonic(),
            time.process_time(),
            model.times.seconds,
            model.times.straggler_wait_seconds,
        )

    @property
    def measured(self) -> MeasuredSteps:
        """Seconds, CPU seconds, and milliseconds per step: by STEP_PARTS, and of waiting."""
        parts = self._end[2] - self._start[2]
        return {
            "steps": self.steps,
            "seconds": self._end[0] - self._start[0],
            "cpu_seconds": self._end[1] - self._start[1],
            "step_ms": dict(zip(STEP_PARTS, (1e3 * parts / self.steps).tolist(), strict=True)),
            "wait_ms": 1e3 * max(0.0, self._end[3] - self._start[3]) / self.steps,
        }


class EpochTimerCallback(keras.callbacks.Callback):
    """Times short epochs as training does, with a pause after each.

    Training validates and writes between two epochs. Idle threads and cold caches then make the
    first steps slower.

    Attributes:
        seconds: By epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Take the time of an epoch."""
        self.seconds.append(float(self.model.times.seconds.sum()))
        time.sleep(EPOCH_PAUSE_SECONDS)


class StepBenchmark:
    """One worker that measures cases.

    Args:
        settings: Settings of the process: THREADS, SEED.
        cluster: All workers, which must be alive, and the rank of this one.
        secret: Secret of the group, from its rendezvous.
    """

    def __init__(self, settings: Settings, cluster: ClusterSpec, secret: bytes) -> None:
        self._cluster = cluster
        self._threads = settings.training.threads or cpu_count()
        independent = tf.distribute.get_strategy()
        self._strategy = distributed.create_strategy(
            settings.replace(threads=self._threads), cluster, secret=secret
        )
        self._strategies = {"": self._strategy, "all": independent, "first": independent}
        # CPU time, so that neither other processes nor waiting for peers or cases count.
        self._start_seconds = sum(psutil.Process().cpu_times()[:2])
        self._learners: dict[LearnerKey, tuple[Learner, float]] = {}
        # By case: the learner's input, and the steps per call that the first measurement chose.
        self._inputs: dict[BenchmarkCase, tf.data.Dataset] = {}
        self._steps_per_call: dict[BenchmarkCase, int] = {}

    def measure(
        self, case: BenchmarkCase, later: Sequence[BenchmarkCase]
    ) -> dict[str, object] | None:
        """Measure a case.

        Args:
            case: The case.
            later: The cases after it, for which models and inputs are kept.

        Returns:
            The result; None where this worker has no part in the case.
        """
        result = None
        if case.independent != "first" or self._cluster.is_chief:
            result = self._measure(case)
            self._release(case, later)
        if case.independent == "first":
            all_reduce_scalar(self._strategy, 0.0)
        return result

    def _measure(self, case: BenchmarkCase) -> dict[str, object]:
        training = case.settings.training
        _reset_peak_memory()
        build_start = time.monotonic()
        learner, build_seconds = self._learner(case)
        data = self._input(case)
        build_seconds = build_seconds or time.monotonic() - build_start
        is_repeated = case in self._steps_per_call
        steps_per_call = self._steps_per_call.get(case, training.steps_per_call)
        strategy = self._strategies["first"] if case.independent == "first" else self._strategy
        warmup_calls = (
            1 if is_repeated else 2 if steps_per_call else StepsPerCallTuner.MEASURED_CALLS[-1]
        )
        timer = StepTimerCallback(strategy, case.seconds, warmup_calls)
        tuner = StepsPerCallTuner(strategy, steps_per_call)
        learner.fit(data, steps_per_epoch=2**40, callbacks=[tuner, timer], verbose=0)
        measured = timer.measured
        self._steps_per_call[case] = learner.steps_per_call
        host_seconds = _host_seconds(learner, data, measured["seconds"] / timer.steps)
        if not self._learners[_learner_key(case)][1]:  # the first call traced the graph
            build_seconds += timer.first_call_seconds
            self._learners[_learner_key(case)] = learner, build_seconds
        return {
            "rank": self._cluster.rank,
            "workers": training.workers,
            "qubits": case.settings.model.qubits,
            "batch": training.global_batch,
            "threads": self._threads,
            "state_shards": training.state_shards,
            "independent": case.independent,
            "data": case.data,
            "steps_per_call": self._steps_per_call[case],
            "host_seconds": host_seconds,
            **measured,
            "examples_per_second": training.global_batch * timer.steps / measured["seconds"],
            "start_seconds": self._start_seconds,
            "build_seconds": build_seconds,
            "rss_bytes": _peak_memory_bytes(),
            "cores": usable_cpus(),
        }

    def _learner(self, case: BenchmarkCase) -> tuple[Learner, float]:
        """Return the learner, and the seconds until its first step ended (0 before that)."""
        key = _learner_key(case)
        if key not in self._learners:
            data = cast(Dataset, SyntheticDataset(case))
            strategy = self._strategies[case.independent]
            settings = case.settings.replace(data=case.data)
            learner = learner_factory.build_learner(strategy, self._cluster, data, settings)
            self._learners[key] = learner, 0.0
        return self._learners[key]

    def _input(self, case: BenchmarkCase) -> tf.data.Dataset:
        """Return the learner's input: batches of any size, so that its graph is traced once."""
        if case not in self._inputs:
            training = case.settings.training
            data = SyntheticDataset(case)
            sampler = WorkerSampler(
                data.partition_sizes,
                rank=0 if case.independent else self._cluster.rank // training.state_shards,
                world_size=training.workers // training.state_shards,
                batch=training.global_batch,
                seed=case.settings.data.seed,
                micro_batches=_micro_batch_count(case),
            )
            self._inputs[case] = batches(data.examples, sampler, any_size=True)
        return self._inputs[case]

    def _release(self, case: BenchmarkCase, later: Sequence[BenchmarkCase]) -> None:
        """Free what no later case needs, so that the memory of a case is its own."""
        if case not in later:
            del self._inputs[case]
        if _learner_key(case) in map(_learner_key, later):
            return
        del self._learners[_learner_key(case)]
        if not self._learners:
            keras.backend.clear_session()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)


def _host_seconds(learner: Learner, data: tf.data.Dataset, step_seconds: float) -> float:
    """Return the median time of an epoch in addition to its steps; 0 where steps are slow.

    The workers agreed on the steps per call, so all of them measure, or none does.
    """
    if learner.steps_per_call < MIN_STEPS_PER_CALL:
        return 0.0
    timer = EpochTimerCallback()
    tuner = StepsPerCallTuner(tf.distribute.get_strategy(), SHORT_EPOCH_STEPS)
    learner.fit(
        data, epochs=SHORT_EPOCHS, steps_per_epoch=SHORT_EPOCH_STEPS, callbacks=[tuner, timer],
        verbose=0,
    )  # fmt: skip
    return max(0.0, statistics.median(timer.seconds) - SHORT_EPOCH_STEPS * step_seconds)


def _learner_key(case: BenchmarkCase) -> LearnerKey:
    """Return what the learner of a case depends on: everything but the batch and the values."""
    settings = case.settings.replace(batch=None)
    return replace(case, settings=settings, seconds=0.0, data=""), _micro_batch_count(case)


def _micro_batch_count(case: BenchmarkCase) -> int | None:
    return micro_batch_count(case.settings.replace(data=case.data))


def _reset_peak_memory() -> None:
    # Elsewhere, or with a read-only /proc, the peak counts from the start of the process.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory_bytes() -> int:
    """Return the peak resident memory since `_reset_peak_memory`, in bytes."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
