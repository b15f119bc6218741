"""Finite shots: bit patterns sampled from the exact state, and readouts estimated from them.

All functions are stateless: the same seed gives the same shots for the same angles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cirq
import numpy as np

from qfleet.compiler.circuit import observables
from qfleet.compiler.circuit.expressions import used_names
from qfleet.compiler.circuit.parameter_shift import ShiftedSymbols, shiftable_circuit
from qfleet.compiler.circuit.symbols import check_symbols
from qfleet.tensorflow.backends import Backend, Dtype, build_simulator
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.simulator import Simulator


def draw_shots(state: tf.Tensor, shots: int, seed: tf.Tensor) -> tf.Tensor:
    """Measure all qubits.

    Args:
        state: [B, 2**N] complex.
        shots: Measurements per example.
        seed: [2] integers; different seeds give different shots.

    Returns:
        [B, shots] int64 bit patterns, the first qubit in the highest bit.
    """
    probabilities = tf.cast(tf.square(tf.abs(state)), tf.float64)
    cumulative = tf.cumsum(probabilities, axis=1)  # the last is 1 up to rounding
    uniform = tf.random.stateless_uniform(
        [tf.shape(state)[0], shots], seed, dtype=tf.float64, alg="philox"
    )
    # The first pattern with a greater sum, which excludes patterns of probability 0.
    return tf.searchsorted(
        cumulative, uniform * cumulative[:, -1:], side="right", out_type=tf.int64
    )


def sample_bits(patterns: tf.Tensor, qubits: int) -> tf.Tensor:
    """Return int8 [B, shots, qubits] bits of [B, shots] bit patterns."""
    places = tf.range(qubits - 1, -1, -1, tf.int64)
    return tf.cast(tf.bitwise.right_shift(patterns[..., tf.newaxis], places) & 1, tf.int8)


@dataclass(frozen=True)
class _StringGroup:
    """Pauli strings that are read from the same shots.

    Attributes:
        simulator: Gives the state, rotated so that the strings are parities of bits.
        masks: [T] bit mask of each string.
        weights: [T, K] weight of each string in each observable.
    """

    simulator: Simulator
    masks: np.ndarray
    weights: np.ndarray


class SampledReadouts:
    """Readouts estimated from shots, differentiated by the parameter-shift rule.

    Strings that agree on every qubit they share are read from the same shots. A derivative takes
    two more measurements per shifted symbol (see parameter_shift.py), in sequence, so that memory
    holds one batch of states at a time.

    Args:
        circuit: Unitary gates.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients.
        shots: Measurements of each group of strings per example.
        backend: As for `build_simulator`.
        dtype: As for `build_simulator`.

    Raises:
        CircuitError: The circuit, its symbols or the observables are not supported.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        readouts: Sequence[cirq.PauliSum],
        *,
        shots: int,
        backend: Backend = "qfleet",
        dtype: Dtype = "complex64",
    ) -> None:
        check_symbols(circuit, inputs, parameters)
        self.shots = shots
        sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
        measured = {qubit for observable in sums for qubit in observable.qubits}
        shiftable = shiftable_circuit(circuit, inputs, measured)
        self._data, self._shared = shiftable.data, shiftable.shared
        qubits = sorted(shiftable.circuit.all_qubits())
        terms = observables.collect(sums, {qubit: at for at, qubit in enumerate(qubits)})
        self._groups = []
        for basis in observables.measurement_bases(terms):
            rotated = shiftable.circuit + [
                cirq.MatrixGate(block.factors[0].matrix).on(*(qubits[at] for at in block.qubits))
                for block in basis.rotations
            ]
            simulator = build_simulator(
                rotated, self._data.names, self._shared.names, (), backend=backend, dtype=dtype
            )
            masks = [sum(1 << len(qubits) - 1 - at for at in string) for string in basis.strings]
            self._groups.append(_StringGroup(simulator, np.array(masks), basis.weights))
        self._offsets = terms.offsets
        names = (*inputs, *parameters)
        self._mixed = bool(used_names(self._data.exponents, map(str, parameters)))
        self._data_exponents = GateExponents(self._data.exponents, names, tf.float64)
        self._shared_exponents = GateExponents(
            self._shared.exponents, tuple(parameters), tf.float64
        )

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Estimate expectation values, differentiable by angles and parameters.

        Args:
            angles: [B, inputs] values of the data symbols.
            parameters: [parameters] values of the trained symbols.
            seed: [2] integers, for values and derivatives.

        Returns:
            [B, readouts], of the dtype of the angles.
        """
        real = angles.dtype
        angles, parameters = tf.cast(angles, tf.float64), tf.cast(parameters, tf.float64)
        shared = self._shared_exponents(parameters[tf.newaxis])[0]  # [G]
        if not self._mixed:  # then the data exponents have no gradient by them
            parameters = tf.stop_gradient(parameters)
        rows = tf.broadcast_to(parameters, [tf.shape(angles)[0], tf.shape(parameters)[0]])
        data = self._data_exponents(tf.concat([angles, rows], axis=1))  # [B, F]

        def measure(data: tf.Tensor, shared: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
            own_seed = tf.random.experimental.stateless_fold_in(seed, number)
            return self._measure(data, shared, own_seed)

        values = measure(tf.stop_gradient(data), tf.stop_gradient(shared), tf.constant(0))
        # Two separate terms, so that a derivative that is not needed is not measured.
        first = 1 + 2 * len(self._shared.names)
        values += _with_shift_gradient(
            shared, self._shared, 1, values, lambda shifted, at: measure(data, shifted, at)
        )
        values += _with_shift_gradient(
            data, self._data, first, values, lambda shifted, at: measure(shifted, shared, at)
        )
        return tf.cast(values, real)

    def describe(self) -> str:
        """Describe the measurements and the simulators as text."""
        symbols = len(self._data.names) + len(self._shared.names)
        lines = [
            f"{self.shots} shots of each of {len(self._groups)} groups of Pauli strings,"
            f" {2 * symbols} times as many for a gradient",
            *(group.simulator.describe() for group in self._groups),
        ]
        return "\n".join(lines)

    @property
    def simulators(self) -> tuple[Simulator, ...]:
        """The simulator of each group of strings."""
        return tuple(group.simulator for group in self._groups)

    def _measure(self, data: tf.Tensor, shared: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Return [B, K] float64 estimates at [B, F] and [G] exponents."""
        batch = tf.shape(data)[0]
        values = tf.broadcast_to(self._offsets, [batch, len(self._offsets)])
        for index, group in enumerate(self._groups):
            real = group.simulator.dtype
            state = group.simulator.state(tf.cast(data, real), tf.cast(shared, real))
            group_seed = tf.random.experimental.stateless_fold_in(seed, index)
            patterns = draw_shots(state, self.shots, group_seed)
            odd = tf.raw_ops.PopulationCount(x=patterns[..., tf.newaxis] & group.masks) & 1
            means = 1 - 2 * tf.reduce_mean(tf.cast(odd, tf.float64), axis=1)  # [B, T]
            values += tf.matmul(means, group.weights)
        return values


