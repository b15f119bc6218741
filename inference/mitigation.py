"""Zero-noise extrapolation of a model's readouts: ZNE and ZNE_FIT.

The readouts of each circuit are extrapolated before the classical head. They are linear in the
state, so that noise makes them decay; a head is not linear, and its outputs need not.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cirq
import numpy as np

from common.model_circuits import with_noise
from common.settings.groups.experiment import NO_NOISE, NO_SHOTS
from inference.model_source import ModelSource
from inference.predictor import CircuitTrust, Predictor
from qfleet.circuits import ModelCircuit, join_zeros
from qfleet.compiler.circuit.sampling import Sampling
from qfleet.extrapolation import extrapolate
from qfleet.zne_factors import parse_factors

if TYPE_CHECKING:
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.runtime import keras, tf
    from qfleet.tensorflow.sampling import SampledReadouts
    from qfleet.tensorflow.simulator import Simulator

TRUST_SAMPLES = 100
"""Examples of which the fidelity of a circuit is measured."""


@dataclass(frozen=True)
class Mitigation:
    """ZNE and ZNE_FIT.

    Attributes:
        factors: Factors by which circuits are folded.
        fit: The fit.
        noise: NOISE.
    """

    factors: tuple[int, ...]
    fit: str
    noise: str

    @classmethod
    def of(cls, source: ModelSource) -> "Mitigation | None":
        """Return the extrapolation that a model has; None for one without."""
        settings = source.settings
        if not settings.get("zne"):
            return None
        return cls(parse_factors(settings["zne"]), settings["zne_fit"], settings["noise"])


class MitigatedPredictor(Predictor):
    """A trained model whose readouts are extrapolated to zero noise.

    All folded circuits of all examples of a batch are evaluated by one call of a graph.

    Args:
        model: The model, with noise.
        features: Angles per example.
        source: Origin of the model.
        batch: As for Predictor.

    Attributes:
        mitigation: Factors, fit and noise.
    """

    is_mitigated = True

    def __init__(
        self,
        model: "keras.Model",
        features: int,
        source: ModelSource,
        batch: int | None = None,
    ) -> None:
        mitigation = Mitigation.of(source)
        assert mitigation is not None
        self.mitigation, self._source = mitigation, source
        super().__init__(model, features, batch)
        self.circuits = len(self.layers) * len(mitigation.factors)

    def _compile(self, model: "keras.Model", features: int) -> None:
        from common import models
        from qfleet.tensorflow.runtime import keras, tf

        source, layers = self._source, self.layers
        plain = {"noise": NO_NOISE, "shots": NO_SHOTS, "gradient": "noisy"}
        settings = {**source.settings, **plain}
        ideal = models.rebuild({**source.described, "settings": settings}, code=source.code)
        self._ideal = list(models.circuit_layers(ideal))
        folded = [
            [self._folded(one, factor, layer.sampling) for factor in self.mitigation.factors]
            for one, layer in zip(self._ideal, layers, strict=True)
        ]
        self._circuit_inputs = keras.Model(model.inputs, [one.input for one in layers])
        outputs = [one.output for one in layers]
        widths = [len(one.observables) for one in layers]
        self.readouts = sum(widths)
        # Energies are sums with coefficients that are part of a row; a qcnn has no head.
        rows = model.inputs if source.settings["task"] == "energy" else []
        is_head = model.outputs[0] is not outputs[0]
        head = keras.Model([*rows, *outputs], model.outputs[0]) if is_head else None

        @tf.function(input_signature=[tf.TensorSpec([None, features], tf.float32)])
        def readouts(batch: tf.Tensor) -> tf.Tensor:
            inputs = tf.nest.flatten(self._circuit_inputs(batch, training=False))
            values = [
                tf.stack([one.expectation(angles, layer.angles) for one in simulators])
                for layer, simulators, angles in zip(layers, folded, inputs, strict=True)
            ]
            return tf.concat(values, axis=2)

        @tf.function(reduce_retracing=True)
        def outputs_of(batch: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
            if head is None:
                return values
            return head([batch] * len(rows) + tf.split(values, widths, axis=1), training=False)

        self._readouts, self._outputs_of = readouts, outputs_of

    def _evaluate(self, angles: "tf.Tensor") -> "tuple[tf.Tensor, np.ndarray, tf.Tensor]":
        values = self._readouts(angles).numpy()
        mitigated = self._extrapolate(values)
        plain = self._outputs_of(angles, values[0])
        return self._outputs_of(angles, mitigated), mitigated, plain

    def _extrapolate(self, values: np.ndarray) -> np.ndarray:
        mitigation = self.mitigation
        return extrapolate(mitigation.factors, values, mitigation.fit).astype(np.float32)

    def measure_return_probabilities(self, angles: np.ndarray) -> list[CircuitTrust]:
        """Measure the fidelity and the errors of each circuit.

        Args:
            angles: Examples float32 [n, features].
        """
        from qfleet.tensorflow.runtime import tf

        batch = tf.constant(angles)
        inputs = tf.nest.flatten(self._circuit_inputs(batch, training=False))
        noisy = self._readouts(batch).numpy()
        mitigated = self._extrapolate(noisy)
        found, first = [], 0
        for layer, bare, columns in zip(self.layers, self._ideal, inputs, strict=True):
            ideal = bare.simulator.expectation(columns, layer.angles).numpy()
            part = slice(first, first + ideal.shape[1])
            first = part.stop
            returned = self._return_probability(bare, columns, layer)
            errors = [np.abs(one[:, part] - ideal).mean() for one in (noisy[0], mitigated)]
            figures = (returned.mean(), returned.min(), *errors)
            found.append(CircuitTrust(layer.name, len(angles), *map(float, figures)))
        return found

    def _return_probability(
        self, bare: "Expectation", columns: "tf.Tensor", layer: "Expectation"
    ) -> np.ndarray:
        """Return the probabilities of |0...0> after circuit and reverse, [n]."""
        from qfleet.tensorflow.backends import build_simulator

        qubits = sorted(bare.circuit.all_qubits())
        parity = cirq.PauliSum.wrap(cirq.PauliString(map(cirq.Z, qubits)))  # reads all qubits
        circuit = _noiseless(bare, (parity,))
        noisy = with_noise(circuit, self.mitigation.noise, is_reversed=True)
        ended = noisy.circuit + join_zeros(noisy.qubits)
        read = (cirq.PauliSum.wrap(cirq.Z(noisy.qubits[0])),)
        names = bare.inputs, bare.parameters
        simulator = build_simulator(ended, *names, read, sampling=layer.sampling)
        values: np.ndarray = simulator.expectation(columns, layer.angles).numpy()
        return (1 + values[:, 0]) / 2

    def _folded(
        self, bare: "Expectation", factor: int, sampling: Sampling
    ) -> "Simulator | SampledReadouts":
        """Return the simulator of a layer's circuit, folded and with noise and shots."""
        from qfleet.tensorflow.backends import build_simulator

        noisy = with_noise(_noiseless(bare, bare.observables), self.mitigation.noise, factor=factor)
        return build_simulator(
            noisy.circuit,
            bare.inputs,
            bare.parameters,
            noisy.observables,
            # Each factor has measurements of its own.
            sampling=replace(sampling, seed=sampling.seed + factor),
        )


def _noiseless(bare: "Expectation", observables: tuple[cirq.PauliSum, ...]) -> ModelCircuit:
    """Return the circuit of a layer without noise."""
    qubits = tuple(sorted(bare.circuit.all_qubits()))
    return ModelCircuit(bare.circuit, bare.inputs, bare.parameters, observables, qubits, ())


def predictor_for(
    model: "keras.Model", features: int, source: ModelSource, batch: int | None
) -> Predictor:
    """Return the predictor of a model: with ZNE if it is set.

    Args:
        model: The model.
        features: Angles per example.
        source: Origin of the model.
        batch: As for Predictor.
    """
    if Mitigation.of(source) is None:
        return Predictor(model, features, batch)
    return MitigatedPredictor(model, features, source, batch)
