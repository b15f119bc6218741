"""The judge of every simulator test: cirq.Simulator in complex128."""

from collections.abc import Callable, Sequence

import cirq
import numpy as np
import pytest

Expect = Callable[[cirq.Circuit, Sequence[str], np.ndarray, Sequence[cirq.PauliSum]], np.ndarray]


def _expect(
    circuit: cirq.Circuit,
    names: Sequence[str],
    values: np.ndarray,
    observables: Sequence[cirq.PauliSum],
) -> np.ndarray:
    """[K] expectation values at one point."""
    resolved = cirq.resolve_parameters(circuit, dict(zip(names, map(float, values), strict=True)))
    qubits = sorted(set(circuit.all_qubits()).union(*(o.qubits for o in observables)))
    state = cirq.final_state_vector(
        resolved, qubit_order=qubits, dtype=np.complex128, ignore_terminal_measurements=False
    )
    state /= np.linalg.norm(state)
    position = {qubit: at for at, qubit in enumerate(qubits)}
    return np.array([o.expectation_from_state_vector(state, position).real for o in observables])


@pytest.fixture(scope="session")
def expect() -> Expect:
    """Expectation values of cirq.Simulator, [K] at one point."""
    return _expect


@pytest.fixture(scope="session")
def slope() -> Callable[..., np.ndarray]:
    """The derivative of those along a direction, [K], by Richardson's central differences."""

    def along(
        circuit: cirq.Circuit,
        names: Sequence[str],
        values: np.ndarray,
        direction: np.ndarray,
        observables: Sequence[cirq.PauliSum],
    ) -> np.ndarray:
        def central(step: float) -> np.ndarray:
            ahead = _expect(circuit, names, values + step * direction, observables)
            behind = _expect(circuit, names, values - step * direction, observables)
            return (ahead - behind) / (2 * step)

        one, two, three = central(0.016), central(0.008), central(0.004)
        first, second = (4 * two - one) / 3, (4 * three - two) / 3
        return (16 * second - first) / 15

    return along


@pytest.fixture(scope="session")
def weight() -> Callable[[Sequence[cirq.PauliSum]], float]:
    """What tolerances are multiplied with: the largest sum of absolute coefficients, or 1."""

    def largest(observables: Sequence[cirq.PauliSum]) -> float:
        return max(1.0, *(sum(abs(s.coefficient) for s in o) for o in observables))

    return largest
