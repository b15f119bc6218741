"""Samples of measurements."""

from collections.abc import Iterator, Mapping

import cirq
import numpy as np

from qfleet.argument_checks import checked, integer
from qfleet.circuit_checks import CIRCUIT
from qfleet.cirq import measurements as terminal
from qfleet.cirq.base import SimulatorBase
from qfleet.cirq.dynamic import NoForm
from qfleet.cirq.qubit_orders import ordered_qubits
from qfleet.cirq.sweeps import sweep_points, symbol_arguments, symbol_values
from qfleet.engine.state_methods import MAX_SHOTS


class MeasuredSamples(SimulatorBase, cirq.SimulatesSamples):
    """A simulator of runs. Abstract."""

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
        qubits = ordered_qubits(circuit.all_qubits(), cirq.QubitOrder.DEFAULT)
        values = symbol_values(parts.names, [param_resolver])
        compiled = self._circuits.compile(parts, 1, (), qubits, None)
        seed = int(self._prng.randint(2**31 - 1))
        bits = compiled.sample(*symbol_arguments(values), repetitions, seed=seed)
        outcomes = terminal.outcomes_of(parts.measured, bits[0], qubits)
        return terminal.records(parts.measured, outcomes, self._prng)