def _with_shift_gradient(
    exponents: tf.Tensor,
    symbols: ShiftedSymbols,
    first: int,
    values: tf.Tensor,
    measure: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Return zeros whose derivative by the exponents is that of the values.

    The derivative is measured only when it is needed.

    Args:
        exponents: [G] or [B, G].
        symbols: The G shifted symbols.
        first: Number of the first seed.
        values: [B, K].
        measure: Returns the values at shifted exponents, from the seed of a number.
    """
    if not symbols.names:
        return tf.zeros_like(values)
    steps = np.diag(symbols.shifts)
    scales = np.pi * symbols.half_turns

    @tf.custom_gradient
    def zeros(exponents: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            def derivative(at: tf.Tensor) -> tf.Tensor:
                step, number = tf.gather(steps, at), first + 2 * at
                plus = measure(exponents + step, number)
                minus = measure(exponents - step, number + 1)
                rows = tf.reduce_sum((plus - minus) * upstream, axis=1) * tf.gather(scales, at)
                return rows if exponents.shape.rank == 2 else tf.reduce_sum(rows)

            derivatives = tf.map_fn(
                derivative,
                tf.range(len(scales)),
                parallel_iterations=1,
                fn_output_signature=tf.float64,
            )
            return tf.transpose(derivatives)

        return tf.zeros_like(values), gradient

    return zeros(exponents)
