"""The Keras model of a Source, its weights checked against what was recorded."""

from typing import TYPE_CHECKING

import numpy as np

from common.errors import WeightsError
from inference.model_source import ModelSource

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras


def load(source: ModelSource) -> "keras.Model":
    """Rebuild the model and give it its weights; imports TensorFlow.

    Raises:
        WeightsError: The weights are missing, altered, or those of another model.
        SettingsError: The model is the person's own, and its factory is gone or fails.
    """
    from common import models

    with source.local_weights() as weights:
        model = models.rebuild(source.described, str(weights))
    for layer, said in zip(
        models.circuit_layers(model), source.described["circuits"], strict=False
    ):
        _compare(source, dict(zip(layer.parameters, layer.angles.numpy(), strict=True)), said)
    return model


def _compare(source: ModelSource, loaded: dict[str, np.float32], said: dict) -> None:
    """Raise where the trained angles are not those that model.json wrote down.

    Weights of the same shapes, from another run, can be told by nothing else where there is no
    sha256 to compare.
    """
    told = said.get("trained") if isinstance(said, dict) else None
    if not isinstance(told, dict) or told.keys() != loaded.keys():
        raise WeightsError(
            f"{source.weights.parent / 'model.json'} describes another circuit than its settings"
            " make: restore the file or train again"
        )
    for name, angle in loaded.items():
        if not np.isclose(float(told[name]), float(angle), rtol=0, atol=1e-6):
            raise WeightsError(
                f"{source.weights} holds other angles than model.json beside it ({name} is"
                f" {angle:.4f}, not {told[name]:.4f}): they are another run's, so put the weights"
                " and the model.json of one run side by side"
            )
