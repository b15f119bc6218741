"""Layers of pulses: data in their drives, entanglers, and MODEL=pulse and hybrid-pulse."""

import cirq
import numpy as np
import pytest

import qfleet
from common.data import prepare
from common.errors import SettingsError
from common.models import build_model, describe_model, rebuild
from common.settings import Settings
from qfleet.circuits import ModelCircuit, pulse_layers
from qfleet.circuits.circuit_json import from_json
from qfleet.circuits.pulse_layers import coupler_pulse
from qfleet.errors import CircuitError
from qfleet.pulses import PulseGate
from qfleet.tensorflow.runtime import tf

INPUTS = ("x_00", "x_01", "x_02")
ENTANGLERS = pytest.mark.parametrize(
    "entangler", [pytest.param("cz", marks=pytest.mark.exhaustive), "pulse"]
)
ROWS = np.array([[0.3, -1.2, 0.8], [-0.9, 0.4, 0.0], [1.5, 1.1, -0.7]])


def compiled(circuit: ModelCircuit) -> qfleet.CompiledCircuit:
    return qfleet.compile(circuit.circuit, circuit.inputs, circuit.parameters, circuit.observables)


def near_start(circuit: ModelCircuit) -> np.ndarray:
    return np.array(circuit.initial) + np.random.default_rng(0).normal(
        0, 0.1, len(circuit.parameters)
    )


@ENTANGLERS
def test_values_are_those_of_pulses_with_numbers(entangler: str) -> None:
    circuit = pulse_layers(2, 1, inputs=INPUTS, encoder="reupload", entangler=entangler)
    at = near_start(circuit)
    found = compiled(circuit).expectation(ROWS, at)
    simulator = cirq.Simulator(dtype=np.complex128)
    for row, values in zip(ROWS[:1], found, strict=False):
        numbers = dict(zip((*INPUTS, *circuit.parameters), (*row, *at), strict=True))
        resolved = cirq.resolve_parameters(circuit.circuit, numbers)
        wanted = simulator.simulate_expectation_values(resolved, list(circuit.observables))
        np.testing.assert_allclose(values, np.real(wanted), atol=1e-6)


@ENTANGLERS
def test_gradients_agree_with_differences(entangler: str) -> None:
    circuit = pulse_layers(2, 1, inputs=INPUTS, encoder="reupload", entangler=entangler)
    program, at = compiled(circuit), near_start(circuit)
    generator = np.random.default_rng(1)
    upstream, by_rows = generator.normal(size=(3, 2)), generator.normal(size=(3, 3))
    direction = generator.normal(size=len(at))
    _, gradients = program.value_and_gradient(ROWS, at, upstream)

    def loss(step: float) -> float:
        return (upstream * program.expectation(ROWS + step * by_rows, at + step * direction)).sum()

    h = 2e-3
    wanted = (8 * (loss(h) - loss(-h)) - loss(2 * h) + loss(-2 * h)) / (12 * h)
    found = (gradients.inputs * by_rows).sum() + (gradients.parameters * direction).sum()
    assert found == pytest.approx(wanted, abs=1e-6)


def test_training_begins_with_turns_by_the_data() -> None:
    circuit = pulse_layers(3, 1, inputs=INPUTS, encoder="angle")
    found = compiled(circuit).expectation(ROWS, circuit.initial)
    np.testing.assert_allclose(found, np.cos(ROWS), atol=0.1)


def test_data_are_where_the_encoder_has_them() -> None:
    def driven(encoder: str) -> list[bool]:
        circuit = pulse_layers(3, 2, inputs=INPUTS, encoder=encoder).circuit
        pulses = [one for one in circuit.all_operations() if isinstance(one.gate, PulseGate)]
        return [bool(cirq.parameter_names(one) & {*INPUTS}) for one in pulses]

    assert driven("angle") == [True] * 3 + [False] * 6
    assert driven("reupload") == [True] * 6 + [False] * 3
    with pytest.raises(CircuitError, match="3 inputs do not fit on 2 qubits"):
        pulse_layers(2, 1, inputs=INPUTS, encoder="angle")


def test_couplers_leak_little_whatever_their_numbers() -> None:
    gates = [coupler_pulse(row) for row in np.random.default_rng(0).choice([-1.57, 1.57], (8, 3))]
    assert max(one.leakage for one in gates) < 0.006


EXHAUSTIVE = [
    ("MODEL=hybrid-pulse", "TRAIN_EXAMPLES=8"),
    ("TASK=state", "DATA=w", "MODEL=pulse"),
    ("TASK=energy", "DATA=tfim:2:0.8,1.2", "MODEL=pulse", "ANGLES=shared"),
]
TASKS = [
    ("MODEL=pulse", "TRAIN_EXAMPLES=8"),
    ("TASK=state", "DATA=w", "MODEL=hybrid-pulse"),
    *(pytest.param(one, marks=pytest.mark.exhaustive) for one in EXHAUSTIVE),
]


@pytest.mark.parametrize("task", TASKS, ids=" ".join)
def test_model_has_gradients_and_is_recorded(tmp_path, task: tuple[str, ...]) -> None:
    settings = Settings.from_args([*task, "QUBITS=2", "LAYERS=1"])
    data = prepare(settings, tmp_path)
    model = build_model(data.features, settings, data.placement, data.target)
    with tf.GradientTape() as tape:
        outputs = model(data.sample("train", 4).angles)
        loss = tf.reduce_sum(outputs)
    (angles,) = [one for one in model.trainable_weights if "circuit" in one.name]
    assert np.abs(tape.gradient(loss, angles)).max() > 1e-3
    described = describe_model(model, data.features, settings, data.manifest.encoding)
    copy = rebuild(described)
    copy.set_weights(model.get_weights())
    np.testing.assert_array_equal(copy(data.sample("train", 4).angles), outputs)
    (recorded,) = described["circuits"]
    gates = [one.gate for one in from_json(recorded["circuit"]).all_operations()]
    is_pulse = [isinstance(one, PulseGate) for one in gates]
    assert sum(is_pulse) == 4 + ("MODEL=pulse" in task)
    assert all(is_pulse) == ("MODEL=pulse" in task)


@pytest.mark.parametrize(
    "argument", ["SIMULATOR=tensorflow", "PRUNE=0.5", "STATE_SHARDS=2", "ENCODER=amplitude"]
)
def test_models_of_pulses_refuse_other_settings(argument: str) -> None:
    with pytest.raises(SettingsError, match=argument.partition("=")[0]):
        Settings.from_args(["MODEL=pulse", argument])
