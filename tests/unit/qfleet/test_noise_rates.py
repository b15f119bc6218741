"""Rates of noise: what is added to a circuit, and mistakes."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits import add_noise
from qfleet.errors import NoiseError
from qfleet.noise_rates import NoiseRates, parse_rates

A, B = cirq.LineQubit.range(2)
CIRCUIT = cirq.Circuit(cirq.ry(0.7)(A), cirq.H(B), cirq.CZ(A, B), cirq.rx(0.4)(B))


def values(circuit: cirq.Circuit, *observables: cirq.PauliString) -> np.ndarray:
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    sums = [cirq.PauliSum.wrap(one) for one in observables]
    return np.real(simulator.simulate_expectation_values(circuit, sums))


def test_every_rate_is_read() -> None:
    text = (
        "depolarizing:0.01,two-qubit-depolarizing:0.02,amplitude-damping:0.03,phase-damping:0.04,"
        "bit-flip:0.05,phase-flip:0.06,over-rotation:0.07,crosstalk:-0.08,readout:0.09"
    )
    expected = NoiseRates(0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, -0.08, 0.09)
    assert parse_rates(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("decay:0.1", "'decay' is unknown: use depolarizing"),
        ("readout:0.6", "readout:0.6 is out of range: use a number from 0 to 0.5"),
        ("bit-flip:-0.1", "out of range"),
        ("bit-flip:nan", "out of range"),
        ("crosstalk:9", "from -3.2 to 3.2"),
        ("bit-flip:many", "'bit-flip:many' is not a number"),
        ("bit-flip:0.1,bit-flip:0.1", "given twice"),
        ("", "'' is unknown"),
    ],
)
def test_mistakes_are_one_sentence(text: str, words: str) -> None:
    with pytest.raises(NoiseError) as caught:
        parse_rates(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rates", "one_qubit", "two_qubit"),
    [
        (NoiseRates(depolarizing=0.1), [cirq.depolarize(0.1)], [cirq.depolarize(0.1)] * 2),
        (NoiseRates(amplitude_damping=0.2), [cirq.amplitude_damp(0.2)],
         [cirq.amplitude_damp(0.2)] * 2),
        (NoiseRates(phase_damping=0.2), [cirq.phase_damp(0.2)], [cirq.phase_damp(0.2)] * 2),
        (NoiseRates(bit_flip=0.2), [cirq.bit_flip(0.2)], [cirq.bit_flip(0.2)] * 2),
        (NoiseRates(phase_flip=0.2), [cirq.phase_flip(0.2)], [cirq.phase_flip(0.2)] * 2),
        (NoiseRates(over_rotation=0.05), [cirq.rx(0.05)], []),
    ],
)  # fmt: skip
def test_noise_follows_each_gate(
    rates: NoiseRates, one_qubit: list[cirq.Gate], two_qubit: list[cirq.Gate]
) -> None:
    expected = cirq.Circuit()
    for operation in CIRCUIT.all_operations():
        expected += operation
        gates = one_qubit if len(operation.qubits) == 1 else two_qubit
        for gate, qubit in zip(gates, operation.qubits, strict=False):
            expected += gate(qubit)
    words = (cirq.Z(A), cirq.X(B), cirq.Y(A) * cirq.Z(B), cirq.Z(B))
    found = values(add_noise(CIRCUIT, rates), *words)
    assert found == pytest.approx(values(expected, *words), abs=1e-12)
    assert found != pytest.approx(values(CIRCUIT, *words), abs=1e-3)


def test_noise_of_pairs() -> None:
    rates = NoiseRates(depolarizing=0.1, two_qubit_depolarizing=0.2, crosstalk=0.3)
    noisy = add_noise(cirq.Circuit(cirq.H(A), cirq.CNOT(A, B)), rates)
    after = [cirq.depolarize(0.1)(A), cirq.CNOT(A, B)]
    coherent = cirq.ZZPowGate(exponent=0.3 / np.pi, global_shift=-0.5)(A, B)
    expected = cirq.Circuit(cirq.H(A), *after, coherent, cirq.depolarize(0.2, 2)(A, B))
    words = (cirq.X(A) * cirq.X(B), cirq.Z(A) * cirq.Z(B), cirq.Y(A) * cirq.X(B))
    assert values(noisy, *words) == pytest.approx(values(expected, *words), abs=1e-12)


def test_readout_error_shrinks_words_by_their_qubits() -> None:
    noisy = add_noise(CIRCUIT, NoiseRates(readout=0.1), [A, B])
    words = (cirq.Z(A), cirq.X(B), cirq.Y(A) * cirq.Z(B))
    expected = values(CIRCUIT, *words) * [0.8, 0.8, 0.64]
    assert values(noisy, *words) == pytest.approx(expected, abs=1e-12)


def test_symbols_are_kept() -> None:
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("x"))(A), cirq.CNOT(A, B))
    noisy = add_noise(circuit, NoiseRates(depolarizing=0.01), [B])
    assert cirq.parameter_names(noisy) == {"x"}


def test_readings_of_an_iterator_are_those_of_a_list() -> None:
    rates = NoiseRates(readout=0.1)
    found = add_noise(CIRCUIT, rates, iter([B, A]), readings=3)
    assert found == add_noise(CIRCUIT, rates, [A, B, A], readings=3)
