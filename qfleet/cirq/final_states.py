"""Final states and amplitudes of circuits."""

from collections.abc import Iterator, Mapping, Sequence

import cirq
import numpy as np

from qfleet.argument_checks import checked, shown
from qfleet.circuit_checks import CIRCUIT
from qfleet.cirq import measurements as terminal
from qfleet.cirq.base import SimulatorBase
from qfleet.cirq.dynamic import NoForm
from qfleet.cirq.qubit_orders import ordered, ordered_qubits
from qfleet.cirq.sweeps import sweep_points, symbol_arguments, symbol_values
from qfleet.cirq.trial_result import trial_result
from qfleet.engine.basis_states import bits_of
from qfleet.errors import ArgumentError

MAX_SWEEP_BYTES = 256 << 20
"""Most bytes of states of a sweep that are computed in one call."""


class FinalStates(
    SimulatorBase,
    cirq.SimulatesFinalState[cirq.StateVectorTrialResult],
    cirq.SimulatesAmplitudes,
):
    """A simulator of final states. Abstract."""

    @checked(program=CIRCUIT)
    def simulate_sweep_iter(
        self,
        program: cirq.AbstractCircuit,
        params: cirq.Sweepable,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: cirq.STATE_VECTOR_LIKE | None = None,
    ) -> Iterator[cirq.StateVectorTrialResult]:
        """Simulate a circuit at every point of a sweep; see `cirq.SimulatesFinalState`.

        Args:
            program: The circuit.
            params: Values of the symbols.
            qubit_order: Order of the qubits, the first the most significant bit.
            initial_state: Basis state, state vector or product state; |0...0> unless given.

        Yields:
            A result per point. Measured qubits are collapsed.

        Raises:
            CircuitError: The circuit, a value or the initial state is not supported.
        """
        if self._is_dynamic(program, qubit_order, initial_state):
            for resolver in sweep_points(params):
                yield self._simulate_dynamic(program, resolver, qubit_order, initial_state)
            return
        parts = self._circuits.split(program)
        qubits = ordered_qubits(program.all_qubits(), qubit_order)
        resolvers = sweep_points(params)
        values = symbol_values(parts.names, resolvers)
        rows = max(1, MAX_SWEEP_BYTES // (self._dtype.itemsize << len(qubits)))
        for first in range(0, len(resolvers), rows):
            points = resolvers[first : first + rows]
            compiled = self._circuits.compile(parts, len(points), (), qubits, initial_state)
            states = compiled.state(*symbol_arguments(values[first : first + rows]))
            for resolver, state in zip(points, states, strict=True):
                yield self._trial_result(resolver, state, qubits, parts.measured)

    def _trial_result(
        self,
        resolver: cirq.ParamResolver,
        state: np.ndarray,
        qubits: Sequence[cirq.Qid],
        measured: Sequence[cirq.Operation],
    ) -> cirq.StateVectorTrialResult:
        found: Mapping[str, np.ndarray] = {}
        if measured:
            probabilities = np.square(np.abs(state)).astype(np.float64)
            cumulative = np.cumsum(probabilities)
            drawn = self._prng.random_sample() * cumulative[-1]
            index = int(np.searchsorted(cumulative, drawn, side="right"))
            bits = bits_of(np.array([index]), len(qubits))
            drawn_bits = terminal.outcomes_of(measured, bits, qubits)
            found = terminal.records(measured, drawn_bits, self._prng)
            collapsed = {qubit for operation in measured for qubit in operation.qubits}
            state = terminal.collapse(state, index, qubits, collapsed)
        return trial_result(resolver, found, state, qubits)

    def _simulate_dynamic(
        self,
        circuit: cirq.AbstractCircuit,
        resolver: cirq.ParamResolver,
        qubit_order: cirq.QubitOrderOrList,
        initial_state: cirq.STATE_VECTOR_LIKE | None,
    ) -> cirq.StateVectorTrialResult:
        """Return one trajectory of a circuit with more than gates and terminal measurements."""
        qubits = ordered(circuit.all_qubits(), qubit_order)
        try:
            records, state = self._draw(circuit, resolver, qubits, initial_state)
        except NoForm as reason:
            self._warn(str(reason))
            return self._cirq.simulate(circuit, resolver, qubit_order, initial_state)
        return trial_result(resolver, records, state, qubits)

    @checked(program=CIRCUIT)
    def compute_amplitudes_sweep_iter(
        self,
        program: cirq.AbstractCircuit,
        bitstrings: Sequence[int],
        params: cirq.Sweepable,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
    ) -> Iterator[Sequence[complex]]:
        """Compute some amplitudes at every point of a sweep; see `cirq.SimulatesAmplitudes`.

        Args:
            program: The circuit.
            bitstrings: [M] indices of basis states, the first qubit the most significant bit.
            params: Values of the symbols.
            qubit_order: Order of the qubits.

        Yields:
            [M] amplitudes at a point.

        Raises:
            ArgumentError: A bitstring is not the index of a basis state.
            CircuitError: The circuit or a value is not supported.
        """
        indices = np.asarray(bitstrings)
        if indices.ndim != 1 or (indices.size and not np.issubdtype(indices.dtype, np.integer)):
            raise ArgumentError(
                f"bitstrings is {shown(bitstrings)}: pass a 1-dimensional list of integers"
            )
        for result in self.simulate_sweep_iter(program, params, qubit_order):
            state = result.final_state_vector
            if indices.size and not 0 <= indices.min() <= indices.max() < len(state):
                raise ArgumentError(
                    f"bitstrings is {shown(bitstrings)}: the circuit has {len(state)} basis states"
                )
            yield state[indices.astype(np.int64)].tolist()

    @checked(circuit=CIRCUIT)
    def simulate_moment_steps(
        self,
        circuit: cirq.AbstractCircuit,
        param_resolver: cirq.ParamResolverOrSimilarType = None,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: cirq.STATE_VECTOR_LIKE | None = None,
    ) -> Iterator[cirq.SparseSimulatorStep]:
        """Simulate moment by moment; see `cirq.SimulatesIntermediateState`.

        Args:
            circuit: The circuit.
            param_resolver: Values of the symbols.
            qubit_order: Order of the qubits, the first the most significant bit.
            initial_state: As for `simulate_sweep_iter`.

        Returns:
            An iterator of Cirq's results of a step.
        """
        self._warn("single moments are asked for")
        steps: Iterator[cirq.SparseSimulatorStep] = self._cirq.simulate_moment_steps(
            circuit, param_resolver, qubit_order, initial_state
        )
        return steps
