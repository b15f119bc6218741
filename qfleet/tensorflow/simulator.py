"""The interface of all engines: angles and parameters in, expectation values or states out."""

import abc
from collections.abc import Callable

import cirq
import numpy as np

from qfleet.engine import memory
from qfleet.engine.point import check_states, check_takes_matrices
from qfleet.tensorflow.framework import tf

REAL_DTYPES = {"complex64": tf.float32, "complex128": tf.float64}
COMPLEX_DTYPES = {"complex64": tf.complex64, "complex128": tf.complex128}
Gradient = Callable[[tf.Tensor], tuple[tf.Tensor | None, ...]]
"""The gradients by each argument, from that by a result; of tf.custom_gradient."""

_AMPLITUDE_BYTES = {tf.float32: 8, tf.float64: 16}


class Simulator(abc.ABC):
    """A compiled circuit. Abstract; every subclass is final.

    A simulator has no variables and is deterministic. It may be called eagerly, inside tf.function
    and tf.while_loop, and in every replica of a distribution strategy.

    Attributes:
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Number of observables; 0 if the result is the state.
        qubits: The simulated qubits in Cirq's order; the first is the most significant bit. Qubits
            that no observable depends on may be left out.
        dtype: Of angles and readouts, tf.float32 or tf.float64.
        has_no_state: If its memory does not grow with 2**qubits.
        takes_states: If `expectation` and `state` take initial states as a third argument, by which
            they are differentiable, too: [B, 2**N] complex, of norm 1.
        takes_matrices: If these may be density matrices [B, 2**N, 2**N].
    """

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    readouts: int
    qubits: tuple[cirq.Qid, ...]
    dtype: tf.DType
    has_no_state = False
    takes_states = False
    takes_matrices = False

    @abc.abstractmethod
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute expectation values, differentiable by both arguments.

        Args:
            angles: [B, len(inputs)] values of the data symbols, of `dtype`. The circuit defines
                their unit; circuits of qfleet.circuits take radians.
            parameters: [len(parameters)] values of the trained symbols, of `dtype`.

        Returns:
            [B, readouts] of `dtype`.

        Raises:
            ValueError: An argument has another shape; it may be raised when the graph runs.
            ArgumentError: An initial state has another norm than 1, or a matrix is not a density
                matrix; in a graph it is tf.errors.InvalidArgumentError.
            MemoryLimitError: The states do not fit into the free memory.
        """

    @abc.abstractmethod
    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute state vectors, global phase included, differentiable by both arguments.

        Args:
            angles: As for `expectation`.
            parameters: As for `expectation`.

        Returns:
            [B, 2**N] complex64 or complex128, the amplitudes of |qubits>.

        Raises:
            ValueError: The simulator reads observables and drops parts of the state.
        """

    @abc.abstractmethod
    def describe(self, batch: int | None = None) -> str:
        """Describe the compiled program as text.

        Args:
            batch: Number of examples, if the plan depends on it.
        """

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check that the circuit's states fit into the free memory of this machine.

        Args:
            states: States at a time: 1 for readouts, 2 for their gradient.
            processes: Processes on this machine that do the same.

        Raises:
            MemoryLimitError: The message states the needed bytes and the largest width that fits.
        """
        memory.require_memory(len(self.qubits), _AMPLITUDE_BYTES[self.dtype], states, processes)

    def _checked_arguments(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Return the arguments as tensors of checked shapes."""
        angles = tf.convert_to_tensor(angles, self.dtype, name="angles")
        parameters = tf.convert_to_tensor(parameters, self.dtype, name="parameters")
        if not angles.shape.is_compatible_with([None, len(self.inputs)]):
            raise ValueError(
                f"angles have shape {angles.shape}: the circuit takes [batch, {len(self.inputs)}]"
            )
        if not parameters.shape.is_compatible_with([len(self.parameters)]):
            raise ValueError(
                f"parameters have shape {parameters.shape}:"
                f" the circuit takes [{len(self.parameters)}]"
            )
        if len(initial_states) != self.takes_states:
            raise ValueError(
                f"there are {len(initial_states)} tensors of initial states: the circuit takes"
                f" {int(self.takes_states)}"
            )
        states = [self._checked_states(angles.shape[0], one) for one in initial_states]
        if angles.shape[0] == 0:
            # Constant folding of an empty batch crashes TensorFlow with a division by zero.
            angles = tf.raw_ops.PlaceholderWithDefault(input=angles, shape=[None, len(self.inputs)])
        # Shapes may become known only when the graph runs.
        return (
            tf.ensure_shape(angles, [None, len(self.inputs)]),
            tf.ensure_shape(parameters, [len(self.parameters)]),
            *states,
        )

    def _checked_states(self, batch: int | None, states: tf.Tensor) -> tf.Tensor:
        """Return initial states [B, 2**N], or density matrices [B, 2**N, 2**N]."""
        dtype = tf.complex64 if self.dtype == tf.float32 else tf.complex128
        states = tf.convert_to_tensor(states, dtype, name="states")
        dimension = 2 ** len(self.qubits)
        is_matrix = states.shape.rank == 3
        if is_matrix:
            check_takes_matrices(self.takes_matrices, states.shape)
        shape = [dimension] * (1 + is_matrix)
        if not states.shape.is_compatible_with([batch, *shape]):
            wanted = ", ".join(map(str, [batch or "batch", *shape]))
            raise ValueError(
                f"initial states have shape {states.shape}: the circuit takes [{wanted}]"
            )
        if tf.executing_eagerly():
            check_states(np.ascontiguousarray(states.numpy()))
        return tf.ensure_shape(states, [None, *shape])

    def _require_state_output(self) -> None:
        if self.readouts:
            raise ValueError(
                f"this simulator reads {self.readouts} observables and has no state output:"
                " build it with observables=()"
            )
