"""The layer whose output is the state vector."""

from collections.abc import Sequence
from typing import Any, final

import cirq

from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers.circuit import TrainedCircuit
from qfleet.tensorflow.runtime import keras, tf


@final
@keras.utils.register_keras_serializable("qfleet")
class State(TrainedCircuit):
    """The state of a circuit: angles [B, inputs] in, amplitudes [B, 2**N] complex out.

    Qubits are sorted as Cirq sorts them, the first is the most significant bit, and the global
    phase is Cirq's.

    Args:
        circuit: Any Cirq circuit whose symbols are `inputs` or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        circuit_args: parameters, initializer, seed, simulator, and Keras's own; see TrainedCircuit
            and CircuitLayer.

    Raises:
        CircuitError: The circuit holds what the simulator can't take.
    """

    def __init__(self, circuit: cirq.Circuit, inputs: Sequence[str], **circuit_args: Any) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self._simulate = build_simulator(circuit, self.inputs, self.parameters, (), **self._how)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Amplitudes [B, 2**N], complex64 or complex128, of angles [B, inputs] in radians."""
        return self._simulate.state(*self._symbols(inputs))
