"""Circuits that a search found, as models. Without TensorFlow."""

import json
from typing import Any

import cirq
import numpy as np

from common.errors import SettingsError
from common.settings.circuit_file import read_circuit, short_model
from common.settings.groups.experiment import ModelSettings
from qfleet.circuits import ModelCircuit
from qfleet.circuits.circuit_json import from_json


def found_circuit(model: ModelSettings) -> ModelCircuit:
    """Return the circuit that MODEL has as a text, with its angles as initial values.

    A circuit for data has its features as inputs, and reads <Z> of all qubits.

    Args:
        model: MODEL and QUBITS.

    Raises:
        SettingsError: It can't be used.
    """
    name, content = short_model(model.model), _content(model)
    try:
        circuit = from_json(json.dumps(content["circuit"]))
    except ValueError as error:
        raise SettingsError(f"MODEL={name} can't be read: {error}; name its file again") from None
    qubits = tuple(sorted(circuit.all_qubits()))
    if len(qubits) != model.qubits:
        raise SettingsError(
            f"MODEL={name} is a circuit of {len(qubits)} qubits, and QUBITS={model.qubits}: use the"
            " DATA and the QUBITS that it was found for"
        )
    inputs = tuple(map(str, content.get("inputs", ())))
    parameters = tuple(sorted(cirq.parameter_names(circuit) - set(inputs)))
    if set(parameters) != content["angles"].keys():
        raise SettingsError(f"MODEL={name} has other symbols than angles: search it again")
    if not parameters:
        raise SettingsError(f"MODEL={name} has no angles to train: choose a circuit with some")
    initial = tuple(float(content["angles"][one]) for one in parameters)
    readouts = tuple(cirq.PauliSum.wrap(cirq.Z(one)) for one in qubits) if inputs else ()
    return ModelCircuit(circuit, inputs, parameters, readouts, qubits, (parameters,), initial)


def found_data_circuit(model: ModelSettings, features: int) -> ModelCircuit:
    """Return the circuit of MODEL for rows of some features.

    Args:
        model: As for `found_circuit`.
        features: Angles per example.

    Raises:
        SettingsError: It has another number of features, or can't be used.
    """
    circuit = found_circuit(model)
    if len(circuit.inputs) != features:
        raise SettingsError(
            f"MODEL={short_model(model.model)} has {len(circuit.inputs)} features, and the examples"
            f" have {features}: use the DATA, QUBITS and ENCODER that it was found for"
        )
    return circuit


def found_head(model: ModelSettings, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the trained head of a circuit for data: kernel [qubits, outputs] and bias [outputs].

    Args:
        model: As for `found_circuit`.
        outputs: Outputs of the model.

    Raises:
        SettingsError: The head has other outputs.
    """
    name = short_model(model.model)
    weights = np.array(_content(model).get("head", ()), np.float64)
    if weights.shape != ((model.qubits + 1) * outputs,):
        raise SettingsError(
            f"MODEL={name} has a head of {weights.size} weights, not of the"
            f" {(model.qubits + 1) * outputs} for these labels: use the DATA that it was found for"
        )
    whole = weights.reshape(model.qubits + 1, outputs)
    return whole[:-1], whole[-1]


def _content(model: ModelSettings) -> dict[str, Any]:
    try:
        return read_circuit(model.model)
    except ValueError as error:
        name = short_model(model.model)
        raise SettingsError(f"MODEL={name} can't be read: {error}; name its file again") from None
