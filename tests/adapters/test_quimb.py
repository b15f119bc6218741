"""Wide circuits against quimb, which builds and contracts the networks of light cones by itself."""

import functools

import cirq
import numpy as np
import pytest
import quimb.tensor
import sympy

import qfleet
from qfleet.engine.compiled_circuit import CompiledCircuit

LAYERS, EXAMPLES = 3, 1
WIDTHS = (32, 100, 1024)
DTYPES = {"complex64": 1e-5, "complex128": 1e-12}
"""Tolerance of each dtype, relative to an observable's scale."""
PAULIS = (cirq.X, cirq.Y, cirq.Z)

Terms = list[tuple[float, cirq.PauliString]]


def random_brick(
    a: cirq.Qid, b: cirq.Qid, symbol: sympy.Symbol, random: np.random.Generator
) -> list[cirq.Operation]:
    """Return gates on two neighbors that depend on a symbol, in a random way."""
    fixed = cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=int(random.integers(99))))
    choices = (
        [cirq.ry(symbol).on(a), cirq.CZ(a, b), cirq.rx(0.3 - symbol).on(b)],
        [fixed.on(a, b), cirq.ZZ(a, b) ** symbol],
        [cirq.CNOT(b, a) ** symbol, cirq.PhasedXPowGate(phase_exponent=0.2).on(b)],
        [cirq.ISWAP(a, b) ** symbol, cirq.rz(2 * symbol).on(b)],
    )
    return choices[int(random.integers(len(choices)))]


@functools.cache
def random_problem(qubits: int) -> tuple[cirq.Circuit, list[str], list[str], list[Terms]]:
    """Return a random brickwork circuit, its symbols, and random local observables.

    Args:
        qubits: Width, which is also the seed.
    """
    random = np.random.default_rng(qubits)
    line = cirq.LineQubit.range(qubits)
    inputs, parameters = [f"x{at}" for at in range(qubits)], [f"p{at}" for at in range(24)]
    circuit = cirq.Circuit(
        cirq.rx(sympy.Symbol(name)).on(qubit) for name, qubit in zip(inputs, line, strict=True)
    )
    for layer in range(LAYERS):
        for at in range(layer % 2, qubits - 1, 2):
            symbol = sympy.Symbol(parameters[int(random.integers(len(parameters)))])
            circuit += random_brick(line[at], line[at + 1], symbol, random)
    observables: list[Terms] = []
    for first in (0, qubits - 3, *random.integers(0, qubits - 3, 4)):
        string = cirq.PauliString(
            PAULIS[random.integers(3)].on(line[first + step]) for step in range(3)
        )
        single = cirq.PauliString(PAULIS[random.integers(3)].on(line[first]))
        observables.append([(1.0, single), (float(random.normal()), string)])
    return circuit, inputs, parameters, observables


@functools.cache
def compiled_problem(qubits: int, dtype: str) -> CompiledCircuit:
    """Compile `random_problem`, by tensor networks."""
    circuit, inputs, parameters, observables = random_problem(qubits)
    sums = [cirq.PauliSum.from_pauli_strings([c * p for c, p in terms]) for terms in observables]
    return qfleet.compile(circuit, inputs, parameters, sums, dtype=dtype, method="tensor_network")


def random_point(qubits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs [EXAMPLES, I] and parameters [P]."""
    _, inputs, parameters, _ = random_problem(qubits)
    random = np.random.default_rng(1)
    return random.normal(size=(EXAMPLES, len(inputs))), random.normal(size=len(parameters))


def quimb_values(qubits: int, row: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Return the values of all observables of one example, by quimb."""
    circuit, inputs, names, observables = random_problem(qubits)
    symbols = dict(zip([*inputs, *names], [*row, *parameters], strict=True))
    network = quimb.tensor.Circuit(qubits)
    for operation in cirq.resolve_parameters(circuit, symbols).all_operations():
        network.apply_gate_raw(cirq.unitary(operation), [qubit.x for qubit in operation.qubits])
    return np.array([sum(c * _string_value(network, p) for c, p in terms) for terms in observables])


def _string_value(network: quimb.tensor.Circuit, string: cirq.PauliString) -> float:
    matrices = [cirq.unitary(pauli) for pauli in string.values()]
    where = [qubit.x for qubit in string]
    value = network.local_expectation(functools.reduce(np.kron, matrices), where, optimize="greedy")
    return float(np.real(value))


@pytest.mark.parametrize("qubits", WIDTHS)
def test_wide_values_equal_those_of_quimb(qubits: int) -> None:
    inputs, parameters = random_point(qubits)
    expected = np.array([quimb_values(qubits, row, parameters) for row in inputs])
    scale = np.array([sum(abs(c) for c, _ in terms) for terms in random_problem(qubits)[3]])
    assert np.abs(expected).max() > 0.1  # random circuits of three layers do not average to 0
    for dtype, tolerance in DTYPES.items():
        values = compiled_problem(qubits, dtype).expectation(inputs, parameters)
        np.testing.assert_array_less(np.abs(values - expected) / scale, tolerance)


@pytest.mark.parametrize("qubits", WIDTHS[:2])
def test_wide_gradients_equal_differences_of_quimb(qubits: int) -> None:
    inputs, parameters = random_point(qubits)
    compiled = compiled_problem(qubits, "complex128")
    row, step = inputs[:1], 1e-5
    upstream = np.arange(1.0, 1 + compiled.readouts)[None]
    _, gradients = compiled.value_and_gradient(row, parameters, upstream)
    at = int(np.argmax(np.abs(gradients.parameters)))
    change = step * np.eye(len(parameters))[at]
    sides = [quimb_values(qubits, row[0], parameters + sign * change) for sign in (1, -1)]
    slope = upstream[0] @ (sides[0] - sides[1]) / (2 * step)
    assert abs(slope) > 0.1
    assert gradients.parameters[at] == pytest.approx(slope, rel=1e-7)
