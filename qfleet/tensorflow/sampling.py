"""Finite shots: basis states drawn from the exact state, and readouts estimated from them.

Everything is stateless: the same seed gives the same shots for the same angles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import cirq
import numpy as np

from qfleet.compiler import observables
from qfleet.compiler.expressions import symbol_names
from qfleet.compiler.parameter_shift import ShiftedSymbols, shiftable_circuit
from qfleet.compiler.program import check_symbols
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import Simulator


def draw_shots(state: tf.Tensor, shots: int, seed: tf.Tensor) -> tf.Tensor:
    """Measure all qubits.

    Args:
        state: [B, 2**N] complex.
        shots: How often each example's state is measured.
        seed: [2] integers; each value gives other shots.

    Returns:
        [B, shots] int64: the bit patterns found, the first qubit in the highest bit.
    """
    chances = tf.cast(tf.square(tf.abs(state)), tf.float64)
    reached = tf.cumsum(chances, axis=1)  # rounding makes the last not quite 1
    drawn = tf.random.stateless_uniform(
        [tf.shape(state)[0], shots], seed, dtype=tf.float64, alg="philox"
    )
    # The first pattern whose sum is greater, which one of chance 0 never is.
    return tf.searchsorted(reached, drawn * reached[:, -1:], side="right", out_type=tf.int64)


def sample_bits(patterns: tf.Tensor, qubits: int) -> tf.Tensor:
    """[B, shots] bit patterns -> int8 [B, shots, qubits] of 0 and 1."""
    places = tf.range(qubits - 1, -1, -1, tf.int64)
    return tf.cast(tf.bitwise.right_shift(patterns[..., tf.newaxis], places) & 1, tf.int8)


@dataclass(frozen=True)
class _Group:
    """Pauli strings that are read from the same shots.

    Attributes:
        simulator: Of the state, turned so that the strings are parities of bits.
        masks: [T] the bits of each string.
        weights: [T, K] of each string in each observable.
    """

    simulator: Simulator
    masks: np.ndarray
    weights: np.ndarray


class SampledReadouts:
    """Readouts estimated from shots, differentiated by the parameter-shift rule (shift.py).

    Strings that agree on every qubit they share are read from the same shots. A derivative takes
    two more measurements for each turn of the circuit, one after the other, so that memory holds
    one batch of states at a time.

    Args:
        circuit: Unitary gates.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients.
        shots: How often each group of strings is measured for each example.
        backend: As for `build`.
        dtype: As for `build`.

    Raises:
        CircuitError: The circuit, its symbols or the observables can't be taken.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        readouts: Sequence[cirq.PauliSum],
        *,
        shots: int,
        backend: Literal["qfleet", "tensorflow", "tfq"] = "qfleet",
        dtype: Literal["complex64", "complex128"] = "complex64",
    ) -> None:
        check_symbols(circuit, inputs, parameters)
        self.shots = shots
        sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
        wanted = {qubit for observable in sums for qubit in observable.qubits}
        parts = shiftable_circuit(circuit, inputs, wanted)
        self._data, self._shared = parts.data, parts.shared
        qubits = sorted(parts.circuit.all_qubits())
        terms = observables.collect(sums, {qubit: at for at, qubit in enumerate(qubits)})
        self._groups = []
        for basis in observables.measurement_bases(terms):
            turned = parts.circuit + [
                cirq.MatrixGate(block.factors[0].matrix).on(*(qubits[at] for at in block.qubits))
                for block in basis.rotations
            ]
            simulator = build_simulator(
                turned, self._data.names, self._shared.names, (), backend=backend, dtype=dtype
            )
            masks = [sum(1 << len(qubits) - 1 - at for at in string) for string in basis.strings]
            self._groups.append(_Group(simulator, np.array(masks), basis.weights))
        self._offsets = terms.offsets
        names = (*inputs, *parameters)
        trained = set(map(str, parameters))
        self._mixed = any(symbol_names(one) & trained for one in self._data.exponents)
        self._data_exponents = GateExponents(self._data.exponents, names, tf.float64)
        self._shared_exponents = GateExponents(
            self._shared.exponents, tuple(parameters), tf.float64
        )

    @tf.autograph.experimental.do_not_convert  # which would take longer than all the rest
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Estimated expectation values, differentiable by angles and parameters.

        Args:
            angles: [B, inputs] values of the data symbols.
            parameters: [parameters] values of the trained symbols.
            seed: [2] integers, of values and derivatives alike.

        Returns:
            [B, readouts], of the dtype of the angles.
        """
        real = angles.dtype
        angles, parameters = tf.cast(angles, tf.float64), tf.cast(parameters, tf.float64)
        shared = self._shared_exponents(parameters[tf.newaxis])[0]  # [G]
        if not self._mixed:  # then the turns of data have no slope by them
            parameters = tf.stop_gradient(parameters)
        together = tf.broadcast_to(parameters, [tf.shape(angles)[0], tf.shape(parameters)[0]])
        data = self._data_exponents(tf.concat([angles, together], axis=1))  # [B, F]

        def values(data: tf.Tensor, shared: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
            fresh = tf.random.experimental.stateless_fold_in(seed, number)
            return self._measure(data, shared, fresh)

        found = values(tf.stop_gradient(data), tf.stop_gradient(shared), tf.constant(0))
        # Each a term of its own, so that a derivative that nobody asks for is not measured.
        first = 1 + 2 * len(self._shared.names)
        found += _slopes(shared, self._shared, 1, found, lambda moved, at: values(data, moved, at))
        found += _slopes(
            data, self._data, first, found, lambda moved, at: values(moved, shared, at)
        )
        return tf.cast(found, real)

    def describe(self) -> str:
        """What will be measured, for a person to read."""
        turns = len(self._data.names) + len(self._shared.names)
        lines = [
            f"{self.shots} shots of each of {len(self._groups)} groups of Pauli strings, for a"
            f" gradient {2 * turns} times as many",
            *(group.simulator.describe() for group in self._groups),
        ]
        return "\n".join(lines)

    def _measure(self, data: tf.Tensor, shared: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """[B, K] float64 at [B, F] and [G] exponents."""
        batch = tf.shape(data)[0]
        values = tf.broadcast_to(self._offsets, [batch, len(self._offsets)])
        for index, group in enumerate(self._groups):
            real = group.simulator.dtype
            state = group.simulator.state(tf.cast(data, real), tf.cast(shared, real))
            fresh = tf.random.experimental.stateless_fold_in(seed, index)
            patterns = draw_shots(state, self.shots, fresh)
            odd = tf.raw_ops.PopulationCount(x=patterns[..., tf.newaxis] & group.masks) & 1
            means = 1 - 2 * tf.reduce_mean(tf.cast(odd, tf.float64), axis=1)  # [B, T]
            values += tf.matmul(means, group.weights)
        return values


def _slopes(
    exponents: tf.Tensor,
    turns: ShiftedSymbols,
    first: int,
    values: tf.Tensor,
    measure: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Zeros whose derivative by the exponents is that of the values, measured when asked for.

    Args:
        exponents: [G] or [B, G].
        turns: The G turns.
        first: Number of the first seed.
        values: [B, K].
        measure: Values at moved exponents, from the seed of that number.
    """
    if not turns.names:
        return tf.zeros_like(values)
    steps = np.diag(turns.shifts)
    scales = np.pi * turns.turns

    @tf.custom_gradient
    def zeros(exponents: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            def slope(at: tf.Tensor) -> tf.Tensor:
                step, number = tf.gather(steps, at), first + 2 * at
                ahead = measure(exponents + step, number)
                behind = measure(exponents - step, number + 1)
                each = tf.reduce_sum((ahead - behind) * upstream, axis=1) * tf.gather(scales, at)
                return each if exponents.shape.rank == 2 else tf.reduce_sum(each)

            slopes = tf.map_fn(
                slope, tf.range(len(scales)), parallel_iterations=1, fn_output_signature=tf.float64
            )
            return tf.transpose(slopes)

        return tf.zeros_like(values), gradient

    return zeros(exponents)
