"""The reference of the simulator tests: cirq.Simulator in complex128."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import cirq
import numpy as np
import sympy

_SIMULATOR = cirq.Simulator(dtype=np.complex128, split_untangled_states=False)
_STEPS = 0.004 / 2 ** np.arange(4)  # steps of Richardson extrapolation, in the symbols' unit


class Reference:
    """States and expectation values of a circuit, and their derivatives.

    Args:
        circuit: Any circuit with a final state.
        names: Names of the V symbols, in the order of their values.
        observables: K observables.

    Attributes:
        qubits: Qubits of the circuit and the observables, sorted: the order of a state's bits.
        scale: Scale of tolerances: the largest sum of an observable's absolute coefficients, at
            least 1.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        names: Sequence[str],
        observables: Sequence[cirq.PauliSum] = (),
    ) -> None:
        self.observables = [cirq.PauliSum.wrap(observable) for observable in observables]
        self.qubits = sorted(circuit.all_qubits().union(*(o.qubits for o in self.observables)))
        sums = [sum(abs(string.coefficient) for string in o) for o in self.observables]
        self.scale = float(max(1.0, *sums, 0.0))
        # Cirq resolves expressions slowly, so each expression becomes one symbol.
        unrolled = cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None)
        self._circuit, expressions = cirq.flatten(unrolled)
        self._symbols = [str(symbol) for symbol in expressions.values()]
        self._values = sympy.lambdify(list(names), list(expressions), "math")

    def state(self, point: np.ndarray) -> np.ndarray:
        """Return [2**N] complex128 amplitudes at [V] values of the symbols."""
        values = map(float, self._values(*map(float, point)))
        resolved = cirq.resolve_parameters(
            self._circuit, dict(zip(self._symbols, values, strict=True))
        )
        result = _SIMULATOR.simulate(resolved, qubit_order=self.qubits)
        return result.final_state_vector

    def values(self, point: np.ndarray) -> np.ndarray:
        """Return [K] expectation values at [V] values of the symbols."""
        state = self.state(point)
        position = {qubit: at for at, qubit in enumerate(self.qubits)}
        return np.array(
            [o.expectation_from_state_vector(state, position).real for o in self.observables]
        )

    def derivative(self, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return [K] derivatives of the values along a direction [V]."""
        return self._derivative(self.values, point, direction)

    def state_derivative(self, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return [2**N] derivatives of the state along a direction [V]."""
        return self._derivative(self.state, point, direction)

    @staticmethod
    def _derivative(
        function: Callable[[np.ndarray], np.ndarray], point: np.ndarray, direction: np.ndarray
    ) -> np.ndarray:
        """Differentiate by Richardson extrapolation of central differences."""
        row = [
            (function(point + step * direction) - function(point - step * direction)) / (2 * step)
            for step in _STEPS
        ]
        order = 4.0
        while len(row) > 1:
            row = [(order * fine - coarse) / (order - 1) for coarse, fine in pairwise(row)]
            order *= 4
        return row[0]
