"""The referee of every simulator test: cirq.Simulator in complex128."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import cirq
import numpy as np
import sympy

_SIMULATOR = cirq.Simulator(dtype=np.complex128, split_untangled_states=False)
_STEPS = 0.004 / 2 ** np.arange(4)  # of Richardson's differences, in the symbols' unit


class Reference:
    """States and expectation values of a circuit, and their slopes.

    Args:
        circuit: Any circuit with a final state.
        names: Of the V symbols, in the order of their values.
        observables: What to read; K of them.

    Attributes:
        qubits: Of the circuit and the observables, sorted: the order of a state's bits.
        scale: What tolerances are multiplied with: the largest sum of an observable's absolute
            coefficients, or 1.
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
        # Cirq takes long to put values into expressions, so it gets a symbol for each of them.
        unrolled = cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None)
        self._circuit, expressions = cirq.flatten(unrolled)
        self._symbols = [str(symbol) for symbol in expressions.values()]
        self._values = sympy.lambdify(list(names), list(expressions), "math")

    def state(self, point: np.ndarray) -> np.ndarray:
        """[2**N] complex128 at [V] values of the symbols."""
        values = map(float, self._values(*map(float, point)))
        resolved = cirq.resolve_parameters(
            self._circuit, dict(zip(self._symbols, values, strict=True))
        )
        result = _SIMULATOR.simulate(resolved, qubit_order=self.qubits)
        return result.final_state_vector

    def values(self, point: np.ndarray) -> np.ndarray:
        """[K] expectation values at [V] values of the symbols."""
        state = self.state(point)
        position = {qubit: at for at, qubit in enumerate(self.qubits)}
        return np.array(
            [o.expectation_from_state_vector(state, position).real for o in self.observables]
        )

    def slope(self, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """[K] derivatives of the values along [V]."""
        return self._slope(self.values, point, direction)

    def state_slope(self, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """[2**N] derivatives of the state along [V]."""
        return self._slope(self.state, point, direction)

    @staticmethod
    def _slope(
        function: Callable[[np.ndarray], np.ndarray], point: np.ndarray, direction: np.ndarray
    ) -> np.ndarray:
        """Richardson's extrapolation of central differences."""
        row = [
            (function(point + step * direction) - function(point - step * direction)) / (2 * step)
            for step in _STEPS
        ]
        order = 4.0
        while len(row) > 1:
            row = [(order * fine - coarse) / (order - 1) for coarse, fine in pairwise(row)]
            order *= 4
        return row[0]
