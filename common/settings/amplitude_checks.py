"""Checks of ENCODER=amplitude, whose examples are initial states of the circuits."""

from common.settings.groups.experiment import (
    GATE,
    MODELS,
    VARIATIONAL_TASKS,
    DataSettings,
    ModelSettings,
)
from common.settings.groups.training import TrainingSettings
from qfleet.devices.calibration import INLINE, short_name

AMPLITUDE_ENCODERS = ("amplitude", "amplitude-norm")
"""Values of ENCODER whose examples are states."""

MAX_STATE_QUBITS = 15
"""Most qubits: a shard has a column per amplitude, and a reader needs 10 KB for each column."""


def check_amplitudes(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check that the model can start at a state per example.

    Data sets in a folder may have states without ENCODER, so this is also called for them.

    Raises:
        ValueError: A setting excludes it.
    """
    named = data.encoder if data.encoder in AMPLITUDE_ENCODERS else "amplitude"
    encoder = f"ENCODER={named}"
    if data.task in (*VARIATIONAL_TASKS, GATE):
        raise ValueError(
            f"{encoder} does not fit TASK={data.task}, which has no features: omit ENCODER"
        )
    if model.model not in MODELS:
        raise ValueError(
            f"{encoder} does not fit MODEL={model.model}, whose inputs are angles: set"
            f" MODEL={' or '.join(MODELS)}, or use another ENCODER"
        )
    if model.qubits > MAX_STATE_QUBITS:
        raise ValueError(
            f"QUBITS={model.qubits} is more than {MAX_STATE_QUBITS}, the most for"
            f" {encoder}, whose rows have 2^QUBITS numbers: lower QUBITS"
        )
    if other := _excluded(model, training):
        raise ValueError(
            f"{encoder} can't be used with {other}, where circuits can't start at a state"
            " per example: omit one"
        )


def _excluded(model: ModelSettings, training: TrainingSettings) -> str:
    """Return a setting that has no state per example; empty without one."""
    is_device = model.noise.startswith(INLINE)
    return (
        f"SIMULATOR={model.simulator}" * (model.simulator == "tfq")
        or f"METHOD={model.method}" * (model.method not in ("auto", "state_vector"))
        or f"SAMPLER={model.sampler}" * bool(model.sampler)
        or f"GRADIENT={model.gradient}" * (model.gradient == "noiseless")
        or (f"NOISE={short_name(model.noise)}" if is_device else "")
        or f"PRUNE={training.prune:g}" * (training.prune > 0)
    )
