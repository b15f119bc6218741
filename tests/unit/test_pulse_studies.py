"""Studies of pulses in benchmarks/: the mixer of MaxCut, H2, reversed pulses, robust states."""

import networkx as nx
import numpy as np
import pytest

from benchmarks import pulse_mixer, reversed_pulses, robust_pulses
from benchmarks.pulse_vqe import PulseEnergy, reduced_hamiltonian
from qfleet.problems import named

pytestmark = pytest.mark.exhaustive


def test_mixer_of_pulses_cuts_at_least_as_much_as_gates() -> None:
    graph = nx.path_graph(3)
    found = {kind: pulse_mixer.ratios(graph, kind, 1, 1) for kind in pulse_mixer.KINDS}
    noisy, ideal = ({kind: one[at][0] for kind, one in found.items()} for at in range(2))
    assert all(noisy[kind] < ideal[kind] <= 1 + 1e-6 for kind in found)
    assert noisy["own pulses"] > noisy["free gates"] > noisy["gates"]
    assert ideal["shared pulse"] == pytest.approx(ideal["gates"], abs=5e-3)


def test_reduced_hydrogen_has_the_energy_of_the_molecule() -> None:
    (member,) = named("h2:0.9").members()
    found = np.linalg.eigvalsh(reduced_hamiltonian(0.9))[0]
    assert found == pytest.approx(member.reference_energy(), abs=1e-9)


@pytest.mark.parametrize("levels", [2, 3])
def test_energy_of_a_pulse_has_its_gradient(levels: int) -> None:
    energy = PulseEnergy(reduced_hamiltonian(0.74), levels, samples=6)
    generator = np.random.default_rng(0)
    count = len(energy.pulse.names) + 2
    at, direction = 0.1 * generator.normal(size=(2, count))
    value, gradient = energy(at)
    h = 1e-3
    one, two = (
        energy(at + step * direction)[0] - energy(at - step * direction)[0] for step in (h, 2 * h)
    )
    assert gradient @ direction == pytest.approx((8 * one - two) / (12 * h), abs=1e-8)
    assert value > np.linalg.eigvalsh(energy.hamiltonian)[0]
    assert energy.leakage(at) == pytest.approx(0, abs=1e-12) or levels == 3


def test_reversed_pulses_estimate_decay_and_miss_strong_drives() -> None:
    start = np.random.default_rng(1)
    two = reversed_pulses.device()
    energy = PulseEnergy(reduced_hamiltonian(0.74), 2, 20, two)
    values = 0.1 * start.normal(size=len(energy.pulse.names) + 2)
    decayed = reversed_pulses.outcome(energy, values, 4.0, 2.5)
    assert decayed.fidelity < 0.99996
    assert decayed.estimate == pytest.approx(decayed.fidelity, abs=1e-6)
    assert decayed.extrapolated < 0.1 * decayed.deviation
    strong = reversed_pulses.outcome(energy, values, 4.0, 2.5, strength=1.1)
    assert strong.fidelity < decayed.fidelity - 1e-4
    assert strong.estimate == pytest.approx(decayed.estimate, abs=5e-5)
    assert strong.extrapolated > decayed.extrapolated


def test_measured_states_have_the_gradient_of_their_distance() -> None:
    device = robust_pulses.model(3, 100.0, 80.0)
    one = robust_pulses.prepared(robust_pulses.targets(3)["w"], device, device)
    at, direction = 0.02 * np.random.default_rng(2).normal(size=(2, len(one.pulse.bounds)))
    _, gradient = one.measured(at)

    def distance(step: float) -> float:
        return 2 - 2 * np.sqrt(1 - one.measured(at + step * direction)[0])

    wanted = (8 * (distance(0.03) - distance(-0.03)) - distance(0.06) + distance(-0.06)) / 0.36
    assert gradient @ direction == pytest.approx(wanted, rel=1e-5)


def test_measured_states_correct_a_device_that_deviates(monkeypatch) -> None:
    monkeypatch.setattr(robust_pulses, "ITERATIONS", 80)
    nominal = robust_pulses.model(2, 100.0, 80.0)
    device = robust_pulses.deviating(nominal, 2)
    before, after, decayed = robust_pulses.fidelities(
        robust_pulses.targets(2)["ghz"], nominal, device
    )
    assert before < 0.99
    assert after > 0.5 + before / 2
    assert after - 0.02 < decayed < after
