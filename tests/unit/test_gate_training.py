"""TASK=gate: gates and files, settings, starts as files, the Keras model, and its report."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cirq
import numpy as np
import pytest

from common import models, start_check
from common.data import prepare
from common.data.problems import check_problem
from common.data.target import Target
from common.errors import DataError, SettingsError
from common.models.pulse_model import pulse_values, set_pulse
from common.pulse_objectives import UNITARIES, best_qubits, gate_of, pulse_objective
from common.settings import Settings
from common.settings.gate_file import GateFile, local_gate, named_gate, parse_gate
from common.settings.task_defaults import task_defaults
from inference import pulse_plots
from inference.pulse_figures import export, measure_pulse
from qfleet.devices.lines import inline_calibration
from qfleet.errors import NoiseError
from training.pulse.starts import Starts

ROOT = Path(__file__).resolve().parents[2]
DEVICE = """
name: line
gate: cz
pulse: sx
qubits:
  0: {t1: 120, t2: 90, frequency: 5.0301234, anharmonicity: -0.336}
  1: {t1: 110, t2: 95, frequency: 5.128, anharmonicity: -0.336}
  2: {t1: 130, t2: 90, frequency: 5.21}
pairs:
  0-1: {error: 0.01, exchange: 0.0018}
  1-2: {error: 0.001}
