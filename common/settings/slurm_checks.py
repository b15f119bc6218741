"""Checks of TARGET=slurm against other settings."""

from common.settings.fields import AUTO
from common.settings.groups.experiment import JobSettings
from common.settings.groups.operations import MonitoringSettings
from common.settings.groups.slurm import SlurmSettings
from common.settings.groups.training import TrainingSettings

CHECKPOINT_SECONDS = 120
"""Time before TIME_LIMIT at which workers receive SIGTERM; the chief then saves a checkpoint."""


def time_limit_seconds(time_limit: str) -> int:
    """Return the seconds of a time limit as sbatch reads it: 90, 90:00, 1:30:00, 0-2 or 1-12:30."""
    days, dash, rest = time_limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if not dash and len(parts) < 3:  # minutes come first, else hours
        parts.insert(0, 0)
    return sum(
        int(number) * unit
        for number, unit in zip((days or 0, *parts), (86_400, 3_600, 60, 1), strict=False)
    )


def check_slurm(
    job: JobSettings,
    training: TrainingSettings,
    monitoring: MonitoringSettings,
    slurm: SlurmSettings,
) -> None:
    """Check what workers in Slurm can't do, and how they are divided among nodes.

    Raises:
        ValueError: Two settings contradict each other.
    """
    if job.target != "slurm":
        return
    workers = training.workers
    if workers != AUTO and workers % slurm.workers_per_node:
        raise ValueError(
            f"WORKERS={workers} is not a multiple of WORKERS_PER_NODE={slurm.workers_per_node}:"
            " change one of them"
        )
    if slurm.time_limit and time_limit_seconds(slurm.time_limit) <= CHECKPOINT_SECONDS:
        raise ValueError(
            f"TIME_LIMIT={slurm.time_limit} leaves no time before its last"
            f" {CHECKPOINT_SECONDS // 60} minutes, which are for a checkpoint: raise it"
        )
    if len(slurm.port_range) <= workers:
        raise ValueError(
            f"PORTS={slurm.ports} has fewer than the {workers + 1} ports of WORKERS={workers}:"
            " choose a larger range"
        )
    if monitoring.profiler_port:
        raise ValueError(
            f"PROFILER_PORT={monitoring.profiler_port} can't be used with TARGET=slurm:"
            " TensorFlow's profiler has no authentication; use PROFILE_STEPS"
        )
