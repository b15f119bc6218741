"""Checks of MODEL=kernel, whose training is a kernel matrix and a fit without steps."""

from common.settings.groups.experiment import KERNEL, STATE_QUBITS, DataSettings, ModelSettings
from common.settings.groups.training import TrainingSettings
from qfleet.devices.calibration import short_name


def check_kernel(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check that a quantum kernel has the other settings.

    Raises:
        ValueError: A setting does not fit MODEL=kernel.
    """
    if model.model != KERNEL:
        return
    if data.encoder == "reupload":
        raise ValueError(
            f"ENCODER=reupload does not fit MODEL={KERNEL}, whose circuit has a qubit for each"
            " feature: set ENCODER=angle or pca"
        )
    if model.qubits > STATE_QUBITS:
        raise ValueError(
            f"QUBITS={model.qubits} is more than {STATE_QUBITS}, the most for MODEL={KERNEL}, which"
            " compares states: lower QUBITS"
        )
    if other := _excluded(model, data, training):
        raise ValueError(
            f"{other} does not fit MODEL={KERNEL}, whose states are exact and whose fit has no"
            f" steps: omit {other.partition('=')[0]}"
        )


def _excluded(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> str:
    """Return a setting that a kernel does not have; empty without one."""
    return (
        f"SIMULATOR={model.simulator}" * (model.simulator != "qfleet")
        or f"METHOD={model.method}" * (model.method not in ("auto", "state_vector"))
        or f"NOISE={short_name(model.noise)}" * model.has_noise
        or f"SAMPLER={model.sampler}" * bool(model.sampler)
        or f"SHOTS={model.shots}" * model.has_shots
        or f"STATE_SHARDS={training.state_shards}" * (training.state_shards > 1)
        or f"PRUNE={training.prune:g}" * (training.prune > 0)
        or f"LOSS={training.loss}" * bool(training.loss)
        or f"CLASS_WEIGHTS={data.class_weights}" * bool(data.class_weights)
    )
