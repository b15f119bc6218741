"""Models without dropped angles: equal outputs, fewer gates, steps, checkpoints and rebuilding."""

import itertools
from pathlib import Path

import cirq
import numpy as np
import pytest

from common.data.target import SIGNS, Target
from common.errors import SettingsError
from common.models import build_model, circuit_layers, describe_model, rebuild
from common.models.pruning import PrunableCircuit, prunable_circuits
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf
from training.step.pruning import Pruning

ROWS = np.random.default_rng(0).uniform(-1, 1, (5, 4)).astype(np.float32)
ENERGY = ("TASK=energy", "MODEL=hardware-efficient", "QUBITS=2", "LAYERS=1")
FAMILY = Target(
    "energy",
    "",
    terms=("II", "ZZ"),
    coefficients=(0.0, 1.0),
    fields=("g",),
    members=2,
)


def settings_of(*args: str) -> Settings:
    return Settings.from_args(["QUBITS=4", "PRUNE=0.5", "EPOCHS=96", "INITIALIZATIONS=1", *args])


def built(*args: str) -> tuple[keras.Model, list[PrunableCircuit], Settings]:
    settings = settings_of(*args)
    model = build_model(4, settings, "angle")
    layers = list(circuit_layers(model))
    return model, prunable_circuits(layers, 4, settings, "angle", SIGNS), settings


def drop_some(one: PrunableCircuit) -> np.ndarray:
    """Drop every second angle, and return which."""
    dropped = np.arange(len(one.periods)) % 2 == 0
    one.layer.angles.assign(np.where(dropped, 0, one.layer.angles.numpy()))
    one.drop(dropped)
    return dropped


def gates(one: PrunableCircuit) -> list[cirq.Operation]:
    return list(one.layer.circuit.all_operations())


@pytest.mark.parametrize("model", ["hybrid", "qcnn", "multi-filter"])
def test_dropped_angles_change_gates_but_no_output(model):
    whole, circuits, _ = built(f"MODEL={model}")
    for one in circuits:
        before = len(gates(one))
        dropped = np.arange(len(one.periods)) % 2 == 0
        one.layer.angles.assign(np.where(dropped, 0, one.layer.angles.numpy()))
        expected = whole(ROWS).numpy()
        one.drop(dropped)
        assert len(gates(one)) < before
        np.testing.assert_allclose(whole(ROWS), expected, atol=1e-5)
        one.drop(np.zeros_like(dropped))
        assert len(gates(one)) == before


def test_dropped_gates_have_no_noise():
    _, (one,), _ = built("NOISE=depolarizing:0.01")
    noisy = sum(not cirq.has_unitary(gate) for gate in gates(one))
    drop_some(one)
    assert 0 < sum(not cirq.has_unitary(gate) for gate in gates(one)) < noisy


def test_state_with_noise_keeps_its_words():
    state = ("TASK=state", "DATA=w", "MODEL=hardware-efficient", "QUBITS=2", "LAYERS=1")
    settings, target = settings_of(*state, "NOISE=depolarizing:0.01"), Target("state", "fidelity")
    model = build_model(9, settings, "angle", target)
    (one,) = prunable_circuits(list(circuit_layers(model)), 9, settings, "angle", target)
    words = one.layer.observables
    before = len(gates(one))
    drop_some(one)
    assert len(gates(one)) < before
    assert one.layer.observables == words
    assert np.isfinite(model(np.ones((1, 9), np.float32)).numpy()).all()


def test_rebuilt_model_has_the_pruned_circuit(tmp_path: Path):
    model, (one,), settings = built()
    drop_some(one)
    model.save_weights(tmp_path / "weights.h5")
    encoding = {"target": SIGNS.to_json(), "placement": "angle"}
    described = describe_model(model, 4, settings, encoding)
    again = rebuild(described, tmp_path / "weights.h5")
    (layer,) = circuit_layers(again)
    assert layer.circuit == one.layer.circuit
    np.testing.assert_allclose(again(ROWS), model(ROWS), atol=1e-6)


def test_step_moves_angles_to_the_nearest_identity():
    _, (one,), settings = built()
    values = np.array([0.05, -0.3, 2 * np.pi + 0.5, 3.0], np.float32)
    start = np.resize(values, len(one.periods))
    one.layer.angles.assign(start)
    pruning = Pruning([one], settings.training)
    pruning.restore(numbered(pruning, strength=1.0, dropped=[0]))
    pruning.shrink(tf.constant(0.1))
    found = one.layer.angles.numpy()
    np.testing.assert_allclose(found[:4], [0, -0.2, 2 * np.pi + 0.4, 2.9], atol=1e-5)
    assert found[0] == 0


def numbered(pruning: Pruning, strength: float, dropped: list[int]) -> dict[str, np.ndarray]:
    """Return a checkpoint of pruning with a strength and dropped angles."""
    arrays = pruning.arrays
    arrays["pruning/numbers"][0] = strength
    arrays["pruning/dropped_at"][dropped] = 1
    return arrays


def test_restored_checkpoint_has_its_circuits():
    _, (one,), settings = built()
    pruning = Pruning([one], settings.training)
    whole = len(gates(one))
    assert pruning.restore(numbered(pruning, 0.5, [0, 1, 2, 3]))
    assert pruning.counts == (4, len(one.periods))
    assert len(gates(one)) < whole
    assert not pruning.restore(pruning.arrays)


def test_decision_reports_gates_before_and_after(monkeypatch):
    _, (one,), settings = built()
    pruning, lines = Pruning([one], settings.training), []
    monkeypatch.setattr("training.step.pruning.log_shared", lines.append)
    monkeypatch.setattr(pruning.schedule, "is_due", lambda epoch: True)
    counts = [len(gates(one))]
    for dropped in (2, 0):

        def decide(epoch, distances, dropped=dropped):
            pruning.schedule.dropped_at = np.repeat([1, 0], [dropped, len(distances) - dropped])
            return True

        monkeypatch.setattr(pruning.schedule, "decide", decide)
        pruning.begin_epoch(1)
        counts.append(len(gates(one)))
    assert counts[0] == counts[2] > counts[1]
    for line, (before, after) in zip(lines, itertools.pairwise(counts), strict=True):
        assert f"{before} -> {after} gates" in line
    assert ["restores 2 angles" in line for line in lines] == [False, True]


def test_model_without_removable_angles_is_refused():
    model = "tests.unit.test_pruning:shifted"
    settings = settings_of(ENERGY[0], f"MODEL={model}", "QUBITS=2", "ANGLES=shared")
    layers = list(circuit_layers(build_model(4, settings, "angle", FAMILY)))
    with pytest.raises(SettingsError, match=f"PRUNE=0.5.*{model}"):
        prunable_circuits(layers, 4, settings, "angle", FAMILY)


def shifted(qubits: int, settings: Settings) -> cirq.Circuit:
    """Return a circuit whose gates are not the identity at 0."""
    import sympy

    a, b = cirq.LineQubit.range(2)
    return cirq.Circuit(cirq.rx(sympy.Symbol("x") + 1)(a), cirq.CZ(a, b))
