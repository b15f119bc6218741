"""Keras models over circuits: hybrid, qcnn, multi-filter, or the person's own module:factory.

A model takes angles float32 [B, features] in radians and answers float32 [B, 1], whose sign is the
class. What it is made from is recorded as JSON (`describe`), from which inference rebuilds it.
"""

from collections.abc import Iterator
from typing import Any

from common.errors import WeightsError
from common.models import user_model
from common.settings import Settings
from qfleet.circuits import ModelCircuit, hybrid_layers, qcnn
from qfleet.circuits.circuit_json import to_json
from qfleet.errors import LibraryError
from qfleet.tensorflow.layers import Expectation, PauliReadouts
from qfleet.tensorflow.runtime import keras, tf


def build_model(features: int, settings: Settings, encoder: str = "angle") -> keras.Model:
    """The model that the settings name, with its first weights drawn by SEED.

    Args:
        features: Angles per example, the width of the model's input.
        settings: MODEL, QUBITS, ACTIVATION, FILTERS, SIMULATOR and SEED are read.
        encoder: Where the angles enter the circuit: what the data set's encoding recorded.

    Raises:
        SettingsError: MODEL names a factory that can't be imported, fails, makes no model, or
            makes one that fails when it is called.
    """
    if ":" in settings.model.model:
        return user_model.build_user_model(features, settings)
    inputs = keras.Input((features,), name="angles")
    if settings.model.model == "qcnn":
        outputs = _readouts(inputs, settings, encoder, layers=None)
    elif settings.model.model == "hybrid":
        outputs = _head(_readouts(inputs, settings, encoder), settings)
    else:
        filters = [
            _readouts(inputs, settings, encoder, index=i) for i in range(settings.model.filters)
        ]
        together = filters[0] if len(filters) == 1 else keras.layers.Concatenate()(filters)
        outputs = _head(together, settings)
    return keras.Model(inputs, outputs, name=settings.model.model.replace("-", "_"))


def _readouts(
    inputs: Any, settings: Settings, encoder: str, *, index: int = 0, layers: int | None = -1
) -> Any:
    """The readouts of one QCNN, cut as the hybrid is unless `layers` says otherwise."""
    made: ModelCircuit = qcnn(
        settings.model.qubits,
        layers=hybrid_layers(settings.model.qubits) if layers == -1 else layers,
        encoder=encoder,
        features=inputs.shape[-1],
        prefix=f"f{index}_" if index else "",
    )
    layer = Expectation(
        made.circuit,
        made.inputs,
        made.observables,
        parameters=made.parameters,
        backend=settings.model.simulator,
        seed=settings.data.seed * 1009 + index,
        name=f"circuit_{index}",
    )
    return layer(inputs)


def _head(readouts: Any, settings: Settings) -> Any:
    """Dense(8), then Dense(1): the tutorial's head; the activation stands between them."""

    def drawn(index: int) -> Any:
        return keras.initializers.GlorotUniform(seed=settings.data.seed * 1009 + 500 + index)

    hidden = keras.layers.Dense(
        8, settings.model.activation, kernel_initializer=drawn(0), name="hidden"
    )
    return keras.layers.Dense(1, kernel_initializer=drawn(1), name="answer")(hidden(readouts))


def circuit_layers(model: keras.Model) -> Iterator[PauliReadouts]:
    """The model's layers that read circuits with trained angles, in order."""
    for layer in model.submodules:
        if isinstance(layer, PauliReadouts):
            yield layer


def readout_model(model: keras.Model) -> keras.Model | None:
    """The part of the model that gives the readouts float32 [B, readouts] of all its circuits.

    None where that can't be told from outside: a model without circuits, or a subclassed one.
    """
    found = list(circuit_layers(model))
    if not found or not getattr(model, "_is_graph_network", False):
        return None
    try:
        outputs = [layer.output for layer in found]
    except (AttributeError, ValueError):
        return None
    together = outputs[0] if len(outputs) == 1 else keras.layers.Concatenate()(outputs)
    return keras.Model(model.inputs, together)


def describe_model(model: keras.Model, features: int, settings: Settings, encoding: Any) -> dict:
    """What model.json holds: all that is needed to rebuild the model and to read its circuits.

    Args:
        model: A model whose weights are trained.
        features: Angles per example.
        settings: The run's settings.
        encoding: The data set's encoding as JSON, which inference applies to new examples.
    """
    return {
        "format": 1,
        "settings": settings.identity(),
        "features": features,
        "encoding": encoding,
        "weights": [list(weight.shape) for weight in model.weights],
        "circuits": [
            {
                "name": layer.name,
                "circuit": to_json(layer.circuit),
                "inputs": list(layer.inputs),
                "parameters": list(layer.parameters),
                "readouts": [str(observable) for observable in layer.observables],
                "trained": {
                    name: float(value)
                    for name, value in zip(layer.parameters, layer.angles.numpy(), strict=True)
                },
            }
            for layer in circuit_layers(model)
        ],
    }


def rebuild(described: dict, weights: str | None = None) -> keras.Model:
    """The model that `describe` recorded, with the weights of a local HDF5 file.

    Args:
        described: The content of model.json.
        weights: A local path of a weights.h5; the first weights stay where it is None.

    Raises:
        WeightsError: model.json is not one of ours, or the weights belong to another model.
    """
    try:
        said = described["settings"]
        settings = Settings.from_record(said)
        model = build_model(described["features"], settings, described["encoding"]["placement"])
    except LibraryError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"model.json does not describe a model: {error}") from None
    if not model.built:  # a subclassed model has no weights to load into before its first call
        model(tf.zeros([1, described["features"]]))
    if weights is None:
        return model
    try:
        model.load_weights(weights)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise WeightsError(f"{weights} does not hold weights of this model: {reason}") from None
    return model
