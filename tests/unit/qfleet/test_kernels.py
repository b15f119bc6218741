"""Quantum kernels against Cirq's states, finite differences and closed forms."""

import copy
import importlib
import pickle
import re
import sys
from collections.abc import Callable

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits import zz_feature_map
from qfleet.engine import memory
from qfleet.errors import ArgumentError, CircuitError, LibraryError, MemoryLimitError
from qfleet.kernels import (
    FidelityKernel,
    ProjectedKernel,
    QuantumKernel,
    alignment,
    nearest_psd,
)

RANDOM = np.random.default_rng(3)
X, Y = RANDOM.uniform(-2, 2, (7, 3)), RANDOM.uniform(-2, 2, (5, 3))
VALUES = np.array([0.4, -0.7, 1.1])
LABELS = np.array([1, -1, 1, 1, -1, -1, 1])
QUBITS = cirq.LineQubit.range(3)
INPUTS, PARAMETERS = ["x0", "x1", "x2"], ["p0", "p1", "p2"]


def encoder(*, noise: bool = False) -> cirq.Circuit:
    """Return a circuit of 3 inputs and 3 parameters."""
    x, p = sympy.symbols(INPUTS), sympy.symbols(PARAMETERS)
    circuit = cirq.Circuit(
        [cirq.ry(x[at] * p[at]).on(QUBITS[at]) for at in range(3)],
        cirq.CNOT(QUBITS[0], QUBITS[1]),
        cirq.CZ(QUBITS[1], QUBITS[2]),
        [cirq.rx(p[at] + 0.3 * x[at]).on(QUBITS[at]) for at in range(3)],
        cirq.ISWAP(QUBITS[2], QUBITS[0]) ** 0.4,
    )
    if noise:
        return circuit.with_noise(cirq.ConstantQubitNoiseModel(cirq.amplitude_damp(0.05)))
    return circuit


def densities(rows: np.ndarray, circuit: cirq.Circuit) -> np.ndarray:
    """Return Cirq's density matrices [n, 8, 8]."""
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    found = []
    for row in rows:
        values = dict(zip([*INPUTS, *PARAMETERS], [*row, *VALUES], strict=True))
        found.append(simulator.simulate(circuit, values, QUBITS).final_density_matrix)
    return np.stack(found)


def projected_densities(rows: np.ndarray) -> np.ndarray:
    """Return one-qubit density matrices [n, 3, 2, 2]."""
    full = densities(rows, encoder()).reshape(-1, *[2] * 6)
    traced = [cirq.partial_trace(one, [at]) for one in full for at in range(3)]
    return np.stack(traced).reshape(len(rows), 3, 2, 2)


def fidelity(**options: object) -> FidelityKernel:
    return FidelityKernel(encoder(), INPUTS, PARAMETERS, VALUES, **options)  # type: ignore[arg-type]


def noisy(**options: object) -> FidelityKernel:
    circuit = encoder(noise=True)
    return FidelityKernel(circuit, INPUTS, PARAMETERS, VALUES, **options)  # type: ignore[arg-type]


def projected(**options: object) -> ProjectedKernel:
    return ProjectedKernel(encoder(), INPUTS, PARAMETERS, VALUES, **options)  # type: ignore[arg-type]


KERNELS = {"fidelity": fidelity, "noisy": noisy, "projected": projected}


@pytest.mark.parametrize(("noise", "make"), [(False, fidelity), (True, noisy)])
def test_fidelity_kernel_agrees_with_cirq(noise: bool, make: Callable[..., FidelityKernel]) -> None:
    left, right = (densities(rows, encoder(noise=noise)) for rows in (X, Y))
    wanted = np.einsum("aij,bji->ab", left, right).real
    np.testing.assert_allclose(make()(X, Y), wanted, atol=1e-12)
    wanted = np.einsum("aij,bji->ab", left, left).real
    np.testing.assert_allclose(make()(X), wanted, atol=1e-12)


def test_projected_kernel_agrees_with_cirq() -> None:
    left, right = projected_densities(X), projected_densities(Y)
    squares = np.abs(left[:, None] - right[None]) ** 2
    wanted = np.exp(-0.7 * squares.sum(axis=(2, 3, 4)))
    np.testing.assert_allclose(projected(gamma=0.7)(X, Y), wanted, atol=1e-12)


