"""Keras models of TASK=energy and TASK=state: an ansatz, and what it is measured by.

With ANGLES=own, each Hamiltonian or state has trained angles of its own. With ANGLES=shared, all
have the same, and the ansatz gets the fields of a Hamiltonian as inputs.
"""

from typing import Any

from common.data.target import Target
from common.model_circuits import sampling_of
from common.models.ansatz import ansatz_circuit, initial_angles, reads_words
from common.models.member_layers import Columns, Fidelity, MemberAngles, WordFidelity
from common.models.samplers import sampler_arguments
from common.settings import Settings
from qfleet.circuits import ModelCircuit
from qfleet.tensorflow.layers import Expectation, State
from qfleet.tensorflow.runtime import keras, tf


def build_variational_model(features: int, settings: Settings, target: Target) -> keras.Model:
    """Return a model of rows float32 [B, features]: the energy or the fidelity, [B, 1].

    Args:
        features: Width of a row; see `common.data.problems`.
        settings: Settings of the run.
        target: What the model predicts.

    Raises:
        SettingsError: The user's ansatz can't be used.
    """
    rows = keras.Input((features,), name="rows")
    circuit = ansatz_circuit(settings, target)
    initializer = initial_angles(circuit, settings)
    angles = _circuit_inputs(rows, features, settings, target, circuit, initializer)
    has_own = settings.model.has_own_angles(target.members)
    trained = () if has_own else circuit.parameters
    names = (*circuit.inputs, *(circuit.parameters if has_own else ()))
    common: dict[str, Any] = {
        "parameters": trained,
        "backend": settings.model.simulator,
        "initializer": "zeros" if has_own else initializer,
        "name": "circuit_0",
    }
    measured: dict[str, Any] = {
        "gradient_circuit": circuit.gradient_circuit,
        "sampling": sampling_of(settings.model, settings.data.seed),
        **sampler_arguments(settings),
        **common,
    }
    if reads_words(settings, target):
        values = Expectation(circuit.circuit, names, circuit.observables, **measured)(angles)
        is_scaled = settings.model.has_noiseless_gradient
        layer = WordFidelity(scaled_gradient=is_scaled, name="fidelity")
        outputs = layer([values, Columns(0, features - 1)(rows)])
    elif target.kind == "state":
        state = State(circuit.circuit, names, **common)(angles)
        outputs = Fidelity(name="fidelity")([state, Columns(0, features - 1)(rows)])
    else:
        first = len(target.fields)
        layer = Expectation(
            circuit.circuit,
            names,
            circuit.observables,
            method=settings.model.method,
            **measured,
        )
        coefficients = Columns(first + 1, first + len(target.terms), name="coefficients")(rows)
        weighted = keras.layers.Dot(axes=1, name="weighted_sum")([layer(angles), coefficients])
        constant = Columns(first, first + 1, name="constant")(rows)
        outputs = keras.layers.Add(name="energy")([weighted, constant])
    return keras.Model(rows, outputs, name=settings.model.model.partition(":")[2] or "ansatz")


def _circuit_inputs(
    rows: tf.Tensor,
    features: int,
    settings: Settings,
    target: Target,
    circuit: ModelCircuit,
    initializer: keras.initializers.Initializer,
) -> tf.Tensor:
    """Return the circuit's inputs [B, inputs]: fields, angles of a member, or both."""
    fields = Columns(0, len(circuit.inputs), name="fields")(rows)
    if not settings.model.has_own_angles(target.members):
        return fields
    own = MemberAngles(
        target.members, len(circuit.parameters), initializer=initializer, name="angles"
    )(Columns(features - 1, features, name="number")(rows))
    return keras.layers.Concatenate()([fields, own]) if circuit.inputs else own