"""
SMALL = "gate: x\nqubits: 0\nduration: 16\ndt: 1\nnumbers: 4\ndrive_strength: 0.99, 1.01\n"


@pytest.fixture
def gate_settings(tmp_path: Path) -> Callable[..., Settings]:
    """Return settings of TASK=gate with a device, and DATA with the content of a file."""

    def build(*arguments: str, file: str = SMALL, device: str = DEVICE) -> Settings:
        (tmp_path / "device.yaml").write_text(device)
        (tmp_path / "gate.yaml").write_text(file)
        given = dict(one.split("=", 1) for one in arguments)
        data = given.pop("DATA", str(tmp_path / "gate.yaml"))
        noise = given.pop("NOISE", str(tmp_path / "device.yaml"))
        rest = [f"{name}={value}" for name, value in given.items()]
        return Settings.from_args(["TASK=gate", f"DATA={data}", f"NOISE={noise}", *rest], "train")

    return build


def target_of(settings: Settings) -> Target:
    return check_problem(settings.data, settings.model.qubits)


@pytest.mark.parametrize(("name", "gate"), [("x", cirq.X), ("sx", cirq.X**0.5), ("cz", cirq.CZ),
                                            ("iswap", cirq.ISWAP)])  # fmt: skip
def test_named_gate_has_the_matrix_of_cirq(name: str, gate: cirq.Gate) -> None:
    np.testing.assert_allclose(UNITARIES[name], cirq.unitary(gate), atol=1e-15)
    assert named_gate(name).width == cirq.num_qubits(gate)


def test_cross_resonance_is_a_turn_by_z_and_x() -> None:
    zx = np.kron(np.diag([1, -1]), [[0, 1], [1, 0]])
    np.testing.assert_allclose(UNITARIES["cr"] @ UNITARIES["cr"], -1j * zx, atol=1e-15)


def test_gate_file_survives_json() -> None:
    rows = "unitary:\n  0: 0, 1j\n  1: -1j, 0\nbandwidth: 0.3\nfrequency: -0.001, 0\n"
    for found in (named_gate("cz:3-4"), parse_gate(rows.encode(), "DATA=y.yaml")):
        text = json.dumps(found.to_json())
        assert GateFile.from_values(json.loads(text), "the gate") == found
    assert (found.unitary[0][1], found.width, found.duration) == (1j, 1, 16)
    assert found.frequency == (-0.001, 0.0)


def test_file_of_the_documentation_is_a_gate() -> None:
    page = (ROOT / "docs" / "pulses.md").read_text()
    (content,) = re.findall(r"```yaml\n(gate: .*?)```", page, re.S)
    found = parse_gate(content.encode(), "DATA=gate.yaml")
    assert (found.qubits, found.bandwidth, len(found.drive_strength)) == (("3",), 0.3, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("gate: y", ["gate=y", "x, sx, cz"]),
        ("gate: cz\nqubit: 1", ["'qubit'", "qubits"]),
        ("gate: x\nunitary: {0: 1}", ["either gate or unitary"]),
        ("duration: 16", ["either gate"]),
        ("unitary: {0: 0 1, 1: 1 0}", ["unitary", "rows"]),
        ("unitary: {0: 1}", ["unitary of 1 rows"]),
        ("gate: cz\nqubits: 0-0", ["give 2"]),
        ("gate: x\ncontrols: coupler", ["coupler", "2 qubits"]),
        ("gate: x\ncontrols: drives", ["controls=drives", "mean drive"]),
        ("gate: x\nduration: 1e-8", ["duration=1e-8", " ns"]),
        ("gate: x\nduration: 1e5\ndt: 0.1", ["duration=100000 ns", "10,000 samples"]),
        ("gate: x\nfrequency: 5e9", ["frequency=5e9", " GHz"]),
        ("gate: x\nnumbers: 2.5", ["numbers=2.5", "whole number"]),
        ("gate: x\nlevels: 9", ["levels=9"]),
        ("gate: x\ndrive: -1", ["drive=-1", "rad/ns"]),
        ("- x", ["YAML file of a gate"]),
        ("gate: cz\ndrive_strength: " + "1," * 300 + "1", ["256"]),
    ],
)
def test_wrong_gate_file_is_refused_in_one_sentence(content: str, words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        parse_gate(content.encode(), "DATA=gate.yaml")
    message = str(caught.value)
    assert all(one in message for one in ["DATA=gate.yaml", *words])
    assert "\n" not in message


def test_unknown_gate_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mean iswap"):
        named_gate("iswp")
    assert local_gate("iswp") is local_gate(str(tmp_path / "none.yaml")) is None


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("gate: x\nqubits: 0\nduration: 16.3", ["16.3 ns", "multiple of dt"]),
        ("gate: x\nqubits: 0\nnumbers: 64", ["terms"]),
        ("gate: x\nqubits: 2", ["anharmonicity of qubit 2"]),
        ("gate: cz\nqubits: 1-2", ["anharmonicity of qubit 2", "exchange of pair 1-2"]),
        ("unitary: {0: '1, 1', 1: '0, 1'}\nqubits: 0", ["unitary matrix"]),
    ],
)
def test_impossible_pulse_is_refused_before_the_start(gate_settings, file, words) -> None:
    settings = gate_settings(file=file)
    with pytest.raises(SettingsError) as caught:
        start_check.check(settings)
    assert all(one in str(caught.value) for one in words)


@pytest.mark.parametrize(
    "argument",
    ["MODEL=hybrid", "SHOTS=100", "METHOD=tensor_network", "STATE_SHARDS=2", "PRUNE=0.1",
     "LOSS=huber", "LAYERS=2", "SIMULATOR=tensorflow", "NOISE=depolarizing:0.01", "CLASSES=a,b",
     "ID_COLUMN=id", "DEVICE=cuda"],
)  # fmt: skip
def test_gate_refuses_settings_that_it_does_not_have(gate_settings, argument: str) -> None:
    with pytest.raises(SettingsError, match=argument.partition("=")[0]):
        gate_settings(argument)


def test_gate_needs_a_device_and_its_qubits(gate_settings) -> None:
    with pytest.raises(SettingsError, match="TASK=gate needs a device: set NOISE"):
        start_check.check(gate_settings("NOISE=none"))
    with pytest.raises(SettingsError, match="QUBITS=1"):
        Settings.from_args(["QUBITS=1"])
    with pytest.raises(SettingsError, match="set QUBITS=1"):
        target_of(gate_settings("QUBITS=2"))


def test_defaults_are_a_pulse_and_the_qubits_of_the_gate(gate_settings) -> None:
    assert task_defaults({"task": "gate", "data": "cz"}) == {"model": "pulse", "qubits": 2}
    settings = gate_settings("DATA=cz")
    assert Settings.from_args(settings.to_args()) == settings
    assert Settings.from_record(settings.identity()).fingerprint() == settings.fingerprint()


def test_device_keeps_what_pulses_need(gate_settings) -> None:
    kept = inline_calibration(gate_settings("DATA=cz").model.noise)
    assert kept.qubits["0"].frequency == 5.0301234
    assert kept.pairs["0", "1"].exchange == 0.0018
    assert best_qubits(kept, 2) == ("0", "1")  # the other pair has no coupling
    with pytest.raises(NoiseError, match="no pairs"):
        best_qubits(replace(kept, pairs={}), 2)
    named = inline_calibration(gate_settings("DATA=cz:2-1").model.noise)
    assert [*named.qubits] == ["1", "2"]
    with pytest.raises(SettingsError, match="'7'"):
        gate_settings("DATA=x:7")
    qubits = "".join(f"  {at}: {{frequency: 5.{at:03}123, t1: 51.23, t2: 61.23}}\n"
                     for at in range(200))  # fmt: skip
    pairs = "".join(f"  {at}-{at + 1}: {{error: 0.0123}}\n" for at in range(199))
    large = f"name: large\ngate: cz\npulse: sx\nqubits:\n{qubits}pairs:\n{pairs}"
    assert len(gate_settings("DATA=cz", device=large).model.noise) < 4100


def small_starts(settings: Settings, folder: Path) -> Starts:
    objective = pulse_objective(settings.model, target_of(settings), np.zeros((1, 2)))
    return Starts(folder, objective, count=2, iterations=6, seed=0)


def test_killed_start_ends_with_the_same_bits(gate_settings, tmp_path, monkeypatch) -> None:
    settings = gate_settings()
    calm, killed = (small_starts(settings, tmp_path / one) for one in ("calm", "killed"))
    for number in range(2):
        calm.run(number)
    left = iter(range(4))

    def stop() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed.run(0, stop)
    before = killed.path(0).read_bytes()
    assert before != calm.path(0).read_bytes()
    computed = []
    killed.run(0, lambda: computed.append(1))
    killed.path(1).write_bytes(b"damaged")
    number, found = killed.best()
    assert [killed.path(at).read_bytes() for at in range(2)] == [
        calm.path(at).read_bytes() for at in range(2)
    ]
    wanted = calm.best()
    assert number == wanted[0]
    np.testing.assert_array_equal(found.values, wanted[1].values)
    monkeypatch.setattr(Starts, "first_values", lambda self, number: found.values)
    calm.run(0)  # another version: a new file
    assert calm.best()[1].fidelity >= found.fidelity


def test_model_and_report_have_the_fidelity_of_the_pulse(gate_settings, tmp_path) -> None:
    settings = gate_settings()
    data = prepare(settings, tmp_path)
    target, rows = data.target, data.split("train").angles
    assert gate_of(target).drive_strength == (0.99, 1.01)
    values = np.random.default_rng(0).normal(size=9) * 0.1
    wanted = pulse_objective(settings.model, target, rows).result(values)
    model = models.build_model(data.features, settings, data.placement, target)
    set_pulse(model, values)
    np.testing.assert_allclose(model(rows)[:, 0], wanted.fidelity, atol=1e-7)
    described = models.describe_model(model, data.features, settings, data.manifest.encoding)
    model.save_weights(file := tmp_path / "weights.h5")
    rebuilt = models.rebuild(json.loads(json.dumps(described)), file)
    np.testing.assert_array_equal(pulse_values(rebuilt), values)
    figures = measure_pulse(settings.model, target, values)
    assert figures.populations.sum(axis=2) == pytest.approx(1)
    assert figures.decayed is not None
    assert 0 < abs(figures.decayed - figures.nominal.fidelity[0]) < 1e-3
    assert figures.by_drive.trained == pytest.approx((-0.01, 0.01))
    middle = np.interp(0, figures.by_frequency.deviations, figures.by_frequency.infidelities)
    assert middle == pytest.approx(1 - figures.nominal.fidelity[0])
    for plot in (pulse_plots.envelopes, pulse_plots.populations, pulse_plots.sensitivity):
        assert plot(figures).startswith("<svg")
    export(figures, tmp_path)
    gate = cirq.read_json(json_text=(tmp_path / "pulse.json").read_text())
    np.testing.assert_array_equal(gate.amplitudes, figures.amplitudes)
    table = np.loadtxt(io.StringIO((tmp_path / "pulse.csv").read_text()), delimiter=",", skiprows=1)
    np.testing.assert_array_equal(table[:, 1:], figures.amplitudes)
