"""Circuits on a device: equal expectation values without noise, and the noise of each gate."""

import math

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits import hardware_efficient, qcnn, uccsd
from qfleet.devices import (
    Calibration,
    PairCalibration,
    QubitCalibration,
    add_device_noise,
    map_to_device,
    predict_fidelity,
    with_coherent_errors,
)
from qfleet.devices.fidelity import EXPONENT
from qfleet.errors import ArgumentError, NoiseError
from tests.support.devices import made_up_device

A, B, C, D = cirq.LineQubit.range(4)
S, T = sympy.symbols("s t")
KINDS = [("cz", "sx"), ("cz", "phased_x"), ("sqrt_iswap", "phased_x"), ("sqrt_iswap", "sx")]


def symbolic_circuit() -> cirq.Circuit:
    """Return every kind of gate that has a symbol."""
    return cirq.Circuit(
        cirq.H.on_each(A, B, C, D),
        cirq.X(A) ** S, cirq.ry(T)(B), cirq.rz(S)(C), cirq.Y(D) ** (S / 2),
        cirq.ZZ(A, B) ** S, cirq.XX(A, B) ** T, cirq.YY(A, B) ** (S + T),
        cirq.CZ(A, C) ** T, cirq.CNOT(B, D) ** S, cirq.ISWAP(C, D) ** T, cirq.SWAP(A, D) ** S,
        cirq.PhasedXPowGate(phase_exponent=0.3, exponent=S)(B), cirq.H(C) ** T,
        cirq.FSimGate(S, T)(B, C), cirq.XX(C, D) ** S, cirq.SWAP(C, D), cirq.ZZ(C, D) ** T,
        cirq.ry(S)(B).controlled_by(A), cirq.rx(T)(D).controlled_by(A),
        cirq.PhasedXZGate(x_exponent=S, z_exponent=T, axis_phase_exponent=0.2)(D),
        cirq.PauliStringPhasor(cirq.X(A) * cirq.Y(B) * cirq.Z(D), exponent_neg=S),
        cirq.TOFFOLI(A, C, D), cirq.T(A), cirq.S(B),
    )  # fmt: skip


def values(circuit: cirq.Circuit, observables: list[cirq.PauliSum], names: list[str]) -> np.ndarray:
    angles = np.random.default_rng(3).uniform(-3, 3, len(names))
    compiled = qfleet.compile(circuit, [], names, observables, dtype="complex128")
    return compiled.expectation(np.zeros([1, 0]), angles)[0]


def words(qubits: list[cirq.Qid]) -> list[cirq.PauliSum]:
    first, second, *_, last = qubits
    found = [cirq.Z(first), cirq.X(second) * cirq.Y(last), cirq.Y(first) * cirq.Z(second)]
    return [cirq.PauliSum.wrap(one) for one in found]


@pytest.mark.parametrize(("gate", "pulse"), KINDS)
def test_mapped_circuit_has_equal_values(gate: str, pulse: str) -> None:
    device = made_up_device(gate, pulse)
    small = hardware_efficient(4, 2)
    cases = [
        (symbolic_circuit(), ["s", "t"]),
        (small.circuit, list(small.parameters)),
        (cirq.testing.random_circuit([A, B, C, D], 12, 0.8, random_state=5), []),
    ]
    for circuit, names in cases:
        observables = words([A, B, C, D])
        mapped = map_to_device(circuit, device, observables)
        found = values(mapped.circuit, list(mapped.observables), names)
        assert found == pytest.approx(values(circuit, observables, names), abs=1e-6)
        assert mapped.qubits == tuple(cirq.LineQubit.range(4))
        for operation in mapped.circuit.all_operations():
            if len(operation.qubits) == 2:
                first, second = operation.qubits
                assert abs(first.x - second.x) == 1
                assert operation.gate == (cirq.CZ if gate == "cz" else cirq.ISWAP**0.5)
            elif pulse == "sx" and not isinstance(operation.gate, cirq.ZPowGate):
                assert operation.gate in (cirq.X, cirq.X**0.5)


def test_models_keep_values_and_few_gates() -> None:
    device = made_up_device()
    model = qcnn(5, layers=2, features=5)
    names = [*model.inputs, *model.parameters]
    mapped = map_to_device(model.circuit, device, model.observables, model.qubits)
    found = values(mapped.circuit, list(mapped.observables), names)
    assert found == pytest.approx(values(model.circuit, list(model.observables), names), abs=1e-6)
    electrons = uccsd(4, 2)
    pairs = [
        sum(len(one.qubits) == 2 for one in circuit.all_operations())
        for circuit in (electrons.circuit, map_to_device(electrons.circuit, device).circuit)
    ]
    assert pairs[1] <= pairs[0]


def test_interactions_of_a_pair_take_three_gates() -> None:
    circuit = cirq.Circuit(cirq.XX(A, B) ** S, cirq.YY(A, B) ** T, cirq.ZZ(A, B) ** S)
    for extra in ([], [cirq.SWAP(A, B)]):
        mapped = map_to_device(circuit + extra, made_up_device()).circuit
        assert sum(one.gate == cirq.CZ for one in mapped.all_operations()) == 3


