"""Simulated jobs from the costs of a plan."""

from contextlib import suppress
from time import perf_counter

import numpy as np

from common import checkpoints, storage
from common.settings import Settings
from common.storage import StoragePath
from planning.costs import Costs, WorkerOption
from planning.fleet.hardware import ALL_REDUCE_BYTES, all_reduce_seconds
from planning.fleet.simulation import SimulatedJob, StepTiming

MEASURED_CHECKPOINTS = 5


class FleetJobs:
    """Jobs by batch and number of workers.

    A worker is a machine like this one (or a pod), with all its cores unless THREADS is set.

    Args:
        costs: Costs of the workload, with a machine per worker.
        settings: EPOCHS, THREADS, CHECKPOINT_INTERVAL and MAX_ATTEMPTS are used.
        checkpoint_seconds: Seconds to write a checkpoint.
    """

    def __init__(self, costs: Costs, settings: Settings, checkpoint_seconds: float) -> None:
        self._costs, self.checkpoint_seconds = costs, checkpoint_seconds
        self._epochs = settings.training.epochs
        self._interval = settings.checkpointing.checkpoint_interval
        self._max_attempts = settings.fault_tolerance.max_attempts
        self.threads = settings.training.threads or costs.machine.cores
        self.examples = costs.workload.train_examples
        # With the fewest rows, because the fitted time includes the wait for the slower worker.
        self._hop = costs.forecast(WorkerOption(2, 2, self.threads)).step.exchange
        self._bytes = max(ALL_REDUCE_BYTES, 4 * (costs.workload.weights + 4))

    def batches(self, batch: int) -> list[int]:
        """Return the given batch, and larger ones with enough examples."""
        return [b for b in (batch, 16 * batch, 256 * batch) if b == batch or b <= self.examples]

    def __call__(self, batch: int, workers: int) -> SimulatedJob:
        """Return the job of a whole run; its validation is spread over its steps."""
        steps = -(-self.examples // batch)
        rows = -(-self.examples // steps)  # per step; the last step of an epoch may have fewer
        forecast = self._costs.forecast(WorkerOption(workers, batch, self.threads))
        share = WorkerOption(1, -(-rows // workers), self.threads)
        step = self._costs.forecast(share).step
        overhead = max(forecast.epoch_seconds - steps * forecast.step.seconds, 0.0) / steps
        own = step.simulate + step.input + step.other
        shared = all_reduce_seconds(workers, self._hop, self._bytes) + overhead
        return SimulatedJob(
            workers,
            self._epochs,
            steps,
            StepTiming(own, shared),
            forecast.start_seconds,
            checkpoint_interval=min(self._interval, self._epochs),
            checkpoint_seconds=self.checkpoint_seconds,
            max_attempts=self._max_attempts,
        )


def measure_checkpoint_seconds(folder: StoragePath) -> float:
    """Return the median time to write a QCNN's checkpoint to a storage folder."""
    arrays = {f"{kind}/{i}": np.zeros(21, np.float32) for kind in "mo" for i in range(6)}
    seconds = []
    try:
        for step in range(MEASURED_CHECKPOINTS):
            started = perf_counter()
            checkpoints.save(folder / "trial", step, arrays, {"step": step}, keep=2)
            seconds.append(perf_counter() - started)
    finally:
        for path in storage.children(folder / "trial" / "checkpoints"):
            storage.delete(path)
        with suppress(OSError, AttributeError):
            for path in (folder / "trial" / "checkpoints", folder / "trial", folder):
                path.rmdir()
    return float(np.median(seconds))
