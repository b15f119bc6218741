"""Cirq's simulator interfaces on the engine."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cirq
import numpy as np
from numpy.typing import DTypeLike

from qfleet.argument_checks import checked, flag, integer, shown
from qfleet.circuit_checks import CIRCUIT
from qfleet.circuit_checks import qubit as checked_qubit
from qfleet.cirq import measurements as terminal
from qfleet.cirq.sweeps import sweep_points, symbol_values
from qfleet.cirq.trial_result import StateVectorTrialResult
from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.identity import circuit_identity, identity
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.engine.arguments import checked_dtype, checked_observables
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.state_methods import MAX_SHOTS
from qfleet.errors import ArgumentError, CircuitError

_V = TypeVar("_V")

MAX_CACHED_CIRCUITS = 32
MAX_SWEEP_BYTES = 256 << 20
"""Most bytes of states of a sweep that are computed in one call."""


@dataclass(frozen=True)
class _Parts:
    """A circuit without its measurements.

    Attributes:
        whole: The circuit with its measurements.
        circuit: The gates.
        measured: The measurements, in order.
        names: Names of the symbols, sorted.
        key: An object that circuits with the same gates share.
    """

    whole: cirq.FrozenCircuit
    circuit: cirq.Circuit
    measured: list[cirq.Operation]
    names: tuple[str, ...]
    key: object


class _Cache(OrderedDict[Hashable, _V]):
    """The results of a function for the keys that were used last."""

    def get_or_make(self, key: Hashable, make: Callable[[], _V]) -> _V:
        """Return the value of a key, made if it is missing."""
        value = self.pop(key, None)  # one operation, since another thread may free the key
        value = self[key] = make() if value is None else value
        while len(self) > MAX_CACHED_CIRCUITS:
            self.popitem(last=False)
        return value


class Simulator(
    cirq.SimulatesSamples,
    cirq.SimulatesFinalState[cirq.StateVectorTrialResult],
    cirq.SimulatesExpectationValues,
):
    """A state-vector simulator with the interfaces of `cirq.Simulator`, and adjoint gradients.

    All points of a sweep are computed in one call of the engine. Compiled circuits are cached: a
    circuit with symbols is compiled once for all values. Measurements must be terminal; noise and
    other operations that are not unitary are refused with a CircuitError.

    Args:
        dtype: np.complex64 or np.complex128, of the state.
        seed: Seed of sampled measurements, as for `cirq.Simulator`.
    """

    def __init__(
        self, *, dtype: DTypeLike = np.complex64, seed: cirq.RANDOM_STATE_OR_SEED_LIKE = None
    ) -> None:
        self._dtype = np.dtype(checked_dtype(dtype))
        try:
            self._random = cirq.value.parse_random_state(seed)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"seed is {shown(seed)}: {error}") from None
        # parse_random_state returns any other object as it is.
        if not isinstance(self._random, np.random.RandomState) and self._random is not np.random:
            raise ArgumentError(
                f"seed is {shown(seed)}: pass an integer, a numpy.random.RandomState or None"
            )
        self._parts: _Cache[_Parts] = _Cache()
        self._keys: _Cache[object] = _Cache()
        self._compiled: _Cache[CompiledCircuit] = _Cache()

    def __getstate__(self) -> dict[str, object]:
        # A copy holds other circuits: the numbers of the original ones would name any object.
        return self.__dict__ | {"_parts": _Cache()}

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
        parts = self._split(program)
        qubits = _ordered_qubits(program.all_qubits(), qubit_order)
        resolvers = sweep_points(params)
        values = symbol_values(parts.names, resolvers)
        rows = max(1, MAX_SWEEP_BYTES // (self._dtype.itemsize << len(qubits)))
        for first in range(0, len(resolvers), rows):
            points = resolvers[first : first + rows]
            compiled = self._compile(parts, len(points), (), qubits, initial_state)
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
        outcomes: dict[str, np.ndarray] = {}
        if measured:
            probabilities = np.square(np.abs(state)).astype(np.float64)
            cumulative = np.cumsum(probabilities)
            drawn = self._random.random_sample() * cumulative[-1]
            index = int(np.searchsorted(cumulative, drawn, side="right"))
            bits = np.array([[index >> at & 1 for at in reversed(range(len(qubits)))]])
            found = terminal.records(measured, bits, qubits, self._random)
            outcomes = {key: record[0, -1] for key, record in found.items()}
            collapsed = {qubit for operation in measured for qubit in operation.qubits}
            state = terminal.collapse(state, index, qubits, collapsed)
        final = cirq.StateVectorSimulationState(
            initial_state=state, qubits=qubits, dtype=self._dtype.type
        )
        return StateVectorTrialResult(resolver, outcomes, final)

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
        case = self._expectation_case(
            program, observables, params, qubit_order, initial_state, permit_terminal_measurements
        )
        compiled, values = case
        yield from compiled.expectation(*_arguments(values)).tolist()

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
        if not permit_terminal_measurements and program.are_any_measurements_terminal():
            raise ValueError(
                "the circuit has terminal measurements: remove them, or pass"
                " permit_terminal_measurements=True to ignore them"
            )
        parts = self._split(program)
        listed = observables if isinstance(observables, list) else [observables]
        sums = checked_observables(listed)
        read = {qubit for one in sums for qubit in one.qubits}
        qubits = _ordered_qubits(program.all_qubits() | read, qubit_order)
        values = symbol_values(parts.names, sweep_points(params))
        return self._compile(parts, len(values), sums, qubits, initial_state), values

    @checked(program=CIRCUIT, repetitions=integer(0, MAX_SHOTS))
    def run_sweep_iter(
        self, program: cirq.AbstractCircuit, params: cirq.Sweepable, repetitions: int = 1
    ) -> Iterator[cirq.Result]:
        """Sample the measurements at every point of a sweep; see `cirq.SimulatesSamples`.

        Args:
            program: The circuit, with terminal measurements.
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
        for resolver in sweep_points(params):
            yield cirq.ResultDict(
                params=resolver, records=self._run(program, resolver, repetitions)
            )

    def _run(
        self,
        circuit: cirq.AbstractCircuit,
        param_resolver: cirq.ParamResolver,
        repetitions: int,
    ) -> dict[str, np.ndarray]:
        """Return uint8 records [repetitions, instances, qubits] by measurement key."""
        parts = self._split(circuit)
        qubits = _ordered_qubits(circuit.all_qubits(), cirq.QubitOrder.DEFAULT)
        values = symbol_values(parts.names, [param_resolver])
        compiled = self._compile(parts, 1, (), qubits, None)
        seed = int(self._random.randint(2**31 - 1))
        bits = compiled.sample(*_arguments(values), repetitions, seed=seed)
        return terminal.records(parts.measured, bits[0], qubits, self._random)

    def _split(self, program: cirq.AbstractCircuit) -> _Parts:
        """Separate the measurements of a circuit, or return the parts from the cache."""
        whole = program.freeze()  # one object until the circuit is changed

        def split() -> _Parts:
            circuit, measured = terminal.split_measurements(whole)
            key = self._keys.get_or_make(circuit_identity(circuit), object)
            return _Parts(whole, circuit, measured, tuple(sorted(parameter_names(circuit))), key)

        return self._parts.get_or_make(id(whole), split)  # no other's: the parts hold the object

    def _compile(
        self,
        parts: _Parts,
        points: int,
        observables: Sequence[cirq.PauliSum],
        qubits: Sequence[cirq.Qid],
        initial_state: cirq.STATE_VECTOR_LIKE | None,
    ) -> CompiledCircuit:
        """Compile a circuit, or return it from the cache.

        The symbols of a single point are parameters, those of a sweep are inputs.
        """
        prepared, start = _initial_state(initial_state, qubits)

        def compile_circuit() -> CompiledCircuit:
            gates = cirq.Circuit(prepared)
            factors = [*lowering.lower(gates), *lowering.lower(parts.circuit)]
            return CompiledCircuit.from_factors(
                factors,
                parts.names if points > 1 else (),
                () if points > 1 else parts.names,
                observables,
                qubits=qubits,
                initial_state=start,
                dtype=self._dtype,
            )

        key = (
            parts.key,
            parts.names,
            points > 1,
            tuple(map(_observable_key, observables)),
            tuple(qubits),
            tuple(map(identity, prepared)),
            None if start is None else start.tobytes(),
        )
        return self._compiled.get_or_make(key, compile_circuit)


