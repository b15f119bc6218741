"""The ansatz of a variational model: a built-in one, the user's, or one that a search found."""

from collections.abc import Sequence
from dataclasses import replace

import cirq
import numpy as np

from common.data.target import Target
from common.errors import SettingsError
from common.found_circuits import found_circuit
from common.model_circuits import entangler_of, with_noise
from common.models import user_model
from common.settings import Settings
from common.settings.circuit_file import is_circuit, short_model
from common.settings.groups.experiment import HYBRID_PULSE, PULSE
from qfleet.circuits import (
    ModelCircuit,
    hamiltonian_variational,
    hardware_efficient,
    hybrid_pulse,
    pulse_layers,
    uccsd,
)
from qfleet.problems import pauli_words
from qfleet.tensorflow.runtime import keras, tf

INITIAL_DEVIATION = 0.02
"""Standard deviation of initial angles around their values, in radians."""

DEFAULT_LAYERS = 4


def reads_words(settings: Settings, target: Target) -> bool:
    """Return True if a state is known by the values of all its Pauli words only."""
    return target.kind == "state" and settings.model.is_noisy


def ansatz_circuit(
    settings: Settings, target: Target, *, without_noise: bool = False
) -> ModelCircuit:
    """Return the ansatz of MODEL.

    Its observables are the Pauli words of the Hamiltonian, all words of a state that is not
    simulated as a vector, or none.

    Inputs are the fields of the target if several Hamiltonians share their angles.

    Args:
        settings: Settings of the run.
        target: What the model predicts.
        without_noise: Leave out NOISE; the observables are those of the circuit with it.

    Raises:
        SettingsError: The user's factory can't be used.
    """
    model = settings.model
    fields = target.fields if model.angles == "shared" and target.members > 1 else ()
    layers = model.layers or DEFAULT_LAYERS
    if ":" in model.model:
        circuit = _user_circuit(settings, fields)
    elif is_circuit(model.model):
        circuit = _found_circuit(settings, fields)
    elif model.model == "hardware-efficient":
        circuit = hardware_efficient(model.qubits, layers, inputs=fields)
    elif model.model == "uccsd":
        circuit = uccsd(model.qubits, target.electrons, inputs=fields)
    elif model.model == PULSE or (model.model == HYBRID_PULSE and target.kind == "state"):
        entangler = entangler_of(model)
        circuit = pulse_layers(model.qubits, layers, inputs=fields, entangler=entangler)
    else:
        terms = dict(zip(target.terms[1:], target.coefficients[1:], strict=True))
        build = hybrid_pulse if model.model == HYBRID_PULSE else hamiltonian_variational
        circuit = build(terms, layers, inputs=fields)
    words = pauli_words(model.qubits) if reads_words(settings, target) else target.terms[1:]
    observables = tuple(
        cirq.PauliSum.wrap(cirq.DensePauliString(word).on(*circuit.qubits)) for word in words
    )
    circuit = replace(circuit, observables=observables)
    if without_noise:
        return circuit
    return with_noise(circuit, model.noise, noiseless_gradient=model.has_noiseless_gradient)


class Around(keras.initializers.Initializer):
    """Draws angles around given values, equal for each row of a matrix.

    Args:
        values: The values in radians.
        seed: Seed.
        deviation: Standard deviation in radians.
    """

    def __init__(self, values: Sequence[float], seed: int, deviation: float) -> None:
        self._values, self._seed, self._deviation = tuple(values), seed, deviation

    def __call__(
        self, shape: Sequence[int], dtype: tf.DType | None = None, **_: object
    ) -> tf.Tensor:
        """Return angles of a shape that ends with the number of values."""
        generator = np.random.Generator(np.random.PCG64(self._seed))
        drawn = generator.normal(0.0, self._deviation, tuple(shape))
        return tf.constant(drawn + np.asarray(self._values), dtype or tf.float32)

    def get_config(self) -> dict[str, object]:
        """Return the arguments."""
        return {"values": self._values, "seed": self._seed, "deviation": self._deviation}


def initial_angles(circuit: ModelCircuit, settings: Settings) -> keras.initializers.Initializer:
    """Return the initializer of an ansatz: around its initial values, or else anywhere.

    A circuit that a search found has its initial values, unless there are several initializations.

    Args:
        circuit: The ansatz.
        settings: MODEL, SEED and INITIALIZATIONS are used.
    """
    seed = settings.data.seed
    if circuit.initial:
        is_exact = is_circuit(settings.model.model) and settings.training.initialization_count == 1
        return Around(circuit.initial, seed * 1009, 0.0 if is_exact else INITIAL_DEVIATION)
    return keras.initializers.RandomUniform(0.0, 2 * np.pi, seed=seed * 1009)


def _user_circuit(settings: Settings, fields: tuple[str, ...]) -> ModelCircuit:
    name, width = settings.model.model, settings.model.qubits
    circuit = user_model.call_factory(settings, width)
    if not isinstance(circuit, cirq.AbstractCircuit):
        raise SettingsError(
            f"MODEL={name} returned a {type(circuit).__name__}: for TASK={settings.data.task}, the"
            " factory must return a cirq.Circuit"
        )
    qubits = tuple(sorted(circuit.all_qubits()))
    if len(qubits) != width:
        raise SettingsError(
            f"MODEL={name} returned a circuit of {len(qubits)} qubits, but has to use all of"
            f" QUBITS={width}: set QUBITS={len(qubits)}, or add qubits to the circuit"
        )
    symbols = cirq.parameter_names(circuit)
    inputs = tuple(one for one in fields if one in symbols)
    parameters = tuple(sorted(symbols - set(inputs)))
    if not parameters:
        raise SettingsError(f"MODEL={name} returned a circuit without symbols to train: add some")
    return ModelCircuit(circuit.freeze().unfreeze(), inputs, parameters, (), qubits, (parameters,))


def _found_circuit(settings: Settings, fields: tuple[str, ...]) -> ModelCircuit:
    """Return the circuit that a search found, which has no inputs."""
    circuit = found_circuit(settings.model)
    if fields:
        raise SettingsError(
            f"MODEL={short_model(settings.model.model)} has no inputs for the fields of several"
            " Hamiltonians: omit ANGLES=shared"
        )
    return circuit
