"""The ansatz of gates and pulses: its start, its leakage, its energy, and MODEL=hybrid-pulse."""

import cirq
import numpy as np
import pytest

import qfleet
from common.data import prepare
from common.errors import SettingsError
from common.model_circuits import with_noise
from common.models import build_model, describe_model
from common.models.ansatz import ansatz_circuit
from common.settings import Settings
from qfleet.circuits import hamiltonian_variational, hybrid_pulse
from qfleet.circuits.circuit_json import from_json
from qfleet.circuits.pulse_ansatz import BOUND, SPLINES
from qfleet.devices import Calibration
from qfleet.pulses import PulseGate

TFIM = {"ZZI": -1.0, "IZZ": -1.0, "XII": -1.0, "IXI": -1.0, "IIX": -1.0}
ENERGY = ("TASK=energy", "DATA=tfim:3:1.0", "MODEL=hybrid-pulse", "LAYERS=1")


def test_first_state_is_that_of_the_annealing_by_gates() -> None:
    states = []
    for circuit in (hybrid_pulse(TFIM, 2), hamiltonian_variational(TFIM, 2)):
        numbers = dict(zip(circuit.parameters, circuit.initial, strict=True))
        resolved = cirq.resolve_parameters(circuit.circuit, numbers)
        states.append(cirq.final_state_vector(resolved, dtype=np.complex128))
    assert abs(np.vdot(*states)) ** 2 > 0.999


def test_cut_of_a_graph_starts_in_all_strings() -> None:
    circuit = hybrid_pulse({"ZZI": 0.5, "IZZ": 0.5}, 1)
    assert [one.gate for one in circuit.circuit[0]] == [cirq.H] * 3
    molecule = hybrid_pulse({"ZZ": 0.5, "XX": 0.2}, 1)
    assert cirq.H not in [one.gate for one in molecule.circuit.all_operations()]


def test_pulses_leak_little_whatever_their_numbers() -> None:
    (gate,) = {one.gate for one in hybrid_pulse({"Z": 1.0}, 1).circuit.all_operations()
               if isinstance(one.gate, PulseGate)}  # fmt: skip
    signs = np.random.default_rng(0).choice([-BOUND, BOUND], (50, 2 * SPLINES))
    leaks = [PulseGate(gate.propagator, gate.pulse, row).leakage for row in signs]
    assert max(leaks) < 0.025


def test_pulses_lower_the_energy_below_that_of_gates() -> None:
    energies = []
    for circuit in (hybrid_pulse(TFIM, 1), hamiltonian_variational(TFIM, 1)):
        total = sum(
            (
                value * cirq.DensePauliString(word).on(*circuit.qubits)
                for word, value in TFIM.items()
            ),
            cirq.PauliSum(),
        )
        compiled = qfleet.compile(circuit.circuit, [], circuit.parameters, [total])
        at = np.array(circuit.initial)
        for _ in range(60):
            values, gradients = compiled.value_and_gradient(np.zeros((1, 0)), at)
            at -= 0.1 * gradients.parameters
        energies.append(float(values[0, 0]))
    assert energies[0] < energies[1] - 0.01


def test_model_is_recorded_with_its_pulses(tmp_path) -> None:
    settings = Settings.from_args(ENERGY)
    data = prepare(settings, tmp_path)
    model = build_model(data.features, settings, data.placement, data.target)
    described = describe_model(model, data.features, settings, data.manifest.encoding)
    (recorded,) = described["circuits"]
    assert from_json(recorded["circuit"]) == ansatz_circuit(settings, data.target).circuit
    assert len(recorded["trained"]) == 2 + 3 * (2 * SPLINES + 1)


def test_pulses_stay_on_a_device_with_noise() -> None:
    qubits = {str(at): {"t1": 100, "t2": 90, "error": 0.001, "duration": 36} for at in range(3)}
    pairs = {f"{at}-{at + 1}": {"error": 0.01, "duration": 300} for at in range(2)}
    values = {"name": "d", "gate": "cz", "pulse": "sx", "qubits": qubits, "pairs": pairs}
    noisy = with_noise(hybrid_pulse(TFIM, 1), str(Calibration.from_values(values)))
    gates = [one.gate for one in noisy.circuit.all_operations()]
    assert sum(isinstance(one, PulseGate) for one in gates) == 3


@pytest.mark.parametrize("argument", ["SIMULATOR=tensorflow", "PRUNE=0.5", "STATE_SHARDS=2"])
def test_pulses_refuse_settings_that_need_gates(argument: str) -> None:
    with pytest.raises(SettingsError, match=argument.partition("=")[0]):
        Settings.from_args([*ENERGY, argument])