def _without_values(observables: object, params: cirq.Sweepable) -> int | None:
    """Return the number of points if there is nothing to compute; None if there is."""
    points = len(sweep_points(params))
    return points if not points or (isinstance(observables, list) and not observables) else None


def _ordered_qubits(
    used: Iterable[cirq.Qid], qubit_order: cirq.QubitOrderOrList
) -> tuple[cirq.Qid, ...]:
    """Return the qubits of a circuit, and further ones of `qubit_order`, in its order."""
    try:
        ordered = cirq.QubitOrder.as_qubit_order(qubit_order).order_for(used)
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"qubit_order is {shown(qubit_order)}: {error}") from error
    return tuple(checked_qubit(one, f"qubit_order[{at}]") for at, one in enumerate(ordered))


def _arguments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and parameters of a compiled circuit for [B, V] values."""
    if len(values) == 1:
        return np.zeros((1, 0)), values[0]
    return values, np.zeros(0)


def _initial_state(
    state: cirq.STATE_VECTOR_LIKE | None, qubits: Sequence[cirq.Qid]
) -> tuple[list[cirq.Operation], np.ndarray | None]:
    """Return an initial state as gates on |0...0>, or as a state vector.

    Args:
        state: Anything that `cirq.Simulator` accepts as its initial state.
        qubits: The qubits, the first the most significant bit.

    Raises:
        CircuitError: It is not a state of these qubits.
    """
    width = len(qubits)
    if state is None:
        return [], None
    if isinstance(state, int | np.integer):
        if not 0 <= int(state) < 2**width:
            raise CircuitError(
                f"initial_state is {state}: a basis state of {width} qubits is 0 to {2**width - 1}"
            )
        return [cirq.X(q) for at, q in enumerate(qubits) if state >> (width - 1 - at) & 1], None
    try:
        vector = cirq.to_valid_state_vector(state, qid_shape=(2,) * width, dtype=np.complex128)
    except (ValueError, TypeError) as error:
        raise CircuitError(f"initial_state is not a state of {width} qubits: {error}") from error
    return [], vector.reshape(-1)


def _observable_key(observable: cirq.PauliSum) -> frozenset[object]:
    return frozenset((frozenset(s.items()), complex(s.coefficient)) for s in observable)
