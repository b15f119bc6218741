"""Laws of circuits with pulses: all methods, mapped to a device, with its noise, saved, drawn."""

import cirq
import numpy as np
import pytest

import qfleet
from qfleet.circuits import fold
from qfleet.circuits.circuit_json import from_json, to_json
from qfleet.devices import MappedCircuit, add_device_noise, map_to_device, predict_fidelity
from qfleet.errors import CircuitError, NoiseError
from qfleet.pulses import Grid, PiecewiseConstant, Propagator, Pulse, PulseGate, Transmons, drive
from tests.support.devices import made_up_device
from tests.support.pulse_circuits import (
    NAMES,
    OBSERVABLES,
    POINT,
    QUBITS,
    ROWS,
    TRANSMON,
    circuit_of,
    one_qubit_gate,
    two_qubit_gate,
)

METHODS = ("state_vector", "tensor_network", "density_matrix", "trajectories")
NUMBERS = dict(zip(NAMES, POINT, strict=True))
GATES = pytest.mark.parametrize("gate", [one_qubit_gate(), two_qubit_gate()], ids=["one", "two"])
DEVICE = made_up_device()


def mapped(circuit: cirq.AbstractCircuit) -> MappedCircuit:
    sums = [cirq.PauliSum.wrap(one) for one in OBSERVABLES]
    return map_to_device(circuit, DEVICE, sums, QUBITS)


def timed(circuit: cirq.AbstractCircuit) -> list[cirq.Gate | None]:
    return [one.gate for one in circuit.all_operations() if isinstance(one.gate, PulseGate)]


@GATES
@pytest.mark.parametrize("has_numbers", [True, False], ids=["numbers", "symbols"])
def test_pulse_has_equal_values_by_all_ways(gate: PulseGate, has_numbers: bool) -> None:
    """With numbers and symbols; by every method; saved and loaded; mapped to a device."""
    circuit = circuit_of(cirq.resolve_parameters(gate, NUMBERS) if has_numbers else gate)
    names, values = ([], []) if has_numbers else (NAMES, POINT)
    ways = [(circuit, OBSERVABLES), (from_json(to_json(circuit)), OBSERVABLES)]
    on_device = mapped(from_json(to_json(circuit)))
    assert "Pulse(10 ns" in str(on_device.circuit)
    assert timed(on_device.circuit) == timed(circuit)
    ways += [(on_device.circuit, on_device.observables)]
    plain = cirq.resolve_parameters(circuit, NUMBERS)
    simulator = cirq.Simulator(dtype=np.complex128)
    wanted = [
        simulator.simulate_expectation_values(plain, OBSERVABLES, {"x": x, "y": y}) for x, y in ROWS
    ]
    for one, observables in ways:
        for method in METHODS:
            compiled = qfleet.compile(
                one, ["x", "y"], names, observables, method=method, dtype="complex128"
            )
            np.testing.assert_allclose(
                compiled.expectation(ROWS, values), np.real(wanted), atol=1e-8, err_msg=method
            )


@GATES
def test_pulse_decays_for_its_own_duration(gate: PulseGate) -> None:
    resolved = cirq.resolve_parameters(gate, NUMBERS)
    used = QUBITS[: cirq.num_qubits(gate)]
    on_device = mapped(cirq.Circuit(resolved(*used)))
    noisy = add_device_noise(on_device.circuit, DEVICE)
    rates = DEVICE.qubits["0"]  # all qubits have the same times
    by_hand = on_device.circuit.unfreeze()
    kept = np.exp(-10e-3 / rates.t1)
    dephased = 1 - np.exp(-20e-3 / rates.t2) / kept
    for qubit in timed_qubits(on_device.circuit):
        by_hand += [cirq.amplitude_damp(1 - kept)(qubit), cirq.phase_damp(dephased)(qubit)]
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    found, wanted = (simulator.simulate(one).final_density_matrix for one in (noisy, by_hand))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@GATES
def test_inverse_of_a_pulse_undoes_it(gate: PulseGate) -> None:
    pulse = cirq.resolve_parameters(gate, NUMBERS)(*QUBITS[: cirq.num_qubits(gate)])
    folded = cirq.Circuit(fold(cirq.Circuit(pulse), 3), pulse**-1)
    np.testing.assert_allclose(cirq.unitary(folded), np.eye(2 ** len(pulse.qubits)), atol=1e-9)
    with pytest.raises(CircuitError, match="symbol a"):
        fold(cirq.Circuit(gate(*pulse.qubits)), 3)


def timed_qubits(circuit: cirq.AbstractCircuit) -> list[cirq.Qid]:
    (found,) = [one for one in circuit.all_operations() if isinstance(one.gate, PulseGate)]
    return list(found.qubits)


def test_pulse_in_a_part_of_a_circuit_is_kept() -> None:
    gate = cirq.resolve_parameters(one_qubit_gate(), NUMBERS)
    part = cirq.CircuitOperation(cirq.FrozenCircuit(gate(QUBITS[0]), cirq.CZ(*QUBITS)))
    assert timed(mapped(cirq.Circuit(part)).circuit) == [gate]


@pytest.mark.parametrize("kind", ["controlled", "wide", "folded", "estimated"])
def test_pulse_that_no_device_runs_is_refused(kind: str) -> None:
    gate, (a, b, c) = cirq.resolve_parameters(one_qubit_gate(), NUMBERS), cirq.LineQubit.range(3)
    grid = Grid(4, 1)
    pulse = Pulse([(PiecewiseConstant(grid), drive(2)[0])])
    device = Transmons([TRANSMON] * 3)
    wide = PulseGate(Propagator(device, pulse.channels, grid), pulse, [0.1] * 4)
    circuits = {"controlled": gate(a).controlled_by(b), "wide": wide(a, b, c)}
    circuit = cirq.Circuit(circuits.get(kind, gate(a)))

    def run() -> None:
        found = map_to_device(circuit, DEVICE).circuit
        if kind == "folded":
            add_device_noise(fold(found, 3), DEVICE)
        predict_fidelity(found, DEVICE)

    with pytest.raises(NoiseError, match=r"[pP]ulse"):
        run()
