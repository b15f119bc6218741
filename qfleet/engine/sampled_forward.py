"""Expectation values that a cirq.Sampler measures: a device, or another simulator."""

from collections.abc import Iterable, Sequence
from typing import final

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike

from qfleet.argument_checks import checked, instance, shown
from qfleet.circuit_checks import CIRCUIT
from qfleet.compiler.circuit.observables import collect, string_groups
from qfleet.compiler.circuit.sampling import SHOTS
from qfleet.compiler.circuit.symbols import check_symbols, parameter_names
from qfleet.engine.arguments import (
    Observables,
    checked_array,
    checked_symbols,
    checked_values,
    required_observables,
)
from qfleet.errors import ArgumentError

_KEY = "qfleet"
_TO_Z = {"X": cirq.Y**-0.5, "Y": cirq.X**0.5}


@final
class SampledForward:
    """Estimates the expectation values of a circuit from the shots of a cirq.Sampler.

    Strings that agree on every qubit they share are read from the same shots. All examples and
    groups are one call of the sampler's `run_batch`.

    Args:
        circuit: Any circuit without measurements that the sampler takes.
        inputs: Names of the symbols with one value per example, in the order of the columns.
        parameters: Names of the symbols with one value per batch, in order; all other symbols of
            the circuit, sorted by name, unless given.
        observables: Sequence of cirq.PauliSum or cirq.PauliString with real coefficients.
        sampler: The sampler.
        shots: Measurements of each group of strings per example.

    Raises:
        ArgumentError: An argument has the wrong type, or `shots` is not positive.
        CircuitError: A coefficient is not real, or a symbol is not listed exactly once.
    """

    @checked(
        circuit=CIRCUIT,
        sampler=instance(cirq.Sampler, "a cirq.Sampler"),
        shots=SHOTS,
    )
    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Iterable[str | sympy.Symbol] = (),
        parameters: Iterable[str | sympy.Symbol] | None = None,
        observables: Observables = (),
        *,
        sampler: cirq.Sampler,
        shots: int,
    ) -> None:
        names = sorted(parameter_names(circuit))
        self.inputs, self.parameters = checked_symbols(inputs, parameters, names)
        check_symbols(circuit, self.inputs, self.parameters)
        sums = required_observables(observables)
        self._sampler, self._shots, self.readouts = sampler, shots, len(sums)
        qubits = sorted({*circuit.all_qubits(), *(q for one in sums for q in one.qubits)})
        terms = collect(sums, {qubit: at for at, qubit in enumerate(qubits)})
        self._offsets = terms.offsets
        self._circuits: list[cirq.Circuit] = []
        self._masks: list[tuple[np.ndarray, np.ndarray]] = []  # [qubits, T] and [T, K] per group
        for letters, members in string_groups(terms):
            places = sorted(letters)
            rotations = [_TO_Z[letters[at]].on(qubits[at]) for at in places if letters[at] != "Z"]
            measured = cirq.measure(*(qubits[at] for at in places), key=_KEY)
            self._circuits.append(cirq.Circuit(*circuit, rotations, measured))
            masks = [[at in terms.strings[index] for index in members] for at in places]
            self._masks.append((np.array(masks, np.int64), terms.weights[members]))

    def expectation(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Measure the observables.

        Args:
            inputs: [B, I], or [I] for one example; None if there are no inputs.
            parameters: [P]; None if there are no parameters.

        Returns:
            float64 [B, K]; [K] for one example.

        Raises:
            ArgumentError: An array has the wrong shape, or the sampler returned another number of
                results, or bits of another key or shape.
        """
        rows = checked_array([] if inputs is None else inputs, "inputs")
        is_batch = rows.ndim == 2
        shape = ("batch", len(self.inputs)) if is_batch else (len(self.inputs),)
        rows = checked_values(rows, shape, "inputs", because="one column per input")
        shared = checked_values(
            [] if parameters is None else parameters,
            (len(self.parameters),),
            "parameters",
            because="one number per parameter",
        )
        names = (*self.inputs, *self.parameters)
        batch = rows if is_batch else rows[None]
        resolvers = [
            cirq.ParamResolver(dict(zip(names, map(float, (*row, *shared)), strict=True)))
            for row in batch
        ]
        values = np.tile(self._offsets, (len(batch), 1))
        if resolvers and self._circuits:
            sweeps = [resolvers] * len(self._circuits)
            results = self._sampler.run_batch(self._circuits, sweeps, self._shots)
            _require_length(results, len(self._circuits), "lists of results, one for each circuit")
            for (masks, weights), measured in zip(self._masks, results, strict=True):
                _require_length(measured, len(batch), "results of a circuit, one for each example")
                for row, result in enumerate(measured):
                    odd = self._bits(result, len(masks)) @ masks & 1
                    values[row] += (1 - 2 * odd.mean(axis=0)) @ weights
        return values if is_batch else values[0]

    def _bits(self, result: object, qubits: int) -> np.ndarray:
        """Return the measured bits int64 [shots, qubits] of a result of the sampler."""
        measured = result.measurements if isinstance(result, cirq.Result) else {}
        bits = np.asarray(measured.get(_KEY, ()))
        if bits.shape != (self._shots, qubits) or not np.isin(bits, (0, 1)).all():
            raise ArgumentError(
                f"sampler returned {shown(result)} for {self._shots} shots of {qubits} qubits:"
                f" return a cirq.Result with bits [{self._shots}, {qubits}] of the key {_KEY!r}"
            )
        return bits.astype(np.int64)


def _require_length(results: object, count: int, wanted: str) -> None:
    """Check the number of results that the sampler returned."""
    if not isinstance(results, Sequence) or len(results) != count:
        found = f"{len(results)}" if isinstance(results, Sequence) else shown(results)
        raise ArgumentError(f"sampler returned {found}: return {count} {wanted}")