def test_grid_qubits_are_mapped() -> None:
    qubits = {"2_3": QubitCalibration(), "2_4": QubitCalibration()}
    device = Calibration("grid", "cz", "phased_x", qubits, {("2_3", "2_4"): PairCalibration()})
    mapped = map_to_device(cirq.Circuit(cirq.CNOT(A, B)), device)
    assert mapped.qubits == (cirq.GridQubit(2, 3), cirq.GridQubit(2, 4))


def test_circuits_that_can_not_be_mapped_are_refused() -> None:
    device = made_up_device()
    with pytest.raises(NoiseError, match="6 qubits"):
        map_to_device(cirq.Circuit(cirq.X.on_each(*cirq.LineQubit.range(7))), device)
    with pytest.raises(NoiseError, match="can't be compiled"):
        map_to_device(cirq.Circuit(cirq.depolarize(0.1)(A)), device)
    with pytest.raises(NoiseError, match="can't be compiled"):
        map_to_device(cirq.Circuit(cirq.ry(S)(A).controlled_by(B, control_values=[0])), device)


def noisy_value(circuit: cirq.Circuit, device: Calibration, observable: cirq.PauliString) -> float:
    sums = [cirq.PauliSum.wrap(observable)]
    noisy = add_device_noise(circuit, device, sums)
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    return float(np.real(simulator.simulate_expectation_values(noisy, sums)[0]))


def test_pulse_has_its_average_infidelity() -> None:
    device = made_up_device(p01=0.0, p10=0.0)
    states = [[], [cirq.X(A)], [cirq.H(A)], [cirq.X(A), cirq.H(A)],
              [cirq.H(A), cirq.S(A)], [cirq.H(A), cirq.S(A) ** -1]]  # fmt: skip
    noise = add_device_noise(cirq.Circuit(cirq.X(A)), device)
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    fidelities = []
    for state in states:
        begin = cirq.Circuit(state, cirq.I(A))
        ideal = (begin + cirq.X(A)).final_state_vector()
        found = simulator.simulate(begin + noise).final_density_matrix
        fidelities.append(np.real(ideal.conj() @ found @ ideal))
    assert 1 - np.mean(fidelities) == pytest.approx(1e-3, abs=1e-6)


def test_waiting_qubit_relaxes() -> None:
    device = made_up_device(error=0.0, p01=0.0, p10=0.0)
    circuit = cirq.Circuit(cirq.X(A), cirq.X(B), cirq.CZ(B, C))
    expected = math.exp(-0.34 / 80)  # 40 ns of the pulse, 300 ns of waiting
    assert noisy_value(circuit, device, cirq.Z(A)) == pytest.approx(1 - 2 * expected, abs=1e-9)
    # In its ground state, a qubit does not relax.
    assert predict_fidelity(cirq.Circuit(cirq.Z(A), cirq.Z(B)), device) == 1


@pytest.mark.parametrize("letter", [cirq.X, cirq.Y, cirq.Z])
def test_readout_error_is_exact_in_one_basis(letter: cirq.Pauli) -> None:
    device = made_up_device(error=0.0, t1=math.inf, t2=math.inf)
    circuit = cirq.Circuit(cirq.X(A) ** 0.5, cirq.Z(A) ** 0.3, cirq.X(A) ** 0.5)
    ideal = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(circuit, [letter(A)])
    expected = (1 - 0.02 - 0.05) * float(np.real(ideal[0])) + 0.05 - 0.02
    assert noisy_value(circuit, device, letter(A)) == pytest.approx(expected, abs=1e-9)


def test_readout_in_several_bases_is_symmetric() -> None:
    device = made_up_device(error=0.0, t1=math.inf, t2=math.inf)
    circuit = cirq.Circuit(cirq.X(A) ** 0.5)
    sums = [cirq.PauliSum.wrap(one(A)) for one in (cirq.Y, cirq.Z)]
    noisy = add_device_noise(circuit, device, sums)
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    found = np.real(simulator.simulate_expectation_values(noisy, sums))
    assert found == pytest.approx([-0.93, 0], abs=1e-6)


def test_coherent_errors_turn_pulses_and_pairs() -> None:
    rates = {"error": 0.0, "t1": math.inf, "t2": math.inf, "p01": 0.0, "p10": 0.0}
    device = with_coherent_errors(made_up_device(**rates), seed=2)
    angle = device.qubits["0"].over_rotation
    value = noisy_value(cirq.Circuit(cirq.X(A) ** 0.5), device, cirq.Z(A))
    assert value == pytest.approx(math.cos(math.pi / 2 + angle), abs=1e-6)
    lost = math.sin(angle / 2) ** 2
    predicted = predict_fidelity(cirq.Circuit(cirq.X(A) ** 0.5), device)
    assert predicted == pytest.approx((1 - lost / 2) ** EXPONENT, abs=1e-9)


