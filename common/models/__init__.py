"""Keras models with circuits: hybrid, qcnn, multi-filter, or the user's own module:factory.

A model maps angles float32 [B, features] in radians to float32 [B, 1], whose sign is the class. Its
description is recorded as JSON (`describe_model`), from which inference rebuilds it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import WeightsError
from common.models import user_model
from common.settings import Settings
from qfleet.circuits import ModelCircuit, hybrid_layers, qcnn
from qfleet.circuits.circuit_json import to_json
from qfleet.tensorflow.layers import Expectation, PauliReadouts
from qfleet.tensorflow.runtime import keras, tf

FORMAT = 2
"""Version of model.json."""


def build_model(features: int, settings: Settings, encoder: str = "angle") -> keras.Model:
    """Build the model of the settings, with initial weights from SEED.

    Args:
        features: Angles per example, the width of the model's input.
        settings: The group model, and SEED; the user's own factory gets all settings.
        encoder: Entry point of the angles in the circuit, from the encoding of the data set.

    Raises:
        SettingsError: The user's factory can't be imported, fails, returns no Keras model, or one
            that fails when it is called.
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
    """Return the readouts of a QCNN; by default with the layers of the hybrid model."""
    circuit: ModelCircuit = qcnn(
        settings.model.qubits,
        layers=hybrid_layers(settings.model.qubits) if layers == -1 else layers,
        encoder=encoder,
        features=inputs.shape[-1],
        prefix=f"f{index}_" if index else "",
    )
    layer = Expectation(
        circuit.circuit,
        circuit.inputs,
        circuit.observables,
        parameters=circuit.parameters,
        simulator=settings.model.simulator,
        seed=settings.data.seed * 1009 + index,
        name=f"circuit_{index}",
    )
    return layer(inputs)


def _head(readouts: Any, settings: Settings) -> Any:
    """Return the head of the tutorial: Dense(8), activation, Dense(1)."""

    def initializer(index: int) -> Any:
        return keras.initializers.GlorotUniform(seed=settings.data.seed * 1009 + 500 + index)

    hidden = keras.layers.Dense(
        8, settings.model.activation, kernel_initializer=initializer(0), name="hidden"
    )
    return keras.layers.Dense(1, kernel_initializer=initializer(1), name="answer")(hidden(readouts))


def circuit_layers(model: keras.Model) -> Iterator[PauliReadouts]:
    """Yield the layers with trained circuits, in order."""
    for layer in model.submodules:
        if isinstance(layer, PauliReadouts):
            yield layer


def readout_model(model: keras.Model) -> keras.Model | None:
    """Return a model of the readouts float32 [B, readouts] of all circuits.

    None if the model has no circuits, or is a subclass whose structure is unknown.
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


def describe_model(
    model: keras.Model, features: int, settings: Settings, encoding: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of model.json, from which the model and its circuits are rebuilt.

    Args:
        model: A trained model.
        features: Angles per example.
        settings: Settings of the run.
        encoding: Encoding of the data set as JSON, which inference applies to new examples.
    """
    return {
        "format": FORMAT,
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


def rebuild(described: Mapping[str, Any], weights: str | None = None) -> keras.Model:
    """Rebuild a model from its description, with the weights of a local HDF5 file.

    Args:
        described: Content of model.json.
        weights: Local path of weights.h5; None leaves the initial weights.

    Raises:
        WeightsError: The description is invalid or of another version, or the weights belong to
            another model.
    """
    if described.get("format") != FORMAT:
        raise WeightsError(
            f"model.json has format {described.get('format')} and this version of qfleet reads"
            f" format {FORMAT}: train the model again"
        )
    try:
        settings = Settings.from_record(described["settings"])
        model = build_model(described["features"], settings, described["encoding"]["placement"])
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
        raise WeightsError(f"{weights} does not contain weights of this model: {reason}") from None
    return model
