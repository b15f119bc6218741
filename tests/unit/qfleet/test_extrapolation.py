"""Zero-noise extrapolation: folding, fits against closed forms, and mitigated circuits."""

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits import (
    add_noise,
    circuit_then_reverse,
    fold,
    hardware_efficient,
    join_zeros,
    qcnn,
)
from qfleet.errors import ArgumentError, CircuitError
from qfleet.extrapolation import extrapolate
from qfleet.noise_rates import NoiseRates
from qfleet.zne_factors import FITS, parse_factors

A, B = cirq.LineQubit.range(2)
FACTORS = (1, 3, 5)
RATES = NoiseRates(depolarizing=0.002, two_qubit_depolarizing=0.01, amplitude_damping=0.002,
                   readout=0.01)  # fmt: skip


def noise(folded: cirq.Circuit, factor: int) -> cirq.Circuit:
    return add_noise(folded, RATES, folded.all_qubits(), readings=factor)


def gate_count(circuit: cirq.AbstractCircuit) -> int:
    return sum(1 for _ in circuit.all_operations())


@pytest.mark.parametrize("factor", [1, 3, 5])
def test_fold_keeps_unitary_and_symbols(factor: int) -> None:
    model = qcnn(4, encoder="reupload")
    folded = fold(model.circuit, factor)
    assert gate_count(folded) == factor * gate_count(model.circuit)
    assert cirq.parameter_names(folded) == cirq.parameter_names(model.circuit)
    values = {name: 0.1 + 0.3 * at for at, name in enumerate(sorted(cirq.parameter_names(folded)))}
    expected, found = (
        cirq.unitary(cirq.resolve_parameters(one, values)) for one in (model.circuit, folded)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("factor", [0, 2, -1, 101, 1.0])
def test_fold_by_even_or_small_factor_raises(factor: int) -> None:
    with pytest.raises(ArgumentError, match="factor"):
        fold(cirq.Circuit(cirq.X(A)), factor)


def test_fold_of_noise_raises() -> None:
    with pytest.raises(CircuitError, match="folded"):
        fold(cirq.Circuit(cirq.depolarize(0.1)(A)), 3)


def test_fold_names_the_error_of_a_gate() -> None:
    class Broken(cirq.Gate):
        def _num_qubits_(self) -> int:
            return 1

        def __pow__(self, exponent: int) -> "Broken":
            raise KeyError(exponent)

    with pytest.raises(CircuitError, match="folded: KeyError"):
        fold(cirq.Circuit(Broken().on(A)), 3)


@pytest.mark.parametrize("function", [cirq.depolarize(0.1), None, lambda folded: folded])
def test_other_noise_function_raises(function: object) -> None:
    with pytest.raises(ArgumentError, match=r"noise is .*: pass a function of the folded"):
        qfleet.MitigatedCircuit(cirq.Circuit(cirq.X(A)), function)


def test_mitigated_circuit_without_qubits_raises() -> None:
    with pytest.raises(CircuitError, match="no qubits"):
        qfleet.MitigatedCircuit(cirq.Circuit(), noise, observables=cirq.Z(A))


@pytest.mark.parametrize("text", ["", "1", "1,2", "0,1", "1,x", "1,3,3", "3,5", "1,101", "1,,3"])
def test_parse_factors_refuses_mistakes(text: str) -> None:
    with pytest.raises(ArgumentError):
        parse_factors(text)


def test_parse_factors_sorts() -> None:
    assert parse_factors("5,1,3") == FACTORS


def test_richardson_is_exact_for_polynomials() -> None:
    x = np.array(FACTORS)
    values = np.stack([0.7 - 0.1 * x + 0.01 * x**2, 1 - 0.02 * x], axis=1)
    np.testing.assert_allclose(extrapolate(x, values, "richardson"), [0.7, 1.0])
    np.testing.assert_allclose(
        extrapolate((1, 3), values[:2, 1], "richardson"), 1.0
    )  # (3 a - b) / 2


def test_linear_fit_matches_least_squares() -> None:
    values = np.random.default_rng(0).normal(size=(4, 3, 2))
    x = (1, 3, 5, 9)
    expected = np.polyfit(x, values.reshape(4, 6), 1)[1].reshape(3, 2)
    np.testing.assert_allclose(extrapolate(x, values, "linear"), expected)


def test_exponential_fit_is_exact_for_decays() -> None:
    x = np.array(FACTORS)[:, None]
    starts, rates = np.array([0.9, -0.4, 1e-8]), np.array([0.05, 0.3, 0.1])
    found = extrapolate(FACTORS, starts * np.exp(-rates * x), "exponential")
    np.testing.assert_allclose(found, starts, rtol=1e-12)


@pytest.mark.parametrize("values", [[0.1, -0.1, 0.0], [0.0, 0.0, 0.0], [0.9, 1e-6, 1e-12]])
def test_exponential_fit_falls_back_to_the_line(values: list[float]) -> None:
    found = extrapolate(FACTORS, values, "exponential")
    np.testing.assert_allclose(found, extrapolate(FACTORS, values, "linear"))


@pytest.mark.parametrize(
    ("factors", "values", "fit"),
    [
        ((1,), [1.0], "linear"),
        ((1, 1), [1.0, 1.0], "linear"),
        ((1, 3), [1.0], "linear"),
        ((1, 3), [1.0, 2.0], "cubic"),
    ],
)
def test_extrapolate_refuses_mistakes(factors: tuple, values: list, fit: str) -> None:
    with pytest.raises(ArgumentError):
        extrapolate(factors, values, fit)


@pytest.mark.parametrize("fit", FITS)
def test_mitigated_values_are_closer_to_the_ideal(fit: str) -> None:
    model = hardware_efficient(3, 2)
    observables = [cirq.X(A) * cirq.X(B), cirq.Z(model.qubits[2])]
    angles = np.random.default_rng(1).uniform(0, 6, (4, len(model.parameters)))
    arguments = model.parameters, (), observables
    ideal = qfleet.compile(model.circuit, *arguments).expectation(angles)
    mitigated = qfleet.MitigatedCircuit(model.circuit, noise, *arguments, fit=fit)
    noisy = mitigated.at_factors(angles)
    assert noisy.shape == (3, 4, 2)
    errors = [np.abs(one - ideal).mean() for one in (noisy[0], mitigated.expectation(angles))]
    assert errors[1] < 0.4 * errors[0]
    single = qfleet.compile(noise(model.circuit, 1), *arguments).expectation(angles)
    np.testing.assert_allclose(noisy[0], single, atol=1e-12)


def test_return_probability_matches_the_density_matrix() -> None:
    model = hardware_efficient(3, 1)
    angles = np.random.default_rng(2).uniform(0, 6, (2, len(model.parameters)))
    mitigated = qfleet.MitigatedCircuit(
        model.circuit,
        noise,
        model.parameters,
        observables=cirq.Z(A),
    )
    returned = noise(circuit_then_reverse(model.circuit), 1)
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    expected = [
        simulator.simulate(returned, dict(zip(model.parameters, row, strict=True)))
        .final_density_matrix[0, 0]
        .real
        for row in angles
    ]
    found = mitigated.return_probability(angles)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found < 1).all()


@pytest.mark.parametrize("bits", [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1)])
def test_join_zeros_finds_all_zeros(bits: tuple[int, ...]) -> None:
    qubits = cirq.LineQubit.range(3)
    flips = [cirq.X(qubit) for qubit, bit in zip(qubits, bits, strict=True) if bit]
    circuit = cirq.Circuit(cirq.I.on_each(*qubits), flips) + join_zeros(qubits)
    value = qfleet.compile(circuit, observables=cirq.Z(qubits[0])).expectation()
    assert value == pytest.approx(1.0 if not any(bits) else -1.0)


def test_mitigated_circuit_takes_examples_and_parameters() -> None:
    x, p = sympy.symbols("x p")
    circuit = cirq.Circuit(cirq.rx(x)(A), cirq.CNOT(A, B), cirq.ry(p)(B))
    mitigated = qfleet.MitigatedCircuit(
        circuit, noise, ["x"], observables=[cirq.Z(B)],
        factors=(1, 5),
    )  # fmt: skip
    assert mitigated.expectation([[0.1], [0.2]], [0.3]).shape == (2, 1)
    assert mitigated.expectation([0.1], [0.3]).shape == (1,)
    assert 0.8 < mitigated.return_probability([0.1], [0.3]) < 1
