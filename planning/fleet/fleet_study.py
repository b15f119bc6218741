"""All simulations of one job with one kind of data."""

from common.settings import Settings
from planning.fleet import study
from planning.fleet.advice import advice
from planning.fleet.jobs import FleetJobs
from planning.fleet.simulation import Hazards


class FleetStudy:
    """All simulations with one kind of data.

    Args:
        data: Description of the data.
        jobs: Jobs by batch and number of workers.
        settings: BATCH, WORKERS (the largest number, if it is explicit), SEED, QUICK and the
            planning group are used.
    """

    def __init__(self, data: str, jobs: FleetJobs, settings: Settings) -> None:
        planning, training = settings.planning, settings.training
        self.data, self.jobs = data, jobs
        self.hazards = Hazards(
            planning.preemption_rate,
            planning.step_time_cv,
            planning.restart_seconds,
            planning.preemption_notice_fraction,
        )
        trials, seed = 100 if planning.quick else 400, settings.data.seed
        batch = training.global_batch
        self.points = study.sweep(
            jobs,
            jobs.batches(batch),
            self.hazards,
            planning.price_per_worker_hour,
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
