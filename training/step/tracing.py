"""Traces of TensorFlow: which models need AutoGraph."""

from qfleet.tensorflow.runtime import keras

_WITHOUT = ("tf_keras.", "keras.", "qfleet.")


def needs_autograph(model: keras.Model) -> bool:
    """Return True if a layer of the model has code of its user, which may branch on tensors.

    AutoGraph rewrites all functions that are called in a trace, which takes most of its time.
    """
    return any(
        isinstance(layer, keras.layers.Lambda) or not type(layer).__module__.startswith(_WITHOUT)
        for layer in [model, *model.submodules]
        if isinstance(layer, keras.layers.Layer)
    )
