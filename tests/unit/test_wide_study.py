"""The study of wide circuits: truncated operators against exact values, models, tables."""

import json

import cirq
import numpy as np
import pytest

import qfleet
from benchmarks.wide_study import learning, tables, truncation
from benchmarks.wide_study.__main__ import PAGE, RESULTS
from qfleet.circuits import qcnn

QUBITS = 8
FEW = 6


@pytest.fixture(scope="module")
def truncated() -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Truncated and exact readouts [5, 2] by Pauli weight, of two layers with random angles."""
    made = qcnn(FEW, layers=2, pool="neighbours")
    random = np.random.default_rng(0)
    parameters = random.normal(size=len(made.parameters))
    angles = random.normal(size=(5, FEW)) * np.eye(FEW)[[0, 3, 3, 4, 5]]
    compiled = qfleet.compile(made.circuit, made.inputs, made.parameters, made.observables)
    exact = compiled.expectation(angles, parameters)
    circuit = cirq.resolve_parameters(
        made.circuit, dict(zip(made.parameters, parameters, strict=True))
    )
    readouts = [observable.qubits[0].col for observable in made.observables]
    return {
        weight: (truncation.truncated_readouts(circuit, readouts, angles, weight), exact)
        for weight in (1, 2, FEW)
    }


def test_operators_of_full_weight_are_exact(truncated: dict) -> None:
    values, exact = truncated[FEW]
    assert values == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("weight", [1, 2])
def test_operators_of_low_weight_are_not_exact(truncated: dict, weight: int) -> None:
    values, exact = truncated[weight]
    assert np.abs(values - exact).max() > 1e-3


def test_transfer_matrix_of_cnot_maps_z_of_the_target_to_both() -> None:
    operator = truncation.PauliSumArrays.z(1).through(cirq.unitary(cirq.CNOT), (0, 1), 2)
    kept = operator.coefficients > 0.5
    assert operator.codes[kept].tolist() == [0b1111]


def test_terms_above_the_weight_are_dropped() -> None:
    operator = truncation.PauliSumArrays.z(1).through(cirq.unitary(cirq.CNOT), (0, 1), 1)
    assert operator.coefficients.tolist() == []


@pytest.mark.parametrize("sums", [False, True])
def test_models_learn_narrow_excitations(sums: bool) -> None:
    task = learning.load_task("excitations", QUBITS, 400, 200, 1)
    _, compiled = learning.compile_model("excitations", QUBITS, 1)
    model = learning.train_model(compiled, task, 1, sums=sums)
    readouts = learning.test_readouts(compiled, task, model.parameters)
    assert model.accuracy(*readouts, task.test_labels) > 0.85


def test_svm_learns_narrow_excitations() -> None:
    task = learning.load_task("excitations", QUBITS, 200, 200, 1)
    assert learning.baseline_accuracy("RBF SVM", task) > 0.85


def test_page_has_the_tables_of_the_results() -> None:
    page = PAGE.read_text()
    assert tables.updated(page, json.loads(RESULTS.read_text())) == page
