"""Checks of TARGET=slurm against other settings."""

from common.settings.fields import AUTO
from common.settings.groups import JobSettings, MonitoringSettings, SlurmSettings, TrainingSettings


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
    if len(slurm.port_range) <= workers:
        raise ValueError(
            f"PORTS={slurm.ports} has fewer than the {workers + 1} ports of WORKERS={workers}:"
            " choose a larger range"
        )
    if training.state_shards > 1:
        raise ValueError(
            f"STATE_SHARDS={training.state_shards} can't be used with TARGET=slurm: shards exchange"
            " states over TensorFlow's server, which has no authentication; omit STATE_SHARDS"
        )
    if monitoring.profiler_port:
        raise ValueError(
            f"PROFILER_PORT={monitoring.profiler_port} can't be used with TARGET=slurm:"
            " TensorFlow's profiler has no authentication; use PROFILE_STEPS"
        )