def exact_fidelity(circuit: cirq.Circuit, device: Calibration) -> float:
    noisy = add_device_noise(circuit, device)
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    ideal = cirq.Simulator(dtype=np.complex128).simulate(circuit).final_state_vector
    found = simulator.simulate(noisy).final_density_matrix
    return float(np.real(ideal.conj() @ found @ ideal))


@pytest.mark.parametrize(("gate", "pulse"), KINDS[:3])
def test_predicted_fidelity_is_near_the_exact_one(gate: str, pulse: str) -> None:
    device = made_up_device(gate, pulse)
    for seed in range(4):
        circuit = cirq.testing.random_circuit(3, 3 * seed + 2, 0.8, random_state=seed)
        mapped = map_to_device(circuit, device).circuit
        exact = exact_fidelity(mapped, device)
        assert predict_fidelity(mapped, device) == pytest.approx(exact, abs=0.06)


def test_errors_that_do_nothing_cost_nothing() -> None:
    device = made_up_device(t1=math.inf, error=0.0)
    pairs = {pair: PairCalibration(0.0, 300.0) for pair in device.pairs}
    quiet = Calibration("quiet", "cz", "sx", device.qubits, pairs)
    circuit = cirq.Circuit(cirq.X(A), cirq.CZ(A, B), cirq.CZ(A, B))
    assert predict_fidelity(circuit, quiet) == pytest.approx(1, abs=1e-9)
    assert predict_fidelity(circuit + cirq.X(A) ** 0.5 + cirq.CZ(A, B), quiet) < 0.999


def test_fidelity_of_free_symbols_is_refused() -> None:
    with pytest.raises(ArgumentError, match="symbol s"):
        predict_fidelity(cirq.Circuit(cirq.Z(A) ** S), made_up_device())


def test_relaxation_that_leaves_nothing_is_simulated() -> None:
    qubits = {name: QubitCalibration(1e-6, 1e-6, 0.5, 1e9) for name in ("0", "1")}
    pairs = {("0", "1"): PairCalibration(0.5, 1e9)}
    device = Calibration("slow", "cz", "sx", qubits, pairs)
    circuit = cirq.Circuit(cirq.X(A), cirq.X(B), cirq.CZ(A, B))
    assert noisy_value(circuit, device, cirq.Z(A)) == pytest.approx(1, abs=1e-6)
    assert 0 < predict_fidelity(circuit, device) < 0.5


def test_phase_is_dropped_and_mistakes_are_one_sentence() -> None:
    device = made_up_device()
    mapped = map_to_device(cirq.Circuit(cirq.X(A), cirq.global_phase_operation(1j)), device)
    assert len(mapped.circuit.all_qubits()) == 1
    with pytest.raises(NoiseError, match="no qubits"):
        map_to_device(cirq.Circuit(), device)
    with pytest.raises(NoiseError, match="map_to_device"):
        add_device_noise(cirq.Circuit(cirq.CZ(A, D)), device)


@pytest.mark.parametrize(
    ("qubits", "word"), [([A, A], "q(0)"), ([A], "q(1)"), ([A, C], "q(1)"), ([], "q(0)")]
)
def test_qubits_that_do_not_fit_are_refused(qubits: list[cirq.Qid], word: str) -> None:
    with pytest.raises(ArgumentError, match="qubits") as found:
        map_to_device(cirq.Circuit(cirq.X(A)), made_up_device(), [cirq.Z(B)], qubits)
    assert word in str(found.value)


@pytest.mark.parametrize(
    "operation",
    [
        cirq.H(A), cirq.Y(A), cirq.CNOT(A, B), cirq.ZZ(A, B), cirq.CCX(A, B, C), cirq.wait(A),
        cirq.X(cirq.q("a")), cirq.X(cirq.q(99)), cirq.X(cirq.GridQubit(0, 1)), cirq.CZ(A, C),
        cirq.GlobalPhaseGate(1j)(), cirq.CircuitOperation(cirq.FrozenCircuit(cirq.X(A))),
    ],
    ids=str,
)  # fmt: skip
def test_fidelity_of_a_circuit_not_mapped_is_refused(operation: cirq.Operation) -> None:
    with pytest.raises(NoiseError, match="map_to_device"):
        predict_fidelity(cirq.Circuit(operation), made_up_device())


@pytest.mark.parametrize(
    "circuit",
    [cirq.X(cirq.q("a")), cirq.X(cirq.q(99)), cirq.CCX(A, B, C), cirq.GlobalPhaseGate(1j)()],
    ids=str,
)
def test_noise_of_a_circuit_not_mapped_is_refused(circuit: cirq.Operation) -> None:
    with pytest.raises(NoiseError, match="map_to_device"):
        add_device_noise(cirq.Circuit(circuit), made_up_device())


def test_readout_of_another_qubit_is_refused() -> None:
    observables = [cirq.PauliSum.wrap(cirq.Z(cirq.q(99)))]
    with pytest.raises(NoiseError, match="99"):
        add_device_noise(cirq.Circuit(), made_up_device(), observables)
