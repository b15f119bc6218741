"""The Keras model of a ModelSource, with weights that match the recorded ones."""

from typing import TYPE_CHECKING

import numpy as np

from common.errors import WeightsError
from inference.model_source import ModelSource
from inference.predictor import rows_per_batch

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras

ANGLE_TOLERANCE = 1e-6


def load(source: ModelSource, batch: int | None = None) -> "keras.Model":
    """Build the model and load its weights. Imports TensorFlow.

    Args:
        source: The model.
        batch: BATCH, by which DEVICE=auto is decided.

    Raises:
        WeightsError: The weights are missing, altered, or those of another model.
        SettingsError: The model is a user model, and its factory is missing or fails.
    """
    from common import models
    from qfleet.engine import device_choice

    rows = rows_per_batch(0, batch)
    with source.local_weights() as weights, device_choice.use_batch(rows):
        model = models.rebuild(source.described, weights, source.code, source.weights)
    layers = models.circuit_layers(model)
    for layer, recorded in zip(layers, source.described["circuits"], strict=False):
        loaded = dict(zip(layer.parameters, layer.angles.numpy(), strict=True))
        _compare_angles(source, loaded, recorded)
    return model


def _compare_angles(source: ModelSource, loaded: dict[str, np.float32], recorded: object) -> None:
    """Raise if the trained angles are not those of model.json.

    This detects weights of another run that have the same shapes and no recorded digest.
    """
    angles = recorded.get("trained") if isinstance(recorded, dict) else None
    if not isinstance(angles, dict) or angles.keys() != loaded.keys():
        raise WeightsError(
            f"{source.weights.parent / 'model.json'} describes another circuit than the one built"
            " from its settings: restore the file or train again"
        )
    for name, angle in loaded.items():
        if not np.isclose(float(angles[name]), float(angle), rtol=0, atol=ANGLE_TOLERANCE):
            raise WeightsError(
                f"{source.weights} and model.json contain different angles ({name} is"
                f" {angle:.4f} and {angles[name]:.4f}), so the weights are from another run: use"
                " the weights and the model.json of the same run"
            )
