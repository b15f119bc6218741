"""Warm starts of a search from matrix product states."""

import cirq
import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.problems import Hamiltonian, named
from qfleet.search import (
    GatePruning,
    circuit_cost,
    matrix_product_circuit,
    matrix_product_start,
    search,
)


def problem(name: str) -> Hamiltonian:
    return next(named(name).members())


def energy(circuit: cirq.Circuit, of: Hamiltonian) -> float:
    state = cirq.Simulator(dtype=np.complex128).simulate(circuit).final_state_vector
    places = {one: at for at, one in enumerate(cirq.LineQubit.range(of.qubits))}
    return float(of.pauli_sum().expectation_from_state_vector(state, places).real)


def complex_chain() -> Hamiltonian:
    """Return a Hamiltonian whose ground state is not real."""
    words = {"XYI": 0.7, "IXY": -0.4, "ZII": 0.3, "IYI": 0.5, "ZZZ": -0.6}
    return Hamiltonian("complex", tuple(words), np.array([*words.values()]))


@pytest.mark.parametrize(
    "of",
    [problem("tfim:2:0.7"), problem("heisenberg:3"), complex_chain()],
    ids=lambda one: one.name,
)
def test_matrix_product_of_three_qubits_is_exact(of: Hamiltonian) -> None:
    found = matrix_product_circuit(of)
    assert energy(found, of) == pytest.approx(of.reference_energy(), abs=1e-6)


def test_matrix_product_has_bonds_of_two_and_few_gates() -> None:
    of = problem("tfim:6:1.0")
    circuit = matrix_product_circuit(of)
    state = circuit.final_state_vector(dtype=np.complex128)
    for cut in range(1, 6):
        values = np.linalg.svd(state.reshape(1 << cut, -1), compute_uv=False)
        assert (values > 1e-6).sum() == 2
    assert circuit_cost(circuit).two_qubit_gates <= 1 + 2 * 4
    exact = of.reference_energy()
    assert exact < energy(circuit, of) < 0.99 * exact  # a product state has 0.93 of it


def test_start_has_the_energy_of_the_matrix_product() -> None:
    of = problem("tfim:5:1.0")
    space, start = matrix_product_start(of, layers=1)
    circuit = space.circuit(start.gates, start.angles)
    first = energy(circuit, of)
    assert first == pytest.approx(energy(matrix_product_circuit(of), of), abs=1e-6)
    found = search(of, space, GatePruning(start), evaluations=400, steps=60)
    assert found.history[0].energy < first - 1e-4  # the layers lower it
    with pytest.raises(ArgumentError, match="one qubit"):
        matrix_product_start(Hamiltonian("z", ("Z",), np.ones(1)))
