"""All simulations of one job with one kind of data."""

from common.settings import Settings
from common.settings.options import FleetOptions
from planning.fleet import study
from planning.fleet.advice import advice
from planning.fleet.jobs import FleetJobs
from planning.fleet.simulation import Hazards


class FleetStudy:
    """All simulations with one kind of data.

    Args:
        data: Description of the data.
        jobs: Jobs by batch and number of workers.
        settings: BATCH, WORKERS (the largest number, if it is explicit), SEED and
            PRICE_PER_WORKER_HOUR are used.
        options: Losses and step times, and the number of runs.
    """

    def __init__(
        self, data: str, jobs: FleetJobs, settings: Settings, options: FleetOptions
    ) -> None:
        training = settings.training
        self.data, self.jobs = data, jobs
        self.hazards = Hazards(
            options.preemption_rate,
            options.step_time_cv,
            options.restart_seconds,
            options.preemption_notice_fraction,
        )
        trials, seed = 100 if options.quick else 400, settings.data.seed
        batch = training.global_batch
        self.points = study.sweep(
            jobs,
            jobs.batches(batch),
            self.hazards,
            options.price_per_worker_hour,
            trials=trials,
            seed=seed,
            most=training.workers if "workers" in settings.explicit else study.MAX_WORKERS,
            data=data,
        )
        self.advised = study.advised_workers(self.points, batch)
        self.job = jobs(batch, self.advised.workers)
        counts = {self.advised.workers, *(n for n in (1, 16, 256) if n <= batch)}
        self.intervals = {
            workers: study.checkpoint_intervals(
                jobs(batch, workers), self.hazards, trials=10 * trials, seed=seed
            )
            for workers in sorted(counts)
        }

    def advice(self, price: float) -> list[str]:
        """Return sentences of advice."""
        intervals = self.intervals[self.advised.workers]
        return advice(self.points, self.advised, intervals, self.job, self.hazards, price)
