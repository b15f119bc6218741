"""The plain-TensorFlow backend: dense 4x4 blocks applied to a batch of state vectors."""

from typing import final

import numpy as np

from common.simulator import evolution
from common.simulator.evolution import BATCH
from common.simulator.interface import REAL, Simulator
from common.simulator.matrices import Matrices
from common.simulator.observables import Basis, Reduced
from common.simulator.program import Program
from common.tensorflow import tf


@final
class DenseSimulator(Simulator):
    """Runs a program with TensorFlow operations, on CPU or GPU, differentiated by TensorFlow.

    Args:
        program: From compile_program.
        dtype: "complex64" or "complex128".
    """

    def __init__(self, program: Program, *, dtype: str = "complex64") -> None:
        self.program = program
        self.inputs, self.parameters = program.inputs, program.parameters
        self.readouts = len(program.readout.offsets)
        self.dtype = REAL[dtype]
        self._complex = np.dtype(dtype)
        self._order = tuple(range(len(program.qubits)))
        self._steps = evolution.schedule(program.blocks, self._order)
        self._matrices = Matrices(program.blocks, self.inputs, self.parameters, self.dtype)
        if program.readout.reduced is not None:
            self._tail = _Tail(program.readout.reduced, program, self.dtype)

    def describe(self) -> str:
        """What will be computed, for a person to read."""
        return f"plain TensorFlow, {self._complex.name}: {self.program}"

    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """See Simulator.expectation."""
        angles, parameters = self._taken(angles, parameters)
        batch = tf.shape(angles)[0]
        readout = self.program.readout
        offsets = tf.constant(readout.offsets, self.dtype)
        if readout.reduced is None and not readout.bases:
            return tf.zeros([batch, 1], self.dtype) + offsets
        matrices = self._matrices(angles, parameters)
        state, order = evolution.evolve(self._initial(), self._order, self._steps, matrices)
        if BATCH not in order:
            order = (BATCH, *order)
        if readout.reduced is not None:
            values = self._tail(state, order, angles, parameters)
        else:
            values = tf.add_n([self._read(state, order, basis) for basis in readout.bases])
        return tf.broadcast_to(values + offsets, [batch, self.readouts])

    def _initial(self) -> tf.Tensor:
        """[2**N] complex."""
        size = 2 ** len(self.program.qubits)
        if self.program.initial is None:
            return tf.one_hot(0, size, dtype=self._complex)
        return tf.constant(self.program.initial, self._complex)

    def _read(self, state: tf.Tensor, order: evolution.Order, basis: Basis) -> tf.Tensor:
        """[B, K] the strings of one basis."""
        for qubit, rotation in basis.rotations.items():
            if order[0] != qubit:
                wanted = (qubit, *(axis for axis in order if axis != qubit))
                state, order = evolution.transpose(state, order, wanted), wanted
            state = tf.reshape(state, [2, -1])
            state = tf.matmul(
                state, tf.constant(rotation, self._complex), transpose_a=True, transpose_b=True
            )
            order = (*order[1:], qubit)
        chances = tf.square(tf.math.real(state)) + tf.square(tf.math.imag(state))
        qubits = tuple(axis for axis in order if axis != BATCH)
        chances = evolution.transpose(chances, order, (BATCH, *qubits))
        # The sign of a bit pattern is a product over its bits, so over its two halves.
        half = len(qubits) // 2
        high = _signs(qubits[:half], basis.strings).T  # [2**half, T]
        low = _signs(qubits[half:], basis.strings)  # [T, 2**(N - half)]
        shape = [-1, 2 ** (len(qubits) - half)]
        partial = tf.matmul(tf.reshape(chances, shape), tf.constant(low.T, self.dtype))
        partial = tf.reshape(partial, [-1, 2**half, len(basis.strings)])
        values = tf.reduce_sum(partial * tf.constant(high, self.dtype), axis=1)  # [B, T]
        return tf.matmul(values, tf.constant(basis.weights, self.dtype))


def _signs(qubits: tuple[int, ...], strings: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """[T, 2**len(qubits)] of +-1: the parity of each string's bits among these qubits."""
    signs = np.ones((len(strings), 1))
    for qubit in qubits:
        bit = np.array([[1, -1] if qubit in string else [1, 1] for string in strings])
        signs = (signs[:, :, None] * bit[:, None, :]).reshape(len(strings), -1)
    return signs


class _Tail:
    """Measures dense operators through the reduced density matrix of their qubits.

    `<O> = tr(rho V^dagger O V)`, with V the tail's blocks, once for the whole batch.
    """

    def __init__(self, reduced: Reduced, program: Program, real: tf.DType) -> None:
        self._support = reduced.support
        self._operators = reduced.operators
        self._complex = np.complex64 if real == tf.float32 else np.complex128
        self._order = (*range(len(reduced.support)), BATCH)  # the batch is V's columns
        self._steps = evolution.schedule(reduced.tail, self._order)
        self._matrices = Matrices(reduced.tail, (), program.parameters, real)

    def __call__(
        self, state: tf.Tensor, order: evolution.Order, angles: tf.Tensor, parameters: tf.Tensor
    ) -> tf.Tensor:
        size = 2 ** len(self._support)
        rest = tuple(axis for axis in order if axis not in (BATCH, *self._support))
        state = evolution.transpose(state, order, (BATCH, *self._support, *rest))
        state = tf.reshape(state, [-1, size, 2 ** len(rest)])
        density = tf.matmul(state, state, adjoint_b=True)  # [B, D, D]
        operators = self._heard(angles, parameters)  # [K, D, D]
        flat = tf.reshape(tf.linalg.matrix_transpose(operators), [-1, size * size])
        values = tf.matmul(tf.reshape(density, [-1, size * size]), flat, transpose_b=True)
        return tf.math.real(values)

    def _heard(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """The operators with the tail applied to them."""
        operators = tf.constant(self._operators, self._complex)
        if not self._steps:
            return operators
        size = 2 ** len(self._support)
        unitary = tf.reshape(tf.eye(size, dtype=self._complex), [-1])
        matrices = self._matrices(angles, parameters)
        unitary, order = evolution.evolve(unitary, self._order, self._steps, matrices)
        unitary = evolution.transpose(unitary, order, self._order)
        unitary = tf.reshape(unitary, [size, size])
        return tf.matmul(unitary, tf.matmul(operators, unitary), adjoint_a=True)


