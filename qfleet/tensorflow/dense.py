"""The plain TensorFlow engine: dense blocks applied to a batch of state vectors."""

from collections.abc import Sequence
from typing import final

import numpy as np

from qfleet.compiler.dense_fusion import FusedBlock, PhaseLayer
from qfleet.compiler.observables import MeasurementBasis, ReducedReadout
from qfleet.compiler.program import Program
from qfleet.tensorflow import evolution
from qfleet.tensorflow.evolution import BATCH, PART, AxisOrder
from qfleet.tensorflow.matrices import BlockMatrices, as_real
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import REAL_DTYPES, Simulator


@final
class TensorFlowSimulator(Simulator):
    """Runs a program with TensorFlow operations, on CPU or GPU, differentiated by TensorFlow.

    Args:
        program: A program that was compiled with the target "tensorflow".
        dtype: "complex64" or "complex128".
    """

    def __init__(self, program: Program, *, dtype: str = "complex64") -> None:
        self.program = program
        self.inputs, self.parameters = program.inputs, program.parameters
        readout = program.readout
        self.readouts = len(readout.offsets)
        self.qubits = program.qubits
        self.dtype = REAL_DTYPES[dtype]
        names = (*self.inputs, *self.parameters)
        self._order: AxisOrder = (PART, *range(len(program.qubits)))
        steps = _drop_global_phases(program.steps) if self.readouts else program.steps
        self._plans = evolution.schedule(steps, self._order, names=names, real=self.dtype)
        blocks = list(program.blocks)
        order = self._plans[-1].order if self._plans else self._order
        self._bases: list[_ParityReadout] = []
        for basis in readout.bases:
            plans = evolution.schedule(basis.rotations, order, first=len(blocks))
            blocks += basis.rotations
            self._bases.append(_ParityReadout(basis, order, plans, self.dtype))
        self._operators: _OperatorReadout | None = None
        if readout.reduced is not None:
            self._operators = _OperatorReadout(readout.reduced, len(blocks), self.dtype)
            blocks += readout.reduced.tail
        # All matrices at once: a batch of small products costs little more than one.
        self._matrices = BlockMatrices(blocks, self.parameters, self.dtype)

    def describe(self, batch: int | None = None) -> str:
        """Describe the compiled program; see Simulator.describe."""
        return f"plain TensorFlow, {self.dtype.name}: {self.program}"

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the readouts; see Simulator.expectation."""
        angles, parameters = self._checked_arguments(angles, parameters)
        batch = tf.shape(angles)[0]
        matrices = self._matrices(parameters)
        state, order = self._evolve(angles, parameters, matrices)
        values = tf.constant(self.program.readout.offsets[:, np.newaxis], self.dtype)  # [K, 1]
        for strings in self._bases:
            values += strings(state, matrices)
        if self._operators is not None:
            values += self._operators(state, order, matrices)
        return tf.broadcast_to(evolution.permute(values, [1, 0]), [batch, self.readouts])

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the state vectors; see Simulator.state."""
        self._require_state_output()
        angles, parameters = self._checked_arguments(angles, parameters)
        state, order = self._evolve(angles, parameters, self._matrices(parameters))
        batch = [BATCH] if BATCH in order else []
        state = evolution.transpose(state, order, (PART, *batch, *range(len(self.qubits))))
        size = 2 ** len(self.qubits)
        real, imaginary = tf.unstack(tf.reshape(state, [2, -1, size]), num=2)
        return tf.broadcast_to(tf.complex(real, imaginary), [tf.shape(angles)[0], size])

    def _evolve(
        self, angles: tf.Tensor, parameters: tf.Tensor, matrices: dict[int, tf.Tensor]
    ) -> tuple[tf.Tensor, AxisOrder]:
        """Return the state after all steps, and the order of its axes."""
        shared = tf.broadcast_to(parameters, [tf.shape(angles)[0], len(self.parameters)])
        symbols = tf.concat([angles, shared], axis=1)  # [B, V]
        state = tf.constant(self._initial_state(), self.dtype)
        return evolution.evolve(state, self._order, self._plans, matrices, symbols)

    def _initial_state(self) -> np.ndarray:
        """Return [2, 2**N] real and imaginary parts."""
        initial = self.program.initial
        if initial is None:
            initial = np.zeros(2 ** len(self.program.qubits), np.complex64)
            initial[0] = 1
        return np.stack([initial.real, initial.imag])


