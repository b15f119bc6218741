"""Checks of DEVICE against other settings."""

from common.settings.groups.experiment import JobSettings, ModelSettings
from common.settings.groups.slurm import SlurmSettings
from common.settings.groups.training import TrainingSettings

ANY_DEVICE = ("auto", "cpu")
"""Values of DEVICE that every machine has."""

_SIMULATORS = {
    "tensorflow": "which uses the GPUs that TensorFlow finds by itself",
    "tfq": "which has no kernels for GPUs",
}


def check_device(
    job: JobSettings, model: ModelSettings, training: TrainingSettings, slurm: SlurmSettings
) -> None:
    """Check that the simulator and the target have DEVICE, and that SLURM_ARGS agree with it.

    Raises:
        ValueError: Two settings contradict each other.
    """
    if model.device in ANY_DEVICE:
        return
    name, shards = f"DEVICE={model.device}", training.state_shards
    if model.simulator != "qfleet":
        raise ValueError(
            f"{name} can't be used with SIMULATOR={model.simulator},"
            f" {_SIMULATORS[model.simulator]}: omit DEVICE, or use SIMULATOR=qfleet"
        )
    if shards > 1:
        raise ValueError(
            f"{name} can't be used with STATE_SHARDS={shards}, whose workers hold and exchange"
            " their shards on the CPU: omit one"
        )
    if job.target != "local" and ":" in model.device:
        raise ValueError(
            f"{name} can't be used with TARGET={job.target}, where each worker has a GPU of its"
            " own: set DEVICE=cuda"
        )
    if job.target == "slurm" and (option := _gpu_option(slurm)):
        raise ValueError(
            f"{option} in SLURM_ARGS contradicts {name}, which requests a GPU for each worker: omit"
            f" {option}, or set DEVICE=auto to use the GPUs that it requests"
        )


def _gpu_option(slurm: SlurmSettings) -> str:
    """Return an option of SLURM_ARGS that requests GPUs; empty if there is none."""
    for option in slurm.options:
        name, _, value = option.partition("=")
        # sbatch also takes the beginning of a name.
        if name.startswith("--gpus") or (
            name.startswith(("--gr", "--tres-per")) and "gpu" in value
        ):
            return name
    return ""
