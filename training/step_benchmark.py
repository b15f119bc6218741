"""The measurement of a probe: one case built, warmed up, and trained at a steady pace."""

import contextlib
import ctypes
import functools
import gc
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import psutil

from common.data import Dataset, Examples, WorkerSampler, sampling
from common.processes import cpu_count
from qfleet.tensorflow.runtime import keras, tf
from training import distributed
from training.cluster import ClusterSpec
from training.input_pipeline import batches
from training.learner import STEP_PARTS
from training.trainer import StepsPerCallTuner

if TYPE_CHECKING:
    from common.settings import Settings
    from training.step_benchmark_worker import BenchmarkCase


class SyntheticDataset:
    """Examples in memory, as a data set gives them.

    Args:
        settings: QUBITS, PARTITIONS, SEED and the batch are read.
        data: `turned` turns every qubit of an example, `excitations` one.
    """

    placement = "cluster"

    def __init__(self, settings: "Settings", data: str) -> None:
        # Enough batches that an epoch's order is made seldom, as in training.
        self._rows = settings.training.global_batch * max(
            4, min(64, 65_536 // settings.training.global_batch)
        )
        self._seed, self._data = settings.data.seed, data
        self.features = settings.model.qubits
        self.lane_sizes = sampling.partition_sizes(self._rows, settings.data.partitions)

    @functools.cached_property
    def examples(self) -> Examples:
        """Its rows; a learner is made for them without."""
        rows = self._rows
        generator = np.random.Generator(np.random.PCG64([self._seed, rows]))
        angles = generator.uniform(-np.pi, np.pi, (rows, self.features)).astype("f4")
        if self._data == "excitations":
            turned = generator.integers(self.features, size=rows)
            angles *= np.arange(self.features) == turned[:, None]
        labels = np.where(generator.random(rows) < 0.5, 1, -1).astype("f4")
        return Examples(angles, labels)


class StepTimerCallback(keras.callbacks.Callback):
    """Lets a fit run until it is steady, then for so many steps as take about `seconds`.

    Args:
        strategy: The workers that begin together and do the same number of steps.
        seconds: How long, about.
        warm: Calls until one tells how long a call takes; another one, where this is 2 or more and
            a call is a loop of several steps.
    """

    def __init__(self, strategy: tf.distribute.Strategy, seconds: float, warm: int) -> None:
        super().__init__()
        self._strategy, self._for, self._warm = strategy, seconds, warm
        self._calls = self._left = 0
        self.steps, self.first = 0, 0.0

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Start the clock of what comes before the first step."""
        self._began = time.monotonic()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the clock of a call."""
        if self._calls:
            self._began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Count a call; agree after the warm ones; stop after the last."""
        took = time.monotonic() - self._began
        self._calls += 1
        if self._calls == 1:
            self.first = took
        if self._left:
            self._left -= 1
            if not self._left:
                self._end = self._now()
                self.model.stop_training = True
            return
        # A new loop of several steps takes a call of its own to get warm.
        if self._calls < self._warm + (self._warm > 1 and self.model.steps_per_call > 1):
            return
        mean = (
            distributed.all_reduce_scalar(self._strategy, took)
            / self._strategy.num_replicas_in_sync
        )
        self._left = max(1, round(self._for / mean))
        self.steps = self._left * self.model.steps_per_call
        self._start = self._now()

    def _now(self) -> tuple[float, float, np.ndarray, float]:
        return time.monotonic(), time.process_time(), self.model.times, self.model.waited

    @property
    def measured(self) -> dict[str, Any]:
        """Seconds, processor seconds, and milliseconds a step: by PARTS, and of waiting."""
        parts = self._end[2] - self._start[2]
        return {
            "steps": self.steps,
            "seconds": self._end[0] - self._start[0],
            "cpu_seconds": self._end[1] - self._start[1],
            "step_ms": dict(zip(STEP_PARTS, (1e3 * parts / self.steps).tolist(), strict=True)),
            "wait_ms": 1e3 * max(0.0, self._end[3] - self._start[3]) / self.steps,
        }


class StepBenchmark:
    """One worker that measures cases.

    Args:
        settings: Those of the process: THREADS, SEED.
        cluster: Who is in the gang; all must be there.
    """

    def __init__(self, settings: "Settings", cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self._threads = settings.training.threads or cpu_count()
        alone = tf.distribute.get_strategy()
        more = {"threads": self._threads}
        self._gang = distributed.create_strategy(settings.replace(**more), cluster)
        self._strategies = {"": self._gang, "all": alone, "first": alone}
        # The processor's, so that neither neighbours nor waiting for peers or cases count.
        self._start_seconds = sum(psutil.Process().cpu_times()[:2])
        self._built: dict[tuple[Any, str], tuple[Any, float]] = {}
        # By case: what its learner is fed, and the steps of a call that the first turn found.
        self._feeds: dict[BenchmarkCase, Any] = {}
        self._steps: dict[BenchmarkCase, int] = {}

    def measure(
        self, case: "BenchmarkCase", later: Sequence["BenchmarkCase"]
    ) -> dict[str, Any] | None:
        """What a case takes; None where this worker has no part in it.

        Args:
            case: The case.
            later: Those that come after it.
        """
        line = None
        if case.alone != "first" or self._cluster.is_chief:
            line = self._measure(case)
            self._drop(case, later)
        if case.alone == "first":
            distributed.all_reduce_scalar(self._gang, 0.0)
        return line

    def _measure(self, case: "BenchmarkCase") -> dict[str, Any]:
        settings = case.settings
        _forget_peak()
        began = time.monotonic()
        learner, build_seconds = self._learner(case)
        feed = self._feed(case)
        build_seconds = build_seconds or time.monotonic() - began
        known = case in self._steps
        chosen = self._steps.get(case, settings.training.steps_per_call)
        together = self._strategies["first"] if case.alone == "first" else self._gang
        warm = 1 if known else 2 if chosen else StepsPerCallTuner.MEASURED[-1]
        watch = StepTimerCallback(together, case.seconds, warm)
        pace = StepsPerCallTuner(together, chosen)
        learner.fit(feed, steps_per_epoch=2**40, callbacks=[pace, watch], verbose=0)
        measured = watch.measured
        self._steps[case] = learner.steps_per_call
        if not self._built[_kind(case)][1]:  # the first call of a learner makes the graph
            build_seconds += watch.first
            self._built[_kind(case)] = learner, build_seconds
        return {
            "rank": self._cluster.rank,
            "workers": settings.training.workers,
            "qubits": settings.model.qubits,
            "batch": settings.training.global_batch,
            "threads": self._threads,
            "split": settings.training.state_shards,
            "alone": case.alone,
            "data": case.data,
            "steps_per_call": learner.steps_per_call,
            **measured,
            "examples_per_second": settings.training.global_batch
            * watch.steps
            / measured["seconds"],
            "start_seconds": self._start_seconds,
            "build_seconds": build_seconds,
            "rss_bytes": _peak(),
            "cores": _cores(),
        }

    def _learner(self, case: "BenchmarkCase") -> tuple[Any, float]:
        """The learner, and the seconds until its first step was done: 0 where it is yet to come."""
        kind = _kind(case)
        if kind not in self._built:
            made = cast(Dataset, SyntheticDataset(case.settings, case.data))
            strategy = self._strategies[case.alone]
            self._built[kind] = (
                distributed.build_learner(strategy, self._cluster, made, case.settings),
                0.0,
            )
        return self._built[kind]

    def _feed(self, case: "BenchmarkCase") -> Any:
        """What the learner is fed: batches of any size, so that its graph is made once."""
        if case not in self._feeds:
            settings, made = case.settings, SyntheticDataset(case.settings, case.data)
            share = WorkerSampler(
                made.lane_sizes,
                rank=0 if case.alone else self._cluster.rank // settings.training.state_shards,
                world=settings.training.workers // settings.training.state_shards,
                batch=settings.training.global_batch,
                seed=settings.data.seed,
            )
            self._feeds[case] = batches(made.examples, share, any_size=True)
        return self._feeds[case]

    def _drop(self, case: "BenchmarkCase", later: Sequence["BenchmarkCase"]) -> None:
        """Free what no later case wants, so that a case's memory is its own."""
        if case not in later:
            del self._feeds[case]
        if _kind(case) in map(_kind, later):
            return
        del self._built[_kind(case)]
        if not self._built:
            keras.backend.clear_session()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)


def _kind(case: "BenchmarkCase") -> tuple[Any, str]:
    """What a case's learner depends on: all but the batches."""
    free = {"batch": None, "batch_per_worker": None}
    return case.settings.replace(**free), case.alone


def _cores() -> Sequence[int]:
    """The cores that this process may run on, by number."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _forget_peak() -> None:
    with contextlib.suppress(OSError):  # not Linux, or /proc is read-only: the peak since the start
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most memory that this process held since `_forget_peak`, bytes."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
