"""Layers of Keras 3 whose outputs are state vectors, or measurements of them."""

from collections.abc import Sequence
from typing import Any, final

import cirq
import keras

from qfleet.compiler.circuit.sampling import SHOTS
from qfleet.keras.backend_circuit import Tensor
from qfleet.keras.circuit import TrainedCircuit


@final
@keras.saving.register_keras_serializable("qfleet")
class State(TrainedCircuit):
    """State vectors of a circuit: angles [B, inputs] -> amplitudes [B, 2**N].

    Amplitudes are complex64, or complex128 for a float64 layer. The first of the sorted qubits is
    the most significant bit of an amplitude's index. The global phase is Cirq's.

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        circuit_args: `parameters`, `initializer`, `seed`, `initial_states`, and Keras's arguments;
            see TrainedCircuit and CircuitLayer.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: The circuit is not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.keras import State
        >>> first, second = cirq.LineQubit.range(2)
        >>> circuit = cirq.Circuit(cirq.X(first) ** sympy.Symbol("x"), cirq.CNOT(first, second))
        >>> states = State(circuit, ["x"])(np.array([[1.0]]))
        >>> np.abs(keras.ops.convert_to_numpy(states)).round(3).tolist()
        [[0.0, 0.0, 0.0, 1.0]]
    """

    has_all_methods = False

    def __init__(self, circuit: cirq.Circuit, inputs: Sequence[str], **circuit_args: Any) -> None:
        super().__init__(circuit, inputs, **circuit_args)

    def call(self, inputs: Tensor | Sequence[Tensor]) -> Tensor:
        """Return amplitudes [B, 2**N] for angles [B, inputs], or [states, angles]."""
        return self._backend.state(*self._symbols(inputs))

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        """Return shape and dtype of the amplitudes, [batch, 2**N]."""
        batch = keras.tree.flatten(inputs)[0].shape[0]
        return keras.KerasTensor((batch, self._dimension), self._state_dtype)


@final
@keras.saving.register_keras_serializable("qfleet")
class Samples(TrainedCircuit):
    """Measurements of all qubits of a circuit: angles [B, inputs] -> bits int8 [B, shots, N].

    Every call with the same angles gives the same bits for the same seed and backend. There is no
    gradient.

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        shots: Measurements per example, at least 1.
        circuit_args: `parameters`, `initializer`, `initial_states`, `seed` of the shots and of the
            initializer, and Keras's arguments; see TrainedCircuit and CircuitLayer.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: The circuit is not supported.

    Examples:
        >>> import cirq
        >>> import numpy as np
        >>> from qfleet.keras import Samples
        >>> circuit = cirq.Circuit(cirq.X(cirq.LineQubit(0)), cirq.I(cirq.LineQubit(1)))
        >>> bits = Samples(circuit, [], shots=3)(np.zeros((1, 0)))
        >>> keras.ops.convert_to_numpy(bits).tolist()
        [[[1, 0], [1, 0], [1, 0]]]
    """

    has_all_methods = False

    def __init__(
        self, circuit: cirq.Circuit, inputs: Sequence[str], shots: int, **circuit_args: Any
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.shots = SHOTS(shots, "shots")

    def call(self, inputs: Tensor | Sequence[Tensor]) -> Tensor:
        """Return bits int8 [B, shots, N] for angles [B, inputs], or [states, angles]."""
        symbols = (keras.ops.stop_gradient(one) for one in self._symbols(inputs))
        state = self._backend.state(*symbols)
        return _draw_bits(state, self.shots, self.seed, len(self.circuit.all_qubits()))

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        """Return shape and dtype of the bits, [batch, shots, N]."""
        batch = keras.tree.flatten(inputs)[0].shape[0]
        return keras.KerasTensor((batch, self.shots, len(self.circuit.all_qubits())), "int8")

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; the circuit is Cirq JSON."""
        return {**super().get_config(), "shots": self.shots, "seed": self.seed}


def _draw_bits(state: Tensor, shots: int, seed: int, qubits: int) -> Tensor:
    """Measure all qubits, the first one first, each given the bits of those before it.

    The sums of probabilities are a binary tree, so they are as exact in float32 as in float64.

    Args:
        state: [B, 2**N] complex.
        shots: Measurements per example.
        seed: Of the random numbers; every example has its own.
        qubits: N.

    Returns:
        int8 [B, shots, N].
    """
    ops = keras.ops
    sums = [ops.square(ops.real(state)) + ops.square(ops.imag(state))]
    for _ in range(qubits):  # [B, 2**(N-1)], ..., [B, 1]
        sums.append(ops.sum(ops.reshape(sums[-1], (-1, sums[-1].shape[-1] // 2, 2)), axis=-1))
    uniform = keras.random.uniform((ops.shape(state)[0], shots), seed=seed)
    rest = ops.cast(uniform, sums[0].dtype) * sums.pop()  # [B, shots] below the root's sum
    place = ops.zeros_like(rest, dtype="int32")
    bits = []
    for level in reversed(sums):
        left = ops.take_along_axis(level, 2 * place, axis=1)
        right = ops.take_along_axis(level, 2 * place + 1, axis=1)
        # Rounding must not lead to a branch of probability 0.
        is_right = ops.logical_and(ops.logical_or(rest >= left, left <= 0), right > 0)
        rest = ops.where(is_right, rest - left, rest)
        bit = ops.cast(is_right, "int32")
        place = 2 * place + bit
        bits.append(bit)
    return ops.cast(ops.stack(bits, axis=-1), "int8")
