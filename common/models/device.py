"""The device of a model's circuits."""

from common.models import circuit_layers
from qfleet.engine import devices
from qfleet.tensorflow.engine_simulator import EngineSimulator
from qfleet.tensorflow.runtime import keras


def device_of_circuits(model: keras.Model) -> str:
    """Return the names of the devices of a model's circuits; empty for those of TensorFlow.

    Args:
        model: Any model with layers of qfleet.
    """
    simulators = [layer.simulator for layer in circuit_layers(model)]
    engines = [getattr(one, "backward", one) for one in simulators]  # of robust training
    found = {one.device for one in engines if isinstance(one, EngineSimulator)}
    return " and ".join(devices.title(one) for one in sorted(found, key=str))
