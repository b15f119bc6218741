"""Checks of TASK=gate, which finds a pulse of a device and simulates no circuit."""

from common.commands import command
from common.errors import SettingsError
from common.settings.device_checks import ANY_DEVICE
from common.settings.groups.experiment import GATE, PULSE, DataSettings, ModelSettings
from common.settings.groups.training import TrainingSettings
from qfleet.devices.calibration import INLINE, short_name


def check_gate(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check that the pulse of a gate has the other settings, and examples two qubits.

    Raises:
        ValueError: A setting does not fit TASK.
    """
    if data.task != GATE:
        if model.qubits < 2 and data.task in ("classification", "regression"):
            raise ValueError(f"QUBITS={model.qubits} does not fit TASK={data.task}: set 2 or more")
        return
    if model.model != PULSE:
        raise ValueError(
            f"MODEL={model.model} does not fit TASK={GATE}, which finds a pulse: omit MODEL"
        )
    if model.has_noise and not model.noise.startswith(INLINE):
        raise ValueError(_needs_device(f"NOISE={short_name(model.noise)} has no qubits"))
    if other := _excluded(model, data, training):
        raise ValueError(
            f"{other} does not fit TASK={GATE}, which simulates the device of NOISE without"
            f" circuits and examples: omit {other.partition('=')[0]}"
        )


def require_device(model: ModelSettings, data: DataSettings) -> None:
    """Raise if TASK=gate has no device. Inference takes that of the training.

    Raises:
        SettingsError: NOISE is not set.
    """
    if data.task == GATE and not model.has_noise:
        raise SettingsError(_needs_device(f"TASK={GATE} needs a device"))


def _needs_device(reason: str) -> str:
    return (
        f"{reason}: set NOISE to the YAML file of a calibration with frequencies, or to a name from"
        f" `{command('calibrate')}`"
    )


def _excluded(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> str:
    """Return a setting that a pulse does not have; empty without one."""
    return (
        f"SIMULATOR={model.simulator}" * (model.simulator != "qfleet")
        or f"METHOD={model.method}" * (model.method != "auto")
        or f"DEVICE={model.device}" * (model.device not in ANY_DEVICE)
        or f"LAYERS={model.layers}" * (model.layers > 0)
        or f"SAMPLER={model.sampler}" * bool(model.sampler)
        or f"SHOTS={model.shots}" * model.has_shots
        or f"TRAJECTORIES={model.trajectories}" * bool(model.trajectories)
        or f"STATE_SHARDS={training.state_shards}" * (training.state_shards > 1)
        or f"PRUNE={training.prune:g}" * (training.prune > 0)
        or f"LOSS={training.loss}" * bool(training.loss)
        or f"ID_COLUMN={data.id_column}" * bool(data.id_column)
    )