def _drop_global_phases(steps: Sequence[FusedBlock | PhaseLayer]) -> list[FusedBlock | PhaseLayer]:
    """Drop phases on no qubit: expectation values do not depend on them."""
    kept: list[FusedBlock | PhaseLayer] = []
    for step in steps:
        if isinstance(step, PhaseLayer):
            step = PhaseLayer(tuple(phase for phase in step.phases if phase.qubits))
        if isinstance(step, FusedBlock) or step.phases:
            kept.append(step)
    return kept


class _ParityReadout:
    """Reads the Pauli strings of one basis as parities of bit patterns."""

    def __init__(
        self,
        basis: MeasurementBasis,
        order: AxisOrder,
        plans: list[evolution.ProductState | evolution.Phases],
        real: tf.DType,
    ) -> None:
        self._order = order
        self._plans = plans
        after = plans[-1].order if plans else order
        qubits = [axis for axis in after if axis not in (PART, BATCH)]
        # The sign of a pattern is the product of the signs of its two halves.
        half = len(qubits) // 2
        numpy = real.as_numpy_dtype
        self._high = evolution.signs(qubits[:half], basis.strings).astype(numpy)  # [T, H]
        self._low = evolution.signs(qubits[half:], basis.strings).astype(numpy)  # [T, L]
        self._weights = basis.weights.T.astype(numpy)  # [K, T]

    def __call__(self, state: tf.Tensor, matrices: dict[int, tf.Tensor]) -> tf.Tensor:
        """Return [K, B] values of a state with the axes of `order`."""
        state, _ = evolution.evolve(state, self._order, self._plans, matrices)
        strings, high = self._high.shape
        low = self._low.shape[1]
        probabilities = tf.reduce_sum(
            tf.square(tf.reshape(state, [2, high, -1])), axis=0
        )  # [H, L * B]
        signed = tf.reshape(tf.matmul(self._high, probabilities), [strings, low, -1])
        values = tf.reduce_sum(signed * self._low[:, :, np.newaxis], axis=1)  # [T, B]
        return tf.matmul(self._weights, values)


class _OperatorReadout:
    """Reads dense operators: `<O> = <psi| V^dagger O V |psi>` with the tail's blocks V."""

    def __init__(self, reduced: ReducedReadout, first: int, real: tf.DType) -> None:
        self._support = reduced.support
        self._order: AxisOrder = (PART, *range(len(self._support)), BATCH)  # BATCH: V's columns
        self._plans = evolution.schedule(reduced.tail, self._order, first=first)
        operators = as_real(reduced.operators).astype(real.as_numpy_dtype)
        self._operators = np.ascontiguousarray(operators.transpose(1, 0, 2))  # [2 D, K, 2 D]

    def __call__(
        self, state: tf.Tensor, order: AxisOrder, matrices: dict[int, tf.Tensor]
    ) -> tf.Tensor:
        """Return [K, B] values."""
        size, count = self._operators.shape[:2]
        batch = [BATCH] if BATCH in order else []
        rest = [axis for axis in order if axis not in (PART, BATCH, *self._support)]
        state = evolution.transpose(state, order, (PART, *self._support, *rest, *batch))
        state = tf.reshape(state, [size, -1])
        moved = tf.matmul(self._after_tail(matrices), state)
        rest_size = 2 ** len(rest)
        moved = tf.reshape(moved, [size, count, rest_size, -1])
        products = moved * tf.reshape(state, [size, 1, rest_size, -1])
        return tf.reduce_sum(products, axis=[0, 2])

    def _after_tail(self, matrices: dict[int, tf.Tensor]) -> tf.Tensor:
        """Return [2 D * K, 2 D] operators with the tail applied, interleaved by rows."""
        operators = tf.constant(self._operators)
        size, count = self._operators.shape[:2]
        if not self._plans:
            return tf.reshape(operators, [size * count, size])
        columns, order = evolution.evolve(
            tf.eye(size, dtype=operators.dtype), self._order, self._plans, matrices
        )
        columns = tf.reshape(evolution.transpose(columns, order, self._order), [size, size])
        operators = tf.reshape(operators, [size, count * size])
        left = tf.matmul(columns, operators, transpose_a=True)  # [2 D, K * 2 D]
        return tf.matmul(tf.reshape(left, [size * count, size]), columns)
