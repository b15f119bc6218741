"""What all layers share: a circuit and its symbols, and trained angles as a weight."""

import random
from collections.abc import Sequence
from typing import Any, Literal

import cirq
import numpy as np

from qfleet.circuits.circuit_json import to_json
from qfleet.tensorflow.runtime import keras, tf
from qfleet.tensorflow.simulator import Simulator

_COMPLEX = {"float32": "complex64", "float64": "complex128"}


def circuit_svg_text(seed: int | None) -> int:
    """A seed; where there is none, by the generator that keras.utils.set_random_seed seeds."""
    return random.randrange(2**31) if seed is None else int(seed)


class CircuitLayer(keras.layers.Layer):
    """A circuit in a Keras model. Abstract.

    Args:
        circuit: Any Cirq circuit.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        parameters: Its other symbols, in order; sorted unless given.
        simulator: `qfleet`, `tensorflow` or `tfq`.
        keras_args: Keras's own: name, trainable, dtype (float32 simulates in complex64, float64
            in complex128).

    Raises:
        CircuitError: The circuit holds what the simulator can't take.
    """

    _simulate: Any  # what does the work; made by the subclass

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        *,
        parameters: Sequence[str] | None = None,
        simulator: Literal["qfleet", "tensorflow", "tfq"] = "qfleet",
        **keras_args: Any,
    ) -> None:
        super().__init__(**keras_args)
        self.circuit = circuit
        self.inputs = tuple(map(str, inputs))
        others = sorted(set(cirq.parameter_names(circuit)) - set(self.inputs))
        self.parameters = tuple(map(str, others if parameters is None else parameters))
        self.simulator = simulator
        if self.compute_dtype not in _COMPLEX:
            raise ValueError(
                f"the layer {self.name} has dtype {self.compute_dtype}: circuits are simulated in"
                " float32 or float64"
            )

    @property
    def compiled_simulator(self) -> Any:
        """The simulator of the compiled circuit."""
        return self._simulate

    def describe(self) -> str:
        """The compiled program, as text."""
        return self._simulate.describe()

    def require_memory(self, copies: int = 1) -> None:
        """Refuse to train what does not fit into this machine's memory.

        Args:
            copies: How many processes on this machine do the same.

        Raises:
            CircuitError: It says how many bytes are needed and what would fit.
        """
        if isinstance(self._simulate, Simulator):
            self._simulate.require_memory(2, copies)

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; the circuit as Cirq JSON."""
        return {
            **super().get_config(),
            "circuit": to_json(self.circuit),
            "inputs": list(self.inputs),
            "parameters": list(self.parameters),
            "simulator": self.simulator,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "CircuitLayer":
        """The layer that `get_config` described."""
        told = [name for name in ("circuit", "observables") if name in config]
        return cls(**config | {name: cirq.read_json(json_text=config[name]) for name in told})

    @property
    def _how(self) -> dict[str, Any]:
        """With what to simulate, as arguments."""
        return {"backend": self.simulator, "dtype": _COMPLEX[self.compute_dtype]}


class TrainedCircuit(CircuitLayer):
    """A circuit that owns its trained angles, as TensorFlow Quantum's PQC does. Abstract.

    Args:
        circuit: Every symbol that is not an input is trained.
        inputs: See CircuitLayer.
        parameters: The trained symbols in the order of the layer's weight; sorted unless given.
        initializer: Of the trained angles, in radians; uniform over a full turn unless given.
        seed: Of the initializer.
        circuit_args: See CircuitLayer.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        *,
        initializer: Any = None,
        seed: int | None = None,
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.initializer = keras.initializers.get(
            initializer
            or keras.initializers.RandomUniform(0.0, 2 * np.pi, seed=circuit_svg_text(seed))
        )

    def build(self, input_shape: Any) -> None:
        """Make the trained angles: [parameters], radians."""
        self.angles = self.add_weight(
            "angles", shape=(len(self.parameters),), initializer=self.initializer
        )
        super().build(input_shape)

    def bound_circuit(self) -> cirq.Circuit:
        """The circuit with its trained angles bound; the inputs stay symbols."""
        values = dict(zip(self.parameters, map(float, self.angles.numpy()), strict=True))
        return cirq.resolve_parameters(self.circuit, values)

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; the circuit as Cirq JSON."""
        initializer = keras.initializers.serialize(self.initializer)
        return {**super().get_config(), "initializer": initializer}

    def _symbols(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[B, inputs] and [parameters] values of the symbols, in the layer's dtype."""
        return tf.cast(inputs, self.compute_dtype), tf.convert_to_tensor(self.angles)


class PauliReadouts(TrainedCircuit):
    """A circuit of which observables are read. Abstract.

    Args:
        circuit: See TrainedCircuit.
        inputs: See CircuitLayer.
        observables: What is read: a PauliSum or PauliString each.
        circuit_args: See TrainedCircuit.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.observables = tuple(cirq.PauliSum.wrap(observable) for observable in observables)

    def get_config(self) -> dict[str, Any]:
        """What Keras saves; circuit and observables as Cirq JSON."""
        return {**super().get_config(), "observables": cirq.to_json(list(self.observables))}
