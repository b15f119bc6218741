"""Checks of noise, shots, samplers, normalised readouts and pruning against other settings."""

from collections.abc import Sequence

from common.errors import SettingsError
from common.settings.gate_checks import require_device
from common.settings.groups.experiment import (
    DENSE_MODELS,
    GATE,
    MODELS,
    PROBLEM_FILES,
    VARIATIONAL_TASKS,
    DataSettings,
    ModelSettings,
)
from common.settings.groups.inference import InferenceSettings
from common.settings.groups.training import TrainingSettings
from qfleet.devices.calibration import INLINE, short_name
from qfleet.devices.lines import inline_calibration, longest_line
from qfleet.errors import ArgumentError, NoiseError
from qfleet.noise_rates import parse_rates
from qfleet.zne_factors import parse_factors

MAX_NOISY_STATE_QUBITS = 6
"""Width of TASK=state with noise, whose 4**QUBITS Pauli words are all read."""


def check_forward(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check GRADIENT, SAMPLER, SHOTS and NORMALIZE_READOUTS against the other settings.

    Raises:
        ValueError: Two settings contradict each other.
    """
    if model.has_noiseless_gradient:
        _check_noiseless(model, data)
    if model.sampler:
        _check_sampler(model, training)
    widest = MAX_NOISY_STATE_QUBITS
    if data.task == "state" and model.is_noisy and model.qubits > widest:
        raise ValueError(
            f"QUBITS={model.qubits} is more than {widest}, the most for TASK=state with NOISE,"
            " SHOTS or SAMPLER, which reads all 4^QUBITS Pauli words: lower QUBITS"
        )
    if model.normalize_readouts:
        _check_normalized(model, data)


def check_noise(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check NOISE, and that circuits with noise or shots can be simulated.

    Raises:
        ValueError: NOISE is damaged, or two settings contradict each other.
    """
    if not model.has_noise and not model.has_shots:
        return
    name, value = ("NOISE", short_name(model.noise)) if model.has_noise else ("SHOTS", model.shots)
    setting = f"{name}={value}"
    if model.has_noise:
        try:
            if data.task == GATE:
                inline_calibration(model.noise)
            elif model.noise.startswith(INLINE):
                _check_device(model)
            else:
                parse_rates(model.noise)
        except NoiseError as error:
            raise ValueError(f"{setting}: {error}") from None
    if other := _other_engine(model, training):
        raise ValueError(
            f"{setting} can't be used with {other}, since it needs density matrices or"
            " trajectories of qfleet: omit one"
        )
    if ":" in model.model and data.task not in VARIATIONAL_TASKS:
        raise ValueError(
            f"{setting} does not reach into MODEL={model.model}: build it into the layers of"
            f" the model, or omit {name}"
        )


def require_noise_of_trajectories(model: ModelSettings) -> None:
    """Raise if TRAJECTORIES is given for circuits without noise.

    This is not a part of `Settings`: in inference, the noise may be that of the training.

    Raises:
        SettingsError: It is.
    """
    if model.trajectories and not model.has_noise:
        raise SettingsError(
            f"TRAJECTORIES={model.trajectories} has no noise to draw from: set NOISE, for example"
            " to depolarizing:0.01, or omit TRAJECTORIES"
        )


def require_trainable(model: ModelSettings, data: DataSettings) -> None:
    """Raise if a model can be evaluated, but not trained.

    This is not a part of `Settings`: inference may replace NOISE, SHOTS and SAMPLER.

    Raises:
        SettingsError: TRAJECTORIES is given without NOISE, SAMPLER for TASK=energy, or TASK=gate
            without a device.
    """
    require_noise_of_trajectories(model)
    require_device(model, data)
    if model.sampler and data.task == "energy":
        raise SettingsError(_linear_energy(f"SAMPLER={model.sampler}") + " in training")


def _linear_energy(name: str) -> str:
    return (
        f"{name} does not fit TASK=energy: the energy is linear in the readouts, so that its"
        f" noiseless gradient would ignore the noise: omit {name}"
    )


def check_zne(inference: InferenceSettings) -> None:
    """Check ZNE.

    Raises:
        ValueError: A factor is not allowed.
    """
    if not inference.zne:
        return
    try:
        parse_factors(inference.zne)
    except ArgumentError as error:
        raise ValueError(f"ZNE={inference.zne}: {error}") from None


def check_pruning(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check that angles can be dropped while training.

    Raises:
        ValueError: Two settings contradict each other.
    """
    prune = training.prune
    if not prune:
        return
    other = (
        _other_engine(model, training, methods=("auto", "state_vector", "subspace"))
        or f"SAMPLER={model.sampler}" * bool(model.sampler)
        or f"GRADIENT={model.gradient}" * (model.gradient == "noiseless")
    )
    if other:
        raise ValueError(f"PRUNE={prune:g} can't be used with {other}: omit one")
    if ":" in model.model and data.task not in VARIATIONAL_TASKS:
        raise ValueError(
            f"PRUNE={prune:g} does not reach into MODEL={model.model}: set MODEL="
            f"{' or '.join(MODELS)}, or omit PRUNE"
        )


def _other_engine(
    model: ModelSettings, training: TrainingSettings, methods: Sequence[str] = ("auto",)
) -> str:
    """Return a setting that chooses another simulator, method or process; empty if none does."""
    return (
        f"SIMULATOR={model.simulator}" * (model.simulator != "qfleet")
        or f"METHOD={model.method}" * (model.method not in methods)
        or f"STATE_SHARDS={training.state_shards}" * (training.state_shards > 1)
    )


def _check_noiseless(model: ModelSettings, data: DataSettings) -> None:
    if not model.is_noisy:
        raise ValueError(
            "GRADIENT=noiseless needs circuits that differ from those without noise: set NOISE,"
            " SHOTS or SAMPLER, or omit GRADIENT"
        )
    name = f"SAMPLER={model.sampler}" if model.sampler else "GRADIENT=noiseless"
    if data.task == "energy" and not model.sampler:
        raise ValueError(_linear_energy(name))
    if ":" in model.model and data.task not in VARIATIONAL_TASKS:
        raise ValueError(
            f"{name} does not reach into MODEL={model.model}: pass gradient_circuit and sampler to"
            f" its Expectation layers, and omit {name}"
        )


def _check_sampler(model: ModelSettings, training: TrainingSettings) -> None:
    sampler = f"SAMPLER={model.sampler}"
    if not model.has_shots:
        raise ValueError(f"{sampler} needs a number of measurements: set SHOTS=1000, for example")
    if other := "REPRODUCIBLE=true" * training.reproducible or _other_engine(model, training):
        raise ValueError(
            f"{sampler} can't be used with {other}, since it takes the place of the simulator:"
            " omit one"
        )


def _check_normalized(model: ModelSettings, data: DataSettings) -> None:
    other = f"TASK={data.task}" * (data.task in PROBLEM_FILES) or f"MODEL={model.model}" * (
        model.model not in DENSE_MODELS
    )
    if other:
        raise ValueError(
            f"NORMALIZE_READOUTS=true does not fit {other}, which has no dense head after its"
            f" readouts: set MODEL={' or '.join(DENSE_MODELS)}, or omit NORMALIZE_READOUTS"
        )


def _check_device(model: ModelSettings) -> None:
    """Check the calibration in NOISE, and that the circuit fits on the device.

    Raises:
        ValueError: The circuit is too wide.
        NoiseError: The calibration is damaged.
    """
    longest = longest_line(model.noise)
    # Inference uses the recorded width instead of the default one.
    if "qubits" in model.model_fields_set and model.qubits > longest:
        name = inline_calibration(model.noise).name
        raise ValueError(
            f"QUBITS={model.qubits} is more than {longest}, the longest line of qubits of"
            f" NOISE={name}: lower QUBITS, or use another device"
        )
