"""NOISE that names a file: what settings record, and mistakes in one sentence."""

from itertools import combinations
from pathlib import Path

import pytest

from common.calibrations.__main__ import write
from common.errors import SettingsError
from common.model_circuits import model_circuits
from common.runs.claim import differences
from common.runs.records import settings_of
from common.settings import Settings
from common.settings.noise_file import name_of
from qfleet.devices import Calibration, PairCalibration, QubitCalibration
from qfleet.devices.lines import best_part, inline_calibration
from tests.support.devices import made_up_device, write_device


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with calibrations/made_up.yaml."""
    monkeypatch.chdir(tmp_path)
    write_device(tmp_path / "calibrations")
    return tmp_path


def test_name_and_path_give_equal_settings(folder: Path) -> None:
    named = Settings.from_args(["NOISE=made_up", "QUBITS=4"])
    path = Settings.from_args([f"NOISE={folder}/calibrations/made_up.yaml", "QUBITS=4"])
    assert named.fingerprint() == path.fingerprint()
    assert inline_calibration(named.model.noise) == best_part(made_up_device())
    assert name_of(named.model.noise) == "made_up"
    assert name_of("none") == "none"


def test_settings_need_no_file_later(folder: Path) -> None:
    settings = Settings.from_args(["NOISE=made_up", "QUBITS=4"])
    (folder / "calibrations" / "made_up.yaml").unlink()
    assert Settings.from_args(settings.to_args()) == settings
    assert settings_of(settings.identity()).model.noise == settings.model.noise
    assert name_of(settings.model.noise) == settings.model.noise


def test_other_content_is_another_run(folder: Path) -> None:
    before = Settings.from_args(["NOISE=made_up"]).identity()
    write_device(folder / "calibrations", made_up_device(t1=50.0))
    after = Settings.from_args(["NOISE=made_up"]).identity()
    ((name, was, now),) = differences(before, after)
    assert name == "noise"
    assert was != now
    assert all(one.startswith("made_up (sha256 ") for one in (was, now))


def test_coherence_above_relaxation_names_the_qubit(folder: Path, capsys) -> None:
    write_device(folder / "calibrations", made_up_device(t1=50.0, t2=100.0))
    Settings.from_args(["NOISE=made_up", "QUBITS=4"])
    assert "t2" not in capsys.readouterr().err
    write_device(folder / "calibrations", made_up_device(t1=50.0, t2=101.0))
    settings = Settings.from_args(["NOISE=made_up", "QUBITS=4"])
    first = next(iter(inline_calibration(settings.model.noise).qubits))
    assert f"qubit {first}," in capsys.readouterr().err
    Settings.from_args(["NOISE=made_up", "QUBITS=4"])  # a program reads its settings again
    Settings.from_args(settings.to_args())
    assert capsys.readouterr().err == ""


def test_model_is_mapped_to_the_device() -> None:
    settings = Settings.from_args(["NOISE=made_up", "QUBITS=4", "MODEL=qcnn"])
    (circuit,) = model_circuits(settings.model, 4, "angle")
    assert circuit.circuit.all_qubits() <= {*circuit.qubits}
    assert [qubit.x for qubit in circuit.qubits] == [0, 1, 2, 3]


def test_rates_are_read_from_a_file(folder: Path) -> None:
    (folder / "rates.yaml").write_text("depolarizing: 0.01\ntwo_qubit_depolarizing: 2e-2\n")
    settings = Settings.from_args(["NOISE=rates.yaml"])
    assert settings.model.noise == "depolarizing:0.01,two-qubit-depolarizing:0.02"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- a", "name: value"),
        ("depolarizing: [1, 2]", "list in line 1"),
        ("depolarizing: much", "not a number"),
        ("depolarizing: 2", "out of range"),
        ("decay: 0.1", "'decay' is unknown"),
        ("a: &x 1\nb: *x", "alias"),
        ("depolarizing: 0.1\ndepolarizing: 0.1", "twice"),
        ("{", "not a YAML file"),
        ("name: x\ngate: cz\npulse: sx\nqubits:\n  0: {t1: -1}", "qubit 0: t1"),
        ("name: x\ngate: syc\npulse: sx\nqubits:\n  0: {}", "use cz or sqrt_iswap"),
        ("name: x\ngate: cz\npulse: sx\nqubits:\n  0: {}\npairs:\n  0-7: {}", "0-7"),
    ],
)
def test_mistakes_in_files_are_one_sentence(folder: Path, content: str, words: str) -> None:
    (folder / "mine.yaml").write_text(content)
    with pytest.raises(SettingsError) as caught:
        Settings.from_args(["NOISE=mine.yaml"])
    assert "NOISE=mine.yaml" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["NOISE=other_device"], ["NOISE=other_device", "make calibration"]),
        (["NOISE=missing.yaml"], ["missing.yaml is not a file"]),
        (["NOISE=made_up", "QUBITS=7"], ["QUBITS=7", "6", "made_up"]),
        (["NOISE=made_up", "SIMULATOR=tensorflow"], ["SIMULATOR=tensorflow"]),
        (["NOISE=made_up", "MODEL=a:b"], ["MODEL=a:b"]),
        (["NOISE=device:x:cz:sx;0=,,2"], ["NOISE=x (sha256", "error 2 is out of range"]),
        (["NOISE=device:x"], ["NOISE=x (sha256"]),
    ],
)
def test_devices_that_do_not_fit_are_refused(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_args(arguments)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("name", ["a" * 3000, "a" * 5000])
def test_long_inline_calibration_is_not_shown(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_args([f"NOISE=device:{name}"])
    assert len(str(caught.value)) < 800


def test_device_with_too_many_pairs_is_refused(folder: Path) -> None:
    names = [str(number) for number in range(40)]
    pairs = {pair: PairCalibration(0.012345, 123.4) for pair in combinations(names, 2)}
    qubits = dict.fromkeys(names, QubitCalibration())
    write(folder / "trap.yaml", Calibration("trap", "cz", "sx", qubits, pairs), "today", "here")
    with pytest.raises(SettingsError, match=r"NOISE=trap.yaml has too many pairs"):
        Settings.from_args(["NOISE=trap.yaml"])


def test_recorded_name_of_a_file_is_refused() -> None:
    # A record of another user opens no file.
    identity = Settings.from_args(["NOISE=made_up"]).identity()
    with pytest.raises(ValueError, match="noise"):
        settings_of({**identity, "noise": "made_up"})
