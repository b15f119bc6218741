"""Cirq's simulator interfaces on the engine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import cirq
import numpy as np
from cirq import Simulator as CirqSimulator
from numpy.typing import DTypeLike

from qfleet.argument_checks import checked, flag, integer, shown
from qfleet.circuit_checks import CIRCUIT
from qfleet.circuit_checks import qubit as checked_qubit
from qfleet.cirq import fallback
from qfleet.cirq import measurements as terminal
from qfleet.cirq.compiled_circuits import CompiledCircuits, initial_vector
from qfleet.cirq.dynamic import NoForm
from qfleet.cirq.sweeps import sweep_points, symbol_values
from qfleet.cirq.trial_result import trial_result
from qfleet.engine.arguments import checked_dtype, checked_observables
from qfleet.engine.basis_states import bits_of
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.state_methods import MAX_SHOTS
from qfleet.errors import ArgumentError

MAX_SWEEP_BYTES = 256 << 20
"""Most bytes of states of a sweep that are computed in one call."""


class Simulator(
    cirq.SimulatesSamples,
    cirq.SimulatesFinalState[cirq.StateVectorTrialResult],
    cirq.SimulatesExpectationValues,
    cirq.SimulatesAmplitudes,
):
    """A state-vector simulator with the interfaces of `cirq.Simulator`, and adjoint gradients.

    All points of a sweep are computed in one call of the engine. Compiled circuits are cached: a
    circuit with symbols is compiled once for all values.

    Circuits with noise, resets, measurements before the end and classical control are run by
    trajectories of the engine, which share their states until they differ. A final state, or an
    expectation value, is of one trajectory. `cirq.Simulator` computes what the engine has no form
    for, with a FallbackWarning: qudits, loops until an outcome, and single moments.

    Args:
        dtype: np.complex64 or np.complex128, of the state.
        noise: Noise model or channel after each moment, as for `cirq.Simulator`.
        seed: Seed of sampled measurements, as for `cirq.Simulator`.
        split_untangled_states: As for `cirq.Simulator`, which it is passed to; the engine evolves
            one state of all qubits.
    """

    def __init__(
        self,
        *,
        dtype: DTypeLike = np.complex64,
        noise: cirq.NOISE_MODEL_LIKE = None,
        seed: cirq.RANDOM_STATE_OR_SEED_LIKE = None,
        split_untangled_states: bool = True,
    ) -> None:
        self._dtype = np.dtype(checked_dtype(dtype))
        try:
            self._prng = cirq.value.parse_random_state(seed)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"seed is {shown(seed)}: {error}") from None
        # parse_random_state returns any other object as it is.
        if not isinstance(self._prng, np.random.RandomState) and self._prng is not np.random:
            raise ArgumentError(
                f"seed is {shown(seed)}: pass an integer, a numpy.random.RandomState or None"
            )
        try:
            self._noise = cirq.NoiseModel.from_noise_model_like(noise)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"noise is {shown(noise)}: {error}") from None
        self._circuits = CompiledCircuits(self._dtype)
        self._warned: set[str] = set()
        self._cirq = CirqSimulator(
            dtype=self._dtype.type,
            noise=self._noise,
            seed=self._prng,
            split_untangled_states=flag(split_untangled_states, "split_untangled_states"),
        )

    @property
    def noise(self) -> cirq.NoiseModel:
        """The noise model."""
        return self._noise

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
        qubits = _ordered_qubits(program.all_qubits(), qubit_order)
        resolvers = sweep_points(params)
        values = symbol_values(parts.names, resolvers)
        rows = max(1, MAX_SWEEP_BYTES // (self._dtype.itemsize << len(qubits)))
        for first in range(0, len(resolvers), rows):
            points = resolvers[first : first + rows]
            compiled = self._circuits.compile(parts, len(points), (), qubits, initial_state)
            states = compiled.state(*_arguments(values[first : first + rows]))
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
        qubits = _ordered(circuit.all_qubits(), qubit_order)
        try:
            records, state = self._draw(circuit, resolver, qubits, initial_state)
        except NoForm as reason:
            self._warn(str(reason))
            return self._cirq.simulate(circuit, resolver, qubit_order, initial_state)
        return trial_result(resolver, records, state, qubits)

    def _draw(
        self,
        circuit: cirq.AbstractCircuit,
        resolver: cirq.ParamResolver,
        qubits: Sequence[cirq.Qid],
        initial_state: cirq.STATE_VECTOR_LIKE | None,
    ) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
        """Return the records and the final state [2**N] of a trajectory.

        Raises:
            NoForm: The engine has no form for the circuit.
        """
        if isinstance(initial_state, cirq.SimulationStateBase):
            raise NoForm("initial_state is a simulation state")
        if reason := fallback.reason_of_qubits(qubits):
            raise NoForm(reason)
        start = initial_vector(initial_state, qubits)
        dynamic = self._circuits.dynamic(
            circuit, resolver, self._noise, qubits, takes_state=start is not None
        )
        return dynamic.final_state(start, self._prng)

    @checked(program=CIRCUIT, permit_terminal_measurements=flag)
    def simulate_expectation_values_sweep_iter(
        self,
        program: cirq.AbstractCircuit,
        observables: cirq.PauliSumLike | list[cirq.PauliSumLike],
        params: cirq.Sweepable,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: cirq.STATE_VECTOR_LIKE | None = None,
        permit_terminal_measurements: bool = False,
    ) -> Iterator[list[float]]:
        """Compute expectation values at every point; see `cirq.SimulatesExpectationValues`.

        Args:
            program: The circuit.
            observables: One observable or several, with real coefficients.
            params: Values of the symbols.
            qubit_order: Order of the qubits, for `initial_state`.
            initial_state: As for `simulate_sweep_iter`.
            permit_terminal_measurements: If measurements at the end are ignored, not refused.

        Yields:
            The values of all observables at a point.

        Raises:
            CircuitError: The circuit, a value, an observable or the initial state is not supported.
            ValueError: The circuit has measurements that are not permitted.
        """
        if (points := _without_values(observables, params)) is not None:
            yield from ([] for _ in range(points))
            return
        if self._is_dynamic(program, qubit_order, initial_state):
            for resolver in sweep_points(params):
                yield self._dynamic_values(
                    *(program, observables, resolver, qubit_order, initial_state),
                    permit_terminal_measurements,
                )
            return
        case = self._expectation_case(
            program, observables, params, qubit_order, initial_state, permit_terminal_measurements
        )
        compiled, values = case
        yield from compiled.expectation(*_arguments(values)).tolist()

    def _dynamic_values(
        self,
        circuit: cirq.AbstractCircuit,
        observables: cirq.PauliSumLike | list[cirq.PauliSumLike],
        resolver: cirq.ParamResolver,
        qubit_order: cirq.QubitOrderOrList,
        initial_state: cirq.STATE_VECTOR_LIKE | None,
        permit_terminal_measurements: bool,
    ) -> list[float]:
        """Return the values of the final state of a trajectory."""
        _check_measurements(circuit, permit=permit_terminal_measurements)
        sums = checked_observables(observables if isinstance(observables, list) else [observables])
        read = {qubit for one in sums for qubit in one.qubits}
        qubits = _ordered(circuit.all_qubits() | read, qubit_order)
        try:
            _, state = self._draw(circuit, resolver, qubits, initial_state)
        except NoForm as reason:
            self._warn(str(reason))
            values: list[float] = self._cirq.simulate_expectation_values(
                *(circuit, observables, resolver, qubit_order, initial_state),
                permit_terminal_measurements,
            )
            return values
        measured = CompiledCircuit.from_factors(
            *([], (), (), sums),
            qubits=qubits,
            initial_state=state / np.linalg.norm(state),
            dtype=self._dtype,
        )
        values = measured.expectation().tolist()
        return values

    @checked(program=CIRCUIT, permit_terminal_measurements=flag)
    def simulate_expectation_gradients(
        self,
        program: cirq.AbstractCircuit,
        observables: cirq.PauliSumLike | list[cirq.PauliSumLike],
        param_resolver: cirq.ParamResolverOrSimilarType = None,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: cirq.STATE_VECTOR_LIKE | None = None,
        permit_terminal_measurements: bool = False,
    ) -> list[dict[str, float]]:
        """Compute the derivatives of expectation values by all symbols, by the adjoint method.

        Args:
            program: The circuit.
            observables: One observable or several, with real coefficients.
            param_resolver: Values of the symbols.
            qubit_order: Order of the qubits, for `initial_state`.
            initial_state: As for `simulate_sweep_iter`.
            permit_terminal_measurements: If measurements at the end are ignored, not refused.

        Returns:
            A dictionary per observable: the derivative by each symbol, by name.

        Raises:
            CircuitError: The circuit, a value, an observable or the initial state is not supported.
            ValueError: The circuit has measurements that are not permitted.
        """
        return self.simulate_expectation_gradients_sweep(
            program,
            observables,
            cirq.ParamResolver(param_resolver),
            qubit_order,
            initial_state,
            permit_terminal_measurements,
        )[0]

    @checked(program=CIRCUIT, permit_terminal_measurements=flag)
    def simulate_expectation_gradients_sweep(
        self,
        program: cirq.AbstractCircuit,
        observables: cirq.PauliSumLike | list[cirq.PauliSumLike],
        params: cirq.Sweepable,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: cirq.STATE_VECTOR_LIKE | None = None,
        permit_terminal_measurements: bool = False,
    ) -> list[list[dict[str, float]]]:
        """Compute derivatives at every point of a sweep; see `simulate_expectation_gradients`.

        Args:
            program: The circuit.
            observables: One observable or several, with real coefficients.
            params: Values of the symbols.
            qubit_order: Order of the qubits, for `initial_state`.
            initial_state: As for `simulate_sweep_iter`.
            permit_terminal_measurements: If measurements at the end are ignored, not refused.

        Returns:
            Dictionaries of derivatives by symbol, for each point and each observable.

        Raises:
            CircuitError: The circuit, a value, an observable or the initial state is not supported.
            ValueError: The circuit has measurements that are not permitted.
        """
        if (points := _without_values(observables, params)) is not None:
            return [[] for _ in range(points)]
        compiled, values = self._expectation_case(
            program, observables, params, qubit_order, initial_state, permit_terminal_measurements
        )
        arguments = _arguments(values)
        _, residuals = compiled.forward(*arguments, input_gradients=len(values) > 1)
        jacobian = np.zeros((len(values), compiled.readouts, values.shape[1]))
        for k in range(compiled.readouts):
            upstream = np.zeros((len(values), compiled.readouts), compiled.real_dtype)
            upstream[:, k] = 1
            gradients = compiled.vjp(
                *arguments, upstream, residuals=residuals, input_gradients=len(values) > 1
            )
            jacobian[:, k] = gradients.inputs if len(values) > 1 else gradients.parameters
        names = compiled.inputs or compiled.parameters
        return [
            [dict(zip(names, map(float, row), strict=True)) for row in point] for point in jacobian
        ]

    def _expectation_case(
        self,
        program: cirq.AbstractCircuit,
        observables: cirq.PauliSumLike | list[cirq.PauliSumLike],
        params: cirq.Sweepable,
        qubit_order: cirq.QubitOrderOrList,
        initial_state: cirq.STATE_VECTOR_LIKE | None,
        permit_terminal_measurements: bool,
    ) -> tuple[CompiledCircuit, np.ndarray]:
        """Return the compiled circuit of expectation values, and [B, V] values of its symbols."""
        _check_measurements(program, permit=permit_terminal_measurements)
        parts = self._circuits.split(program)
        listed = observables if isinstance(observables, list) else [observables]
        sums = checked_observables(listed)
        read = {qubit for one in sums for qubit in one.qubits}
        qubits = _ordered_qubits(program.all_qubits() | read, qubit_order)
        values = symbol_values(parts.names, sweep_points(params))
        return self._circuits.compile(parts, len(values), sums, qubits, initial_state), values

    @checked(program=CIRCUIT, repetitions=integer(0, MAX_SHOTS))
    def run_sweep_iter(
        self, program: cirq.AbstractCircuit, params: cirq.Sweepable, repetitions: int = 1
    ) -> Iterator[cirq.Result]:
        """Sample the measurements at every point of a sweep; see `cirq.SimulatesSamples`.

        Args:
            program: The circuit, with measurements.
            params: Values of the symbols.
            repetitions: Samples per point.

        Yields:
            A result per point.

        Raises:
            CircuitError: The circuit or a value is not supported.
            ValueError: The circuit has no measurements.
        """
        if not program.has_measurements():
            raise ValueError("the circuit has no measurements to sample: add cirq.measure")
        run = self._run_dynamic if self._is_dynamic(program) else self._run
        for resolver in sweep_points(params):
            yield cirq.ResultDict(params=resolver, records=run(program, resolver, repetitions))

    def _run_dynamic(
        self, circuit: cirq.AbstractCircuit, resolver: cirq.ParamResolver, repetitions: int
    ) -> Mapping[str, np.ndarray]:
        """Return records as `_run`, of a circuit with more than gates and terminal measurements."""
        try:
            return self._circuits.dynamic(circuit, resolver, self._noise).run(
                repetitions, self._prng
            )
        except NoForm as reason:
            self._warn(str(reason))
            records: Mapping[str, np.ndarray] = self._cirq.run(
                circuit, resolver, repetitions
            ).records
            return records

    def _run(
        self,
        circuit: cirq.AbstractCircuit,
        param_resolver: cirq.ParamResolver,
        repetitions: int,
    ) -> dict[str, np.ndarray]:
        """Return uint8 records [repetitions, instances, qubits] by measurement key."""
        parts = self._circuits.split(circuit)
        qubits = _ordered_qubits(circuit.all_qubits(), cirq.QubitOrder.DEFAULT)
        values = symbol_values(parts.names, [param_resolver])
        compiled = self._circuits.compile(parts, 1, (), qubits, None)
        seed = int(self._prng.randint(2**31 - 1))
        bits = compiled.sample(*_arguments(values), repetitions, seed=seed)
        outcomes = terminal.outcomes_of(parts.measured, bits[0], qubits)
        return terminal.records(parts.measured, outcomes, self._prng)

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

    def _is_dynamic(
        self,
        program: cirq.AbstractCircuit,
        qubit_order: cirq.QubitOrderOrList = cirq.QubitOrder.DEFAULT,
        initial_state: object = None,
    ) -> bool:
        """Return True if a circuit has more than gates and terminal measurements."""
        if self._noise is not cirq.NO_NOISE or isinstance(initial_state, cirq.SimulationStateBase):
            return True
        return self._circuits.is_dynamic(program, _ordered(program.all_qubits(), qubit_order))

    def _warn(self, reason: str) -> None:
        """Warn once for each reason; each time where the warning is an error."""
        if reason not in self._warned:
            fallback.warn(reason)
            self._warned.add(reason)


def _check_measurements(program: cirq.AbstractCircuit, *, permit: bool) -> None:
    """Raise ValueError if a circuit has terminal measurements that are not permitted."""
    if not permit and program.are_any_measurements_terminal():
        raise ValueError(
            "the circuit has terminal measurements: remove them, or pass"
            " permit_terminal_measurements=True"
        )


def _without_values(observables: object, params: cirq.Sweepable) -> int | None:
    """Return the number of points if there is nothing to compute; None if there is."""
    points = len(sweep_points(params))
    return points if not points or (isinstance(observables, list) and not observables) else None


def _ordered_qubits(
    used: Iterable[cirq.Qid], qubit_order: cirq.QubitOrderOrList
) -> tuple[cirq.Qid, ...]:
    """Return the qubits of a circuit, and further ones of `qubit_order`, in its order."""
    ordered = _ordered(used, qubit_order)
    return tuple(checked_qubit(one, f"qubit_order[{at}]") for at, one in enumerate(ordered))


def _ordered(used: Iterable[cirq.Qid], qubit_order: cirq.QubitOrderOrList) -> tuple[cirq.Qid, ...]:
    try:
        return tuple(cirq.QubitOrder.as_qubit_order(qubit_order).order_for(used))
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"qubit_order is {shown(qubit_order)}: {error}") from error


def _arguments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and parameters of a compiled circuit for [B, V] values."""
    if len(values) == 1:
        return np.zeros((1, 0)), values[0]
    return values, np.zeros(0)
