"""Keras models with circuits: hybrid, qcnn, multi-filter, kernel, or the user's own module:factory.

A model maps angles float32 [B, features] in radians, or states float32 [B, 2**QUBITS] of norm 1
with ENCODER=amplitude, to the outputs of its target, float32 [B, outputs]; see `Target`. Its
description is recorded as JSON (`describe_model`), from which inference rebuilds it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from common import user_code, weights_file
from common.data.target import SIGNS, Target
from common.errors import DataError, WeightsError
from common.formats import MODEL_FORMAT
from common.found_circuits import found_head
from common.model_circuits import MAX_RECORDED_QUBITS, ModelProgram, compiled_circuits, sampling_of
from common.models import user_model
from common.models.ansatz import initial_angles
from common.models.kernel_machine import KernelShape, build_kernel_model, recorded_shape
from common.models.normalization import ReadoutNormalization
from common.models.pruning import prunable_circuits
from common.models.pulse_model import build_pulse_model
from common.models.samplers import sampler_arguments
from common.models.variational import build_variational_model
from common.settings import Settings
from common.settings.circuit_file import is_circuit, short_model
from common.settings.groups.experiment import KERNEL, NO_SHOTS
from common.storage import StoragePath
from qfleet.circuits.circuit_json import to_json
from qfleet.compiler.network.contraction_path import give_paths
from qfleet.compiler.network.path_cache import used_paths
from qfleet.errors import LibraryError
from qfleet.tensorflow.layers import Expectation, TrainedCircuit
from qfleet.tensorflow.runtime import keras, tf


def build_model(
    features: int,
    settings: Settings,
    encoder: str = "angle",
    target: Target = SIGNS,
    kernel: KernelShape | None = None,
) -> keras.Model:
    """Build the model of the settings, with initial weights from SEED.

    Args:
        features: Angles or amplitudes per example, the width of the model's input.
        settings: The group model, and SEED; the user's own factory gets all settings.
        encoder: Entry point of the angles in the circuit, from the encoding of the data set.
        target: What the model predicts.
        kernel: The fitted kernel, with MODEL=kernel.

    Raises:
        SettingsError: The user's factory can't be imported, fails, returns no Keras model, or one
            that fails when it is called.
    """
    if target.kind in ("energy", "state"):
        return build_variational_model(features, settings, target)
    if target.kind == "gate":
        return build_pulse_model(features, settings, target)
    if kernel:
        return build_kernel_model(features, settings, target, kernel)
    if ":" in settings.model.model:
        return user_model.build_user_model(features, settings, target)
    inputs = keras.Input((features,), name="angles")
    sharded = settings.training.state_shards > 1
    compiled = compiled_circuits(
        settings.model, features, encoder, settings.data.seed, is_sharded=sharded
    )
    readouts = [_readouts(inputs, settings, one, index) for index, one in enumerate(compiled)]
    together = readouts[0] if len(readouts) == 1 else keras.layers.Concatenate()(readouts)
    if settings.model.normalize_readouts:
        together = ReadoutNormalization(name="normalized")(together)
    outputs = (
        together if settings.model.model == "qcnn" else _head(together, settings, target.outputs)
    )
    name = short_model(settings.model.model)
    return keras.Model(inputs, outputs, name=name.replace("-", "_"))


def _readouts(
    inputs: tf.Tensor, settings: Settings, compiled: ModelProgram, index: int
) -> tf.Tensor:
    """Return the readouts of a circuit."""
    circuit = compiled.circuit
    layer = Expectation(
        circuit.circuit,
        circuit.inputs,
        circuit.observables,
        parameters=circuit.parameters,
        backend=settings.model.simulator,
        method=settings.model.method,
        program=compiled.program,
        sampling=sampling_of(settings.model, settings.data.seed, index),
        initial_states=circuit.initial_states,
        gradient_circuit=circuit.gradient_circuit,
        **sampler_arguments(settings),
        seed=settings.data.seed * 1009 + index,
        initializer=initial_angles(circuit, settings) if circuit.initial else None,
        name=f"circuit_{index}",
    )
    return layer(inputs)


def _head(readouts: tf.Tensor, settings: Settings, outputs: int) -> tf.Tensor:
    """Return the head of the tutorial: Dense(8), activation, Dense(outputs).

    A circuit that a search found has the linear head that was trained with it.
    """
    if is_circuit(settings.model.model):
        kernel, bias = found_head(settings.model, outputs)
        constant = keras.initializers.Constant
        return keras.layers.Dense(
            outputs,
            kernel_initializer=constant(kernel),
            bias_initializer=constant(bias),
            name="answer",
        )(readouts)

    def initializer(index: int) -> keras.initializers.Initializer:
        return keras.initializers.GlorotUniform(seed=settings.data.seed * 1009 + 500 + index)

    hidden = keras.layers.Dense(
        8, settings.model.activation, kernel_initializer=initializer(0), name="hidden"
    )
    return keras.layers.Dense(outputs, kernel_initializer=initializer(1), name="answer")(
        hidden(readouts)
    )


def circuit_layers(model: keras.Model) -> Iterator[TrainedCircuit]:
    """Yield the layers with trained circuits, in order."""
    for layer in model.submodules:
        if isinstance(layer, TrainedCircuit):
            yield layer


def readout_model(model: keras.Model) -> keras.Model | None:
    """Return a model of the readouts float32 [B, readouts] of all circuits.

    None if the model has no readouts, or is a subclass whose structure is unknown.
    """
    found = [layer for layer in circuit_layers(model) if layer.observables]
    if not found or not getattr(model, "_is_graph_network", False):
        return None
    try:
        outputs = [layer.output for layer in found]
    except (AttributeError, ValueError):
        return None
    together = outputs[0] if len(outputs) == 1 else keras.layers.Concatenate()(outputs)
    return keras.Model(model.inputs, together)


def describe_model(
    model: keras.Model, features: int, settings: Settings, encoding: Mapping[str, object]
) -> dict[str, object]:
    """Return the content of model.json, from which the model and its circuits are rebuilt.

    Args:
        model: A trained model.
        features: Angles per example.
        settings: Settings of the run.
        encoding: Encoding of the data set as JSON, which inference applies to new examples.
    """
    module, is_user_model, _ = settings.model.model.partition(":")
    return {
        "format": MODEL_FORMAT,
        "settings": settings.identity(),
        "source": user_code.digests(module) if is_user_model else None,
        "features": features,
        "encoding": encoding,
        "weights": [list(weight.shape) for weight in model.weights],
        "contraction_paths": used_paths(),
        "circuits": [
            {
                "name": layer.name,
                "circuit": _recorded_circuit(layer, settings),
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


def _recorded_circuit(layer: TrainedCircuit, settings: Settings) -> str | None:
    """Return a circuit as JSON; None for a wide one that is rebuilt from the settings."""
    if ":" not in settings.model.model and settings.model.qubits > MAX_RECORDED_QUBITS:
        return None
    return to_json(layer.circuit)


def rebuild(
    described: Mapping[str, Any],
    weights: Path | None = None,
    code: user_code.UserCode | None = None,
    title: "StoragePath | None" = None,
) -> keras.Model:
    """Rebuild a model from its description, with the weights of a local HDF5 file.

    Args:
        described: Content of model.json, as `Run.model` checked it.
        weights: Local path of weights.h5; None leaves the initial weights.
        code: Permission to import a user's model or sampler; by default there is none. Without
            the sampler, the circuits are simulated.
        title: Path of the weights for messages; by default `weights`.

    Raises:
        SettingsError: It is a user's model that may not be imported, or that fails.
        WeightsError: The description is invalid, or the weights belong to another model.
    """
    code = code or user_code.UserCode()
    try:
        give_paths(described.get("contraction_paths", {}))
        settings = Settings.from_record(described["settings"]).replace(verbose=code.verbose)
        if settings.model.sampler != code.sampler:
            settings = settings.replace(sampler="", shots=NO_SHOTS, gradient="noisy")
        code.require(settings.model.model, described.get("source"))
        target = Target.from_json(described["encoding"]["target"])
        if target.task != settings.data.task:  # whose limits the settings were checked by
            raise ValueError(f"its target is of TASK={target.task}")
        placement = described["encoding"]["placement"]
        kernel = recorded_shape(described) if settings.model.model == KERNEL else None
        model = build_model(described["features"], settings, placement, target, kernel)
    except DataError as error:
        raise WeightsError(f"model.json does not describe a model: {error}") from None
    except LibraryError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"model.json does not describe a model: {error}") from None
    if not model.built:  # a subclassed model has no weights to load into before its first call
        model(tf.zeros([1, described["features"]]))
    if settings.training.prune:
        layers = list(circuit_layers(model))
        pruned = prunable_circuits(layers, described["features"], settings, placement, target)
        for one, recorded in zip(pruned, described["circuits"], strict=False):
            zeros = [recorded["trained"].get(name) == 0 for name in one.layer.parameters]
            one.drop(one.removable & np.array(zeros))
    if weights is None:
        return model
    shapes = [weight.shape.as_list() for weight in model.weights]
    name = short_model(settings.model.model)
    weights_file.verify_content(weights, title or weights, shapes, name)
    try:
        model.load_weights(weights)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise WeightsError(
            f"{title or weights} does not contain weights of this model: {reason}"
        ) from None
    return model
