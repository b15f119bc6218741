"""The Keras layer around the simulator: the one adapter between circuits and Keras."""

from collections.abc import Sequence
from typing import Any, Literal

import cirq
import numpy as np

from common.simulator import build
from common.tensorflow import keras, tf


@keras.utils.register_keras_serializable("qfleet")
class Expectation(keras.layers.Layer):
    """Readouts of a circuit: angles [B, inputs] in, expectation values [B, readouts] out.

    Owns the circuit's trained angles, as TensorFlow Quantum's PQC does.

    Args:
        circuit: Any Cirq circuit whose symbols are `inputs` or trained; every symbol that is not
            an input is trained, in sorted order.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: What is read: a PauliSum or PauliString each.
        parameters: The trained symbols in the order of the layer's weight, sorted unless given.
        simulator: `qfleet` or `tfq`.
        initializer: Of the trained angles, in radians; uniform over a full turn unless given.
        seed: Of the initializer.

    Raises:
        CircuitError: The circuit holds what the simulator can't take.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        *,
        parameters: Sequence[str] | None = None,
        simulator: Literal["qfleet", "tfq"] = "qfleet",
        initializer: Any = None,
        seed: int | None = None,
        **keras_args: Any,
    ) -> None:
        super().__init__(**keras_args)
        self.circuit = circuit
        self.inputs = tuple(map(str, inputs))
        trained = set(cirq.parameter_names(circuit)) - set(self.inputs)
        self.parameters = tuple(parameters) if parameters is not None else tuple(sorted(trained))
        self.observables = tuple(cirq.PauliSum.wrap(observable) for observable in observables)
        self.simulator = simulator
        self.initializer = keras.initializers.get(
            initializer or keras.initializers.RandomUniform(0.0, 2 * np.pi, seed=seed)
        )
        self._simulate = build(
            circuit, self.inputs, self.parameters, self.observables, backend=simulator
        )

    def build(self, input_shape: Any) -> None:
        """Make the trained angles: float32 [parameters], radians."""
        self.angles = self.add_weight(
            "angles", shape=(len(self.parameters),), initializer=self.initializer
        )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Expectation values float32 [B, readouts] of angles float32 [B, inputs] in radians."""
        return self._simulate.expectation(inputs, tf.convert_to_tensor(self.angles))

    def describe(self) -> str:
        """The compiled program, as text."""
        return self._simulate.describe()

    def bound_circuit(self) -> cirq.Circuit:
        """The circuit with its trained angles bound; the inputs stay symbols."""
        values = dict(zip(self.parameters, map(float, self.angles.numpy()), strict=True))
        return cirq.resolve_parameters(self.circuit, values)

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; circuit and observables as Cirq JSON."""
        return {
            **super().get_config(),
            "circuit": cirq.to_json(self.circuit),
            "inputs": list(self.inputs),
            "observables": cirq.to_json(list(self.observables)),
            "parameters": list(self.parameters),
            "simulator": self.simulator,
            "initializer": keras.initializers.serialize(self.initializer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Expectation":
        """The layer that `get_config` described."""
        read = {
            "circuit": cirq.read_json(json_text=config["circuit"]),
            "observables": cirq.read_json(json_text=config["observables"]),
        }
        return cls(**{**config, **read})
