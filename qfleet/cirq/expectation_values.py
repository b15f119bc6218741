"""Expectation values of circuits, and their derivatives."""

from collections.abc import Iterator

import cirq
import numpy as np

from qfleet.argument_checks import checked, flag
from qfleet.circuit_checks import CIRCUIT
from qfleet.cirq.base import SimulatorBase
from qfleet.cirq.dynamic import NoForm
from qfleet.cirq.mixed_states import compile_mixed, is_mixed, starts_of
from qfleet.cirq.qubit_orders import ordered, ordered_qubits
from qfleet.cirq.sweeps import sweep_points, symbol_arguments, symbol_values
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.engine.arguments import checked_observables
from qfleet.engine.compiled_circuit import CompiledCircuit


class ExpectationValues(SimulatorBase, cirq.SimulatesExpectationValues):
    """A simulator of expectation values. Abstract."""

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
            initial_state: As for `simulate_sweep_iter`; or a density matrix [2**N, 2**N], which is
                evolved as one, exactly, also by channels.
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
        _, read = _sums_and_qubits(observables)
        mixed = is_mixed(initial_state, ordered(program.all_qubits() | read, qubit_order))
        if not mixed and self._is_dynamic(program, qubit_order, initial_state):
            for resolver in sweep_points(params):
                yield self._dynamic_values(
                    *(program, observables, resolver, qubit_order, initial_state),
                    permit_terminal_measurements,
                )
            return
        compiled, values, starts = self._expectation_case(
            program, observables, params, qubit_order, initial_state, permit_terminal_measurements
        )
        found = compiled.expectation(*symbol_arguments(values), initial_states=starts)
        yield from found.tolist()

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
        sums, read = _sums_and_qubits(observables)
        qubits = ordered(circuit.all_qubits() | read, qubit_order)
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
            initial_state: As for `simulate_sweep_iter`; or a density matrix [2**N, 2**N], which is
                evolved as one, exactly, also by channels.
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
            initial_state: As for `simulate_sweep_iter`; or a density matrix [2**N, 2**N], which is
                evolved as one, exactly, also by channels.
            permit_terminal_measurements: If measurements at the end are ignored, not refused.

        Returns:
            Dictionaries of derivatives by symbol, for each point and each observable.

        Raises:
            CircuitError: The circuit, a value, an observable or the initial state is not supported.
            ValueError: The circuit has measurements that are not permitted.
        """
        if (points := _without_values(observables, params)) is not None:
            return [[] for _ in range(points)]
        compiled, values, starts = self._expectation_case(
            program, observables, params, qubit_order, initial_state, permit_terminal_measurements
        )
        arguments = symbol_arguments(values)
        several = len(values) > 1
        _, residuals = compiled.forward(*arguments, input_gradients=several, initial_states=starts)
        jacobian = np.zeros((len(values), compiled.readouts, values.shape[1]))
        for k in range(compiled.readouts):
            upstream = np.zeros((len(values), compiled.readouts), compiled.real_dtype)
            upstream[:, k] = 1
            gradients = compiled.vjp(
                *(*arguments, upstream),
                residuals=residuals,
                input_gradients=several,
                initial_states=starts,
            )
            jacobian[:, k] = gradients.inputs if several else gradients.parameters
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
    ) -> tuple[CompiledCircuit, np.ndarray, np.ndarray | None]:
        """Return the compiled circuit of expectation values, and [B, V] values of its symbols.

        The third result is mixed initial states [B, 2**N, 2**N], if there are.
        """
        _check_measurements(program, permit=permit_terminal_measurements)
        sums, read = _sums_and_qubits(observables)
        qubits = ordered_qubits(program.all_qubits() | read, qubit_order)
        points = sweep_points(params)
        if is_mixed(initial_state, qubits):
            assert isinstance(initial_state, np.ndarray)
            names = sorted(parameter_names(program))
            values = symbol_values(names, points)
            compiled = compile_mixed(
                *(program, names, len(values), sums, qubits), self._noise, self._dtype
            )
            return compiled, values, starts_of(initial_state, qubits, compiled, len(values))
        parts = self._circuits.split(program)
        values = symbol_values(parts.names, points)
        return self._circuits.compile(parts, len(values), sums, qubits, initial_state), values, None


def _check_measurements(program: cirq.AbstractCircuit, *, permit: bool) -> None:
    """Raise ValueError if a circuit has terminal measurements that are not permitted."""
    if not permit and program.are_any_measurements_terminal():
        raise ValueError(
            "the circuit has terminal measurements: remove them, or pass"
            " permit_terminal_measurements=True"
        )


def _sums_and_qubits(
    observables: cirq.PauliSumLike | list[cirq.PauliSumLike],
) -> tuple[tuple[cirq.PauliSum, ...], set[cirq.Qid]]:
    """Return the observables as sums, and their qubits."""
    sums = checked_observables(observables if isinstance(observables, list) else [observables])
    return sums, {qubit for one in sums for qubit in one.qubits}


def _without_values(observables: object, params: cirq.Sweepable) -> int | None:
    """Return the number of points if there is nothing to compute; None if there is."""
    points = len(sweep_points(params))
    return points if not points or (isinstance(observables, list) and not observables) else None