def test_zz_feature_map_agrees_with_its_definition() -> None:
    model = zz_feature_map(3, layers=1, entanglement="full", bandwidth=0.5)
    row = 0.5 * X[0]
    bits = np.array([[b >> (2 - at) & 1 for at in range(3)] for b in range(8)])
    phases = 2 * bits @ row
    for i, j in ((0, 1), (0, 2), (1, 2)):
        phases += 2 * (np.pi - row[i]) * (np.pi - row[j]) * (bits[:, i] ^ bits[:, j])
    found = FidelityKernel(model.circuit, model.inputs).compiled.state(X[0])
    np.testing.assert_allclose(found, np.exp(1j * phases) / 8**0.5, atol=1e-12)


def test_zz_feature_map_entanglement_selects_pairs() -> None:
    circuits = [zz_feature_map(4, entanglement=name).circuit for name in ("linear", "full")]
    counts = [sum(len(one.qubits) == 2 for one in c.all_operations()) for c in circuits]
    assert counts == [6, 12]
    with pytest.raises(CircuitError, match="linear or full"):
        zz_feature_map(4, entanglement="ring")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["fidelity", "projected"])
def test_symmetric_matrix_has_exact_unit_diagonal(name: str, dtype: str) -> None:
    kernel = KERNELS[name](dtype=dtype)
    matrix = kernel(X)
    assert (np.diagonal(matrix) == 1).all()
    assert (matrix == matrix.T).all()
    assert matrix.dtype == kernel.compiled.real_dtype
    np.testing.assert_allclose(matrix, kernel(X, X.copy()), atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_with_blocks_and_tiles_is_equal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, rectangle = KERNELS[name]()(X), KERNELS[name]()(X, Y)
    feature_bytes = KERNELS[name]()._feature_bytes
    monkeypatch.setattr("qfleet.kernels.quantum_kernel._BLOCK_ROWS", 2)
    monkeypatch.setattr("qfleet.kernels.quantum_kernel._BLOCK_COLUMNS", 3)
    monkeypatch.setattr("qfleet.kernels.fidelity._AMPLITUDES", 3)
    for count in (2, 3, 9):  # states that fit next to the matrix
        kernel = KERNELS[name](memory_limit=7 * 7 * 8 + 2 * count * feature_bytes)
        np.testing.assert_allclose(kernel(X), wanted, atol=1e-14)
        assert (kernel(X) == kernel(X).T).all()
        np.testing.assert_allclose(kernel(X, Y), rectangle, atol=1e-14)
        np.testing.assert_allclose(kernel(Y, X), rectangle.T, atol=1e-14)


def test_kernel_within_memory_evolves_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, evolved = fidelity(), []
    compute = FidelityKernel._features

    def count(self: FidelityKernel, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        evolved.append(len(rows))
        return compute(self, rows, values)

    monkeypatch.setattr(FidelityKernel, "_features", count)
    kernel(X)
    assert evolved == [7]
    kernel(X, Y)
    assert sorted(evolved[1:]) == [5, 7]


def test_kernel_of_single_rows_has_no_axes() -> None:
    kernel = fidelity()
    matrix = kernel(X, Y)
    assert kernel(X[2], Y[1]) == pytest.approx(matrix[2, 1], abs=1e-12)
    assert np.ndim(kernel(X[2], Y[1])) == 0
    np.testing.assert_allclose(kernel(X[2], Y), matrix[2], atol=1e-12)
    np.testing.assert_allclose(kernel(X, Y[1]), matrix[:, 1], atol=1e-12)
    assert kernel(X[2]) == 1


def test_kernel_of_no_rows_is_empty() -> None:
    kernel = fidelity(shots=10)
    assert kernel(X[:0]).shape == (0, 0)
    assert kernel(X[:0], Y).shape == (0, 5)
    assert kernel(X, Y[:0]).shape == (7, 0)


def test_shots_have_the_mean_and_variance_of_binomials() -> None:
    rows = RANDOM.uniform(-2, 2, (60, 3))
    exact, shots = fidelity()(rows), 50
    upper = np.triu_indices(60, 1)
    found = np.stack([fidelity(shots=shots, seed=seed)(rows)[upper] for seed in range(8)])
    chances = exact[upper]
    scores = (found - chances) / np.sqrt(chances * (1 - chances) / shots)
    assert abs(scores.mean()) < 5 / scores.size**0.5
    assert np.mean(scores**2) == pytest.approx(1, abs=0.1)
    # Neighbours in the matrix, and equal pairs of other seeds, are independent.
    assert abs(np.mean(scores[:, 1:] * scores[:, :-1])) < 5 / scores.size**0.5
    assert abs(np.mean(scores[1:] * scores[:-1])) < 5 / scores.size**0.5
    np.testing.assert_allclose(found * shots, np.rint(found * shots), atol=1e-9)


def test_shots_are_equal_in_each_matrix_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fidelity(shots=100, seed=5)
    matrix = kernel(X)
    assert (matrix == matrix.T).all()
    assert (np.diagonal(matrix) == 1).all()
    assert (fidelity(shots=100, seed=6)(X) != matrix).any()
    monkeypatch.setattr("qfleet.kernels.pair_shots._BLOCK", 4)
    tiled = fidelity(shots=100, seed=5, memory_limit=7 * 7 * 8 + 3 * 2 * 128)
    assert (tiled(X) == matrix).all()
    assert (tiled(X[::-1]) == matrix[::-1, ::-1]).all()
    assert (kernel(X[2:5], X[3:]) == matrix[2:5, 3:]).all()
    assert kernel(X[1], X[4]) == matrix[1, 4]


def test_projected_kernel_with_shots_is_symmetric() -> None:
    kernel = projected(shots=200, seed=1)
    matrix = kernel(X)
    assert (matrix == matrix.T).all()
    assert (matrix != projected()(X)).any()
    np.testing.assert_allclose(matrix, projected()(X), atol=0.3)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", KERNELS)
def test_alignment_gradient_agrees_with_differences(name: str, dtype: str) -> None:
    kernel, exact = KERNELS[name](dtype=dtype), KERNELS[name]()
    value, gradient = alignment(kernel, X, LABELS, VALUES)
    matrix = exact(X)
    wanted = LABELS @ matrix @ LABELS / 7 / np.linalg.norm(matrix)
    loose = dtype == "complex64"
    assert value == pytest.approx(wanted, abs=1e-6 if loose else 1e-12)
    step = 1e-5
    differences = [
        (alignment(exact, X, LABELS, VALUES + d)[0] - alignment(exact, X, LABELS, VALUES - d)[0])
        / (2 * step)
        for d in step * np.eye(3)
    ]
    assert np.abs(differences).max() > 0.01
    np.testing.assert_allclose(gradient, differences, atol=1e-5 if loose else 1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_pullback_twice_returns_equal_gradients(name: str) -> None:
    matrix, pullback = KERNELS[name]().matrix_and_pullback(X)
    upstream = np.outer(LABELS, LABELS)
    assert (pullback(upstream) == pullback(upstream)).all()
    upper = 2 * np.triu(upstream) - np.diag(np.diag(upstream))
    np.testing.assert_allclose(pullback(upper), pullback(upstream), atol=1e-12)
    np.testing.assert_allclose(matrix, KERNELS[name]()(X), atol=1e-14)


def test_alignment_has_the_parameters_of_the_kernel() -> None:
    kernel = fidelity()
    moved = kernel.with_parameters(VALUES + 0.1)
    assert alignment(moved, X, LABELS)[0] == alignment(kernel, X, LABELS, VALUES + 0.1)[0]
    assert (kernel.parameter_values == VALUES).all()
    assert (moved(X) != kernel(X)).any()


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_copied_or_pickled_has_equal_bits(name: str) -> None:
    kernel = KERNELS[name](memory_limit=10**6)
    assert copy.deepcopy(kernel).compiled is kernel.compiled
    again = pickle.loads(pickle.dumps(kernel))
    assert isinstance(again, QuantumKernel)
    assert again.memory_limit == 10**6
    assert (again(X, Y) == kernel(X, Y)).all()


def test_nearest_psd_clips_negative_eigenvalues() -> None:
    vectors, _ = np.linalg.qr(RANDOM.normal(size=(5, 5)))
    values = np.array([-0.5, -0.1, 0.2, 1, 3])
    matrix = (vectors * values) @ vectors.T
    found = nearest_psd(matrix)
    np.testing.assert_allclose(found, (vectors * values.clip(0)) @ vectors.T, atol=1e-12)
    assert (found == found.T).all()
    unit = nearest_psd(matrix, unit_diagonal=True)
    assert (np.diagonal(unit) == 1).all()
    assert np.linalg.eigvalsh(unit)[0] > -1e-12


def test_nearest_psd_keeps_a_semidefinite_matrix() -> None:
    matrix = fidelity()(X)
    assert (nearest_psd(matrix) == matrix).all()
    assert nearest_psd(np.empty((0, 0))).shape == (0, 0)


WRONG: dict[str, Callable[[], object]] = {
    "X has shape [7, 2]: pass an array [rows, 3]": lambda: fidelity()(X[:, :2]),
    "Y has shape [2]: pass an array [3]": lambda: fidelity()(X, X[0, :2]),
    "X is nan at index (0, 1)": lambda: fidelity()([[0, np.nan, 1]]),
    "X has dtype complex128": lambda: fidelity()(X * 1j),
    "X has dtype <U1": lambda: fidelity()([["a", "b", "c"]]),
    "shots is 10.5: pass an integer": lambda: fidelity(shots=10.5),
    "shots is 0: pass an integer from 1": lambda: fidelity(shots=0),
    "seed is 'a': pass an integer": lambda: fidelity(shots=1, seed="a"),
    "memory_limit is 0": lambda: fidelity(memory_limit=0),
    "gamma is 0: pass a positive number": lambda: projected(gamma=0),
    "circuit is None": lambda: FidelityKernel(None, ["x0"]),  # type: ignore[arg-type]
    "inputs is empty": lambda: FidelityKernel(encoder(), [], None, np.zeros(6)),
    "parameter_values is missing: the circuit has 3": lambda: FidelityKernel(encoder(), INPUTS),
    "parameter_values has shape [2]": lambda: fidelity().with_parameters([1, 2]),
    "y[1] is 0: use the labels -1 and 1": lambda: alignment(fidelity(), X[:2], [1, 0]),
    "y has shape [2]: pass an array [7]": lambda: alignment(fidelity(), X, [1, 1]),
    "y is nan at index (0,)": lambda: alignment(fidelity(), X[:1], [np.nan]),
    "X has no rows": lambda: alignment(fidelity(), X[:0], []),
    "shots is 5: gradients": lambda: alignment(fidelity(shots=5), X, LABELS),
    "kernel is None: pass a FidelityKernel": lambda: alignment(None, X, LABELS),  # type: ignore[arg-type]
    "K has shape [2, 3]": lambda: nearest_psd(np.ones((2, 3))),
    "K differs from its transpose by 1": lambda: nearest_psd([[1, 1], [0, 1]]),
    "K is inf at index (0, 0)": lambda: nearest_psd([[np.inf]]),
    "K has 0 at [1, 1]": lambda: nearest_psd(np.diag([1, 0]), unit_diagonal=True),
    "unit_diagonal is 1": lambda: nearest_psd([[1]], unit_diagonal=1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_argument_is_refused_in_one_sentence(message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        WRONG[message]()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "call", "words"),
    [
        (391, lambda kernel: kernel(X), ("392 bytes", "memory_limit is 391", "at most 6 rows")),
        (279, lambda kernel: kernel(X, Y), ("280 bytes", "at most 4 rows of X at a time")),
        (600, lambda kernel: kernel(X), ("features of 2 rows", "512 bytes", "complex64")),
        (3000, lambda kernel: alignment(kernel, X, LABELS), ("5,936 bytes", "at most 4 rows")),
    ],
    ids=["square", "rectangle", "states", "gradient"],
)
def test_kernel_beyond_memory_limit_names_what_fits(
    limit: int, call: Callable[[QuantumKernel], object], words: tuple[str, ...]
) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        call(fidelity(memory_limit=limit))
    for word in words:
        assert word in str(caught.value)


def test_kernel_beyond_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    rows = np.zeros((4000, 3))
    with pytest.raises(MemoryLimitError, match="128,000,000 bytes, but 1,000,000 bytes are free"):
        fidelity()(rows)
    with pytest.raises(MemoryLimitError, match="1,000,000 bytes are free: pass at most 139 rows"):
        alignment(fidelity(), rows, np.ones(4000))


def test_wide_noisy_circuit_is_refused() -> None:
    qubits = cirq.LineQubit.range(7)
    circuit = cirq.Circuit(
        cirq.rx(sympy.Symbol("x0")).on_each(*qubits), cirq.depolarize(0.1)(qubits[0])
    )
    with pytest.raises(CircuitError, match=r"7 qubits.*at most 6 qubits"):
        FidelityKernel(circuit, ["x0"])
    assert ProjectedKernel(circuit, ["x0"])([[0.3], [0.5]])[0, 1] < 1


def test_estimators_without_scikit_learn_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "qfleet.kernels.estimators", raising=False)
    with pytest.raises(LibraryError, match=re.escape("qfleet[sklearn]")):
        importlib.import_module("qfleet.kernels.estimators")
