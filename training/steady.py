"""The measurement of a probe: one case built, warmed up, and trained at a steady pace."""

import contextlib
import ctypes
import gc
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import psutil

from common.data import Dataset, Examples, Share, order
from common.simulator import memory
from common.tensorflow import keras, tf
from training import computing
from training.cluster import Cluster
from training.fit import Pace
from training.input import batches, distributed
from training.learner import PARTS

if TYPE_CHECKING:
    from common.settings import Settings
    from training.probe import Case


class Made:
    """Examples in memory, as a data set gives them.

    Args:
        settings: QUBITS, LANES, SEED and the batch are read.
        data: `turned` turns every qubit of an example, `excitations` one.
    """

    placement = "cluster"

    def __init__(self, settings: "Settings", data: str) -> None:
        # Enough batches that an epoch's order is made seldom, as in training.
        rows = settings.global_batch * max(4, min(64, 65_536 // settings.global_batch))
        generator = np.random.Generator(np.random.PCG64([settings.seed, rows]))
        angles = generator.uniform(-np.pi, np.pi, (rows, settings.qubits)).astype("f4")
        if data == "excitations":
            turned = generator.integers(settings.qubits, size=rows)
            angles *= np.arange(settings.qubits) == turned[:, None]
        labels = np.where(generator.random(rows) < 0.5, 1, -1).astype("f4")
        self.features = settings.qubits
        self.examples = Examples(angles, labels)
        self.lane_sizes = order.lane_sizes(rows, settings.lanes)


class Stopwatch(keras.callbacks.Callback):
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
        mean = computing.exchange(self._strategy, took) / self._strategy.num_replicas_in_sync
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
            "step_ms": dict(zip(PARTS, (1e3 * parts / self.steps).tolist(), strict=True)),
            "wait_ms": 1e3 * max(0.0, self._end[3] - self._start[3]) / self.steps,
        }


class Probe:
    """One worker that measures cases.

    Args:
        settings: Those of the process: THREADS, SEED.
        cluster: Who is in the gang; all must be there.
    """

    def __init__(self, settings: "Settings", cluster: Cluster) -> None:
        self._cluster = cluster
        self._threads = settings.threads or memory.cores()
        alone = tf.distribute.get_strategy()
        more = {"threads": self._threads}
        self._gang = computing.strategy(settings.model_copy(update=more), cluster)
        self._strategies = {"": self._gang, "all": alone, "first": alone}
        self._start_seconds = time.time() - psutil.Process().create_time()
        self._built: dict[Any, tuple[Any, Any, float]] = {}

    def measure(self, case: "Case", *, last: bool) -> dict[str, Any] | None:
        """What a case takes; None where this worker has no part in it.

        Args:
            case: The case.
            last: Whether its model is not wanted again.
        """
        line = None
        if case.alone != "first" or self._cluster.is_chief:
            line = self._measure(case)
            if last:
                self._drop(case)
        if case.alone == "first":
            computing.exchange(self._gang, 0.0)
        return line

    def _measure(self, case: "Case") -> dict[str, Any]:
        settings = case.settings
        _forget_peak()
        known = case in self._built
        learner, feed, build_seconds = self._build(case)
        # The first turn finds out how many steps a call takes; the later ones go on with that.
        chosen = learner.steps_per_call if known else settings.steps_per_call
        together = self._strategies["first"] if case.alone == "first" else self._gang
        warm = 1 if known else 2 if chosen else Pace.MEASURED[-1]
        watch = Stopwatch(together, case.seconds, warm)
        pace = Pace(together, chosen)
        learner.fit(feed, steps_per_epoch=2**40, callbacks=[pace, watch], verbose=0)
        measured = watch.measured
        if not known:  # the first call traces the graph
            build_seconds += watch.first
            self._built[case] = learner, feed, build_seconds
        return {
            "rank": self._cluster.rank,
            "workers": settings.workers,
            "qubits": settings.qubits,
            "batch": settings.global_batch,
            "threads": self._threads,
            "split": settings.split,
            "alone": case.alone,
            "data": case.data,
            "steps_per_call": learner.steps_per_call,
            **measured,
            "examples_per_second": settings.global_batch * watch.steps / measured["seconds"],
            "start_seconds": self._start_seconds,
            "build_seconds": build_seconds,
            "rss_bytes": _peak(),
            "cores": _cores(),
        }

    def _build(self, case: "Case") -> tuple[Any, Any, float]:
        """The learner, what it is fed, and the seconds that took; those of before, if kept."""
        if case in self._built:
            return self._built[case]
        began = time.monotonic()
        strategy, settings = self._strategies[case.alone], case.settings
        made = Made(settings, case.data)
        learner = computing.learner(strategy, self._cluster, cast(Dataset, made), settings)
        share = Share(
            made.lane_sizes,
            rank=0 if case.alone else self._cluster.rank // settings.split,
            world=settings.workers // settings.split,
            batch=settings.global_batch,
            seed=settings.seed,
        )
        feed = distributed(strategy, batches(made.examples, share))
        self._built[case] = learner, feed, time.monotonic() - began
        return self._built[case]

    def _drop(self, case: "Case") -> None:
        """Free a case's memory, so that the next one's is its own."""
        del self._built[case]
        if not self._built:
            keras.backend.clear_session()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)


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
