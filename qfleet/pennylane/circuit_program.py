"""The compiled programs of one tape structure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cirq
import numpy as np

from qfleet.compiler.circuit.factor import Factor
from qfleet.engine.compiled_circuit import CompiledCircuit


@dataclass(frozen=True)
class States:
    """The states of a forward pass, and what they were computed for."""

    parameters: np.ndarray
    inputs: np.ndarray
    initial_states: np.ndarray | None
    input_gradients: bool
    residuals: Any

    def fit(
        self,
        parameters: np.ndarray,
        inputs: np.ndarray,
        initial_states: np.ndarray | None,
        input_gradients: bool,
    ) -> bool:
        """Return True if the states are those of these arguments."""
        return (
            self.input_gradients == input_gradients
            and np.array_equal(self.parameters, parameters)
            and np.array_equal(self.inputs, inputs)
            and _equal(self.initial_states, initial_states)
        )


def _equal(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


class CircuitProgram:
    """The programs of one tape structure: compiled at first use.

    Args:
        factors: The circuit, with a symbol for each angle.
        parameters: Names of the P symbols that the batch shares.
        inputs: Names of the I symbols that differ per example.
        observables: The K observables; None for the state.
        qubits: All qubits, in the order of the state's bits.
        initial_state: [2**N] state before the first factor; None for |0...0>.
        takes_states: If each call passes initial states instead.
        dtype: "complex64" or "complex128".

    Attributes:
        result_size: K, or 2**N.
        is_state: True if the result is the state.
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        parameters: Sequence[str],
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum] | None,
        *,
        qubits: Sequence[cirq.Qid],
        initial_state: np.ndarray | None,
        takes_states: bool,
        dtype: str,
    ) -> None:
        self._factors, self._observables = list(factors), observables
        self._parameters, self._inputs = tuple(parameters), tuple(inputs)
        self._qubits, self._initial_state, self._dtype = tuple(qubits), initial_state, dtype
        self._takes_states = takes_states
        self.is_state = observables is None
        self.result_size = 2 ** len(self._qubits) if observables is None else len(observables)

    @cached_property
    def batched(self) -> CompiledCircuit:
        """The program whose parameters are shared by the batch."""
        return self._compile(self._inputs, self._parameters)

    @cached_property
    def per_example(self) -> CompiledCircuit:
        """The program whose inputs are all symbols, parameters first."""
        return self._compile((*self._parameters, *self._inputs), ())

    def _compile(self, inputs: tuple[str, ...], parameters: tuple[str, ...]) -> CompiledCircuit:
        return CompiledCircuit.from_factors(
            self._factors,
            inputs,
            parameters,
            self._observables or (),
            qubits=self._qubits,
            initial_state=self._initial_state,
            initial_states=self._takes_states,
            dtype=self._dtype,
        )
