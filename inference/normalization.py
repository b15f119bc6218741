"""Statistics of normalised readouts under another noise than that of the training."""

from typing import TYPE_CHECKING

from common.errors import DataError
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras

EXAMPLES = 1024
"""Training examples whose readouts are computed, at most."""


def adapt(model: "keras.Model", source: ModelSource, inputs: InferenceInput) -> None:
    """Compute the statistics of readouts again, if the noise is not that of the training.

    They are those of training examples, and so the same for all chunks and workers.

    Raises:
        DataError: The training examples are missing.
    """
    from common import models
    from common.models.normalization import readout_normalization

    layer = readout_normalization(model)
    if layer is None or not source.has_other_noise:
        return
    if inputs.data is None:
        raise DataError(
            "NOISE, SHOTS or SAMPLER differ from those of the training, so that NORMALIZE_READOUTS"
            f" needs training examples, and {inputs.missing}"
        )
    readouts = models.readout_model(model)
    assert readouts is not None
    train = inputs.data.sample("train", EXAMPLES)
    layer.adapt(readouts.predict(train.angles, verbose=0))
