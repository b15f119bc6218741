"""The plain TensorFlow engine: a reference that applies the blocks of a program one by one."""

from collections.abc import Sequence
from typing import final

import numpy as np

from qfleet.compiler.circuit.observables import MeasurementBasis, measurement_bases
from qfleet.compiler.state.initial_state import MAX_NORM_ERROR
from qfleet.compiler.state.program import Program
from qfleet.engine.memory import TENSORFLOW_QUBITS
from qfleet.errors import CircuitError
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.matrices import BlockMatrices
from qfleet.tensorflow.simulator import COMPLEX_DTYPES, REAL_DTYPES, Simulator


@final
class TensorFlowSimulator(Simulator):
    """Runs a program with TensorFlow operations, on CPU or GPU, differentiated by TensorFlow.

    Args:
        program: The program.
        dtype: "complex64" or "complex128".

    Raises:
        CircuitError: The circuit is too wide.
    """

    def __init__(self, program: Program, *, dtype: str = "complex64") -> None:
        if (width := len(program.qubits)) > TENSORFLOW_QUBITS:
            raise CircuitError(
                f"the circuit has {width} qubits, and plain TensorFlow simulates at most"
                f" {TENSORFLOW_QUBITS}: use fewer qubits, or the simulator qfleet"
            )
        self.program = program
        self.inputs, self.parameters = program.inputs, program.parameters
        self.readouts, self.qubits = program.readouts, program.qubits
        self.takes_states = program.takes_states
        self.dtype, self._complex = REAL_DTYPES[dtype], COMPLEX_DTYPES[dtype]
        self._matrices = BlockMatrices(program, self._complex)
        self._bases = [
            _ParityReadout(basis, len(self.qubits), dtype)
            for basis in measurement_bases(program.terms)
        ]

    def describe(self, batch: int | None = None) -> str:
        """Describe the compiled program; see Simulator.describe."""
        return f"plain TensorFlow, {self.dtype.name}: {self.program}"

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def expectation(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Compute the readouts; see Simulator.expectation."""
        symbols = self._checked_arguments(angles, parameters, *initial_states)
        state = self._evolve(*symbols)
        values = tf.constant(self.program.terms.offsets[np.newaxis], self.dtype)
        for basis in self._bases:
            values += basis(state)
        return tf.broadcast_to(values, [tf.shape(symbols[0])[0], self.readouts])

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def state(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Compute the state vectors; see Simulator.state."""
        self._require_state_output()
        symbols = self._checked_arguments(angles, parameters, *initial_states)
        state = self._evolve(*symbols)
        return tf.broadcast_to(state, [tf.shape(symbols[0])[0], 2 ** len(self.qubits)])

    def _evolve(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Return the states [B, 2**N]; [1, 2**N] if nothing differs per example."""
        state = _of_norm_one(*initial_states) if initial_states else self._initial_state()
        matrices = self._matrices(angles, parameters)
        for block, matrix in zip(self.program.blocks, matrices, strict=True):
            state = _apply(matrix, block.qubits, state, len(self.qubits))
        return state

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; a gradient keeps the state of each block.

        Measured are 80 states for 56 blocks.
        """
        kept = len(self.program.blocks) if states > 1 else 0
        super().require_memory(states + kept, processes)

    def _initial_state(self) -> tf.Tensor:
        """Return the state [1, 2**N] before the first block; a constant only where it is given."""
        initial = self.program.initial
        if initial is not None:
            return tf.constant(initial.reshape(1, -1).astype(self._complex.as_numpy_dtype))
        zeros = tf.zeros([1, 2 ** len(self.qubits) - 1], self._complex)
        return tf.concat([tf.ones([1, 1], self._complex), zeros], axis=1)


def _of_norm_one(states: tf.Tensor) -> tf.Tensor:
    """Return states [B, 2**N] that a graph checks; `_checked_arguments` did so without one."""
    if tf.executing_eagerly():
        return states
    norms = tf.norm(tf.math.abs(tf.stop_gradient(states)), axis=1)
    message = f"initial_states do not have the norm 1, to {MAX_NORM_ERROR:g}: normalize them"
    is_valid = tf.reduce_all(tf.math.abs(norms - 1) < MAX_NORM_ERROR)
    with tf.control_dependencies([tf.debugging.Assert(is_valid, [message, norms])]):
        return tf.identity(states)


def _apply(matrix: tf.Tensor, qubits: tuple[int, ...], state: tf.Tensor, width: int) -> tf.Tensor:
    """Apply matrices to one or two qubits of states.

    Args:
        matrix: [B, D, D] or [1, D, D].
        qubits: Positions; the first is the matrix's most significant bit.
        state: [B, 2**width] or [1, 2**width].
        width: Qubits of the states.
    """
    low, high = min(qubits), max(qubits)
    after = 2 ** (width - high - 1)
    if low == high:
        state = tf.reshape(state, [-1, 2**low, 2, after])
        return tf.reshape(tf.einsum("...ij,...ajb->...aib", matrix, state), [-1, 2**width])
    state = tf.reshape(state, [-1, 2**low, 2, 2 ** (high - low - 1), 2, after])
    matrix = tf.reshape(matrix, [-1, 2, 2, 2, 2])
    order = "ijkl" if qubits[0] == low else "jilk"  # of the matrix's bits: out, then in
    return tf.reshape(tf.einsum(f"...{order},...akblc->...aibjc", matrix, state), [-1, 2**width])


class _ParityReadout:
    """Reads the Pauli strings of one basis as parities of bit patterns."""

    def __init__(self, basis: MeasurementBasis, width: int, dtype: str) -> None:
        self._width = width
        self._rotations = [
            (block.qubits, block.factors[0].matrix[np.newaxis].astype(dtype))
            for block in basis.rotations
        ]
        # The sign of a pattern is the product of the signs of its two halves.
        real = REAL_DTYPES[dtype].as_numpy_dtype
        self._high = _signs(range(width // 2), basis.strings).astype(real)  # [T, H]
        self._low = _signs(range(width // 2, width), basis.strings).astype(real)  # [T, L]
        self._weights = basis.weights.astype(real)  # [T, K]

    def __call__(self, state: tf.Tensor) -> tf.Tensor:
        """Return [B, K] values of states [B, 2**N]."""
        for qubits, matrix in self._rotations:
            state = _apply(matrix, qubits, state, self._width)
        probabilities = tf.math.real(state * tf.math.conj(state))
        shape = [-1, self._high.shape[1], self._low.shape[1]]
        signed = tf.einsum("bhl,th->btl", tf.reshape(probabilities, shape), self._high)
        return tf.matmul(tf.reduce_sum(signed * self._low, axis=2), self._weights)


def _signs(qubits: Sequence[int], strings: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Return [T, 2**len(qubits)] signs: the parity of each string's bits among these qubits."""
    result = np.ones((len(strings), 1))
    for qubit in qubits:
        bit = np.array([[1, -1] if qubit in string else [1, 1] for string in strings])
        result = (result[:, :, None] * bit[:, None, :]).reshape(len(strings), -1)
    return result
