"""The fidelity of a model's circuits under NOISE, before any training."""

from typing import TYPE_CHECKING

import cirq
import numpy as np

from common.model_circuits import NO_NOISE
from common.settings import Settings
from qfleet.circuits import add_noise
from qfleet.compiler.circuit.plain_operations import bind
from qfleet.devices import map_to_device, predict_fidelity
from qfleet.devices.calibration import INLINE
from qfleet.devices.fidelity import product_of_fidelities
from qfleet.devices.lines import inline_calibration
from qfleet.noise_rates import parse_rates

if TYPE_CHECKING:
    from common.data.target import Target
    from qfleet.tensorflow.layers import TrainedCircuit


def lowest_fidelity(
    settings: Settings, features: int, placement: str, target: "Target"
) -> float | None:
    """Return the lowest predicted fidelity of the model's circuits, at random angles.

    Args:
        settings: Settings of the training.
        features: As of `models.build_model`.
        placement: Likewise.
        target: Likewise.

    Returns:
        The fidelity with the ideal state, before the readout; None without NOISE.
    """
    if not settings.model.has_noise:
        return None
    from common import models  # TensorFlow

    ideal = settings.replace(noise=NO_NOISE)
    model = models.build_model(features, ideal, placement, target)
    return min(_fidelity(layer, settings.model.noise) for layer in models.circuit_layers(model))


def _fidelity(layer: "TrainedCircuit", noise: str) -> float:
    if not noise.startswith(INLINE):
        return product_of_fidelities(add_noise(layer.circuit, parse_rates(noise)))
    names = sorted(cirq.parameter_names(layer.circuit))
    angles = np.random.Generator(np.random.PCG64(0)).uniform(-np.pi, np.pi, len(names))
    device = inline_calibration(noise)
    mapped = map_to_device(layer.circuit, device, layer.observables)
    bound = bind(mapped.circuit, dict(zip(names, angles, strict=True)))
    return predict_fidelity(bound, device)
