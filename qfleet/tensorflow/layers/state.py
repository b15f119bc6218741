"""The layer whose output is the state vector."""

from collections.abc import Sequence
from typing import Any, final

import cirq

from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.layers.circuit import TrainedCircuit
from qfleet.tensorflow.runtime import keras, tf
from qfleet.tensorflow.simulator import Simulator


@final
@keras.utils.register_keras_serializable("qfleet")
class State(TrainedCircuit):
    """State vectors of a circuit: angles [B, inputs] -> amplitudes [B, 2**N].

    Amplitudes are complex64 for a float32 layer and complex128 for a float64 layer. The first of
    the sorted qubits is the most significant bit of an amplitude's index. The global phase is
    Cirq's.

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        circuit_args: `parameters`, `initializer`, `seed`, `backend`, `initial_states`, and Keras's
            arguments; see TrainedCircuit and CircuitLayer.

    Raises:
        CircuitError: The circuit is not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import State
        >>> first, second = cirq.LineQubit.range(2)
        >>> circuit = cirq.Circuit(cirq.X(first) ** sympy.Symbol("x"), cirq.CNOT(first, second))
        >>> np.abs(State(circuit, ["x"])(np.array([[1.0]]))).round(3).tolist()
        [[0.0, 0.0, 0.0, 1.0]]
    """

    has_all_methods = False
    _simulator: Simulator

    def __init__(self, circuit: cirq.Circuit, inputs: Sequence[str], **circuit_args: Any) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self._simulator = self._build_simulator()

    def _build_simulator(self) -> Simulator:
        return build_simulator(
            self.circuit, self.inputs, self.parameters, (), **self._simulator_args
        )

    def call(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tf.Tensor:
        """Return amplitudes [B, 2**N] for angles [B, inputs], or [states, angles]."""
        return self._simulator.state(*self._symbols(inputs))
