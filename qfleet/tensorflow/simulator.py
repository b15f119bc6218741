"""What every backend is: angles and parameters in, expectation values or the state out."""

import abc

import cirq

from qfleet.engine import memory
from qfleet.tensorflow.runtime import tf

REAL_DTYPES = {"complex64": tf.float32, "complex128": tf.float64}
COMPLEX_DTYPES = {"complex64": tf.complex64, "complex128": tf.complex128}


class Simulator(abc.ABC):
    """A compiled circuit. Abstract; every subclass is final.

    It holds no variable and is deterministic, and may be called eagerly, inside tf.function and
    tf.while_loop, and in every replica of a distribution strategy.

    Attributes:
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: How many observables are read; 0 where the state is what is wanted.
        qubits: Those of the state, sorted as Cirq sorts them; the first is the most significant
            bit. Where observables are read, qubits that they don't depend on may be left out.
        dtype: Of angles and readouts, tf.float32 or tf.float64.
    """

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    readouts: int
    qubits: tuple[cirq.Qid, ...]
    dtype: tf.DType

    @abc.abstractmethod
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Expectation values, differentiable by both arguments.

        Args:
            angles: [B, len(inputs)] values of the data symbols, of `dtype`. Symbols are what
                the circuit says they are; the circuits of qfleet.circuits take radians.
            parameters: [len(parameters)] values of the trained symbols, of `dtype`.

        Returns:
            [B, readouts] of `dtype`.
        """

    @abc.abstractmethod
    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """The state vector, global phase included, differentiable by both arguments.

        Args:
            angles: As for `expectation`.
            parameters: As for `expectation`.

        Returns:
            [B, 2**N] complex64 or complex128, the amplitudes of |qubits>.

        Raises:
            ValueError: Observables are read, so that not all of the state is there.
        """

    @abc.abstractmethod
    def describe(self, batch: int | None = None) -> str:
        """What will be computed, for a person to read.

        Args:
            batch: How many examples at once, where what is chosen depends on it.
        """

    def require_memory(self, states: int, copies: int = 1) -> None:
        """Refuse a circuit whose states don't fit into what is free of this machine's memory.

        Args:
            states: How many are there at a time: 1 for readouts, 2 for their gradient.
            copies: How many processes on this machine do the same.

        Raises:
            CircuitError: It says how many bytes are needed and what would fit.
        """
        amplitude = COMPLEX_DTYPES["complex64" if self.dtype == tf.float32 else "complex128"].size
        memory.require_memory(len(self.qubits), amplitude, states, copies)

    def _taken(self, angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The arguments as tensors of `dtype` whose widths are checked."""
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
        if angles.shape[0] == 0:
            # TensorFlow folds constants of an empty batch, and dies of a division by zero.
            angles = tf.raw_ops.PlaceholderWithDefault(input=angles, shape=[None, len(self.inputs)])
        # Shapes may be known only when the graph runs.
        return (
            tf.ensure_shape(angles, [None, len(self.inputs)]),
            tf.ensure_shape(parameters, [len(self.parameters)]),
        )

    def _whole_state(self) -> None:
        if self.readouts:
            raise ValueError(
                f"this simulator reads {self.readouts} observables and has no state to give:"
                " build it with observables=()"
            )
