"""Contraction paths that a run records."""

import json
from types import SimpleNamespace

import pytest

from common import start_check
from common.errors import SettingsError, SimulationError
from common.model_circuits import compiled_circuits
from common.settings import Settings
from qfleet.compiler.network import contraction_path
from training.contraction_paths import FILE, may_contract, record_paths, use_paths

DATA = SimpleNamespace(features=40, placement="cluster")


def settings_of(*arguments):
    return Settings.from_args(list(arguments))


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    contraction_path.give_paths({})
    compiled_circuits.cache_clear()
    yield
    contraction_path.give_paths({})
    compiled_circuits.cache_clear()


def recorded(folder):
    return json.loads((folder / FILE).read_text())


def test_paths_are_recorded_once_and_used(tmp_path, monkeypatch):
    settings = settings_of("QUBITS=40", "LAYERS=1")
    record_paths(tmp_path, settings, DATA)
    paths = recorded(tmp_path)
    assert paths
    assert all(len(key) == 64 for key in paths)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    monkeypatch.setattr(contraction_path, "_search", lambda *_: pytest.fail("searched"))
    contraction_path.give_paths({})
    compiled_circuits.cache_clear()
    assert use_paths(tmp_path, settings) == paths
    compiled_circuits(settings.model, 40, "cluster")
    record_paths(tmp_path, settings, DATA)
    assert recorded(tmp_path) == paths


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": [[0, -1]]}', '{"a": 3}', "[" * 100_000])
def test_damaged_paths_are_replaced(tmp_path, caplog, content):
    (tmp_path / FILE).write_text(content)
    record_paths(tmp_path, settings_of("QUBITS=40", "LAYERS=1"), DATA)
    assert f"{FILE} is damaged" in caplog.text
    assert all(len(key) == 64 for key in recorded(tmp_path))


def test_a_path_of_another_network_is_replaced(tmp_path):
    settings = settings_of("QUBITS=40", "LAYERS=1")
    record_paths(tmp_path, settings, DATA)
    paths = recorded(tmp_path)
    (tmp_path / FILE).write_text(json.dumps({key: [[0, 1]] for key in paths}))
    compiled_circuits.cache_clear()
    record_paths(tmp_path, settings, DATA)
    assert recorded(tmp_path) == paths


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("QUBITS=8",), False),
        (("QUBITS=8", "METHOD=tensor_network"), True),
        (("QUBITS=20",), True),
        (("QUBITS=20", "METHOD=state_vector"), False),
        (("QUBITS=20", "SIMULATOR=tensorflow"), False),
        (("QUBITS=20", "STATE_SHARDS=2", "WORKERS=2"), False),
        (("QUBITS=20", "MODEL=mine:build"), False),
    ],
)
def test_only_circuits_that_may_be_contracted_have_paths(tmp_path, arguments, expected):
    settings = settings_of(*arguments)
    assert may_contract(settings) == expected
    if not expected:
        record_paths(tmp_path, settings, DATA)
        assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("QUBITS=64", "MODEL=qcnn"), SimulationError),
        (("QUBITS=40", "LAYERS=1", "PRUNE=0.5"), SettingsError),
    ],
)
def test_circuits_that_cannot_be_trained_are_refused_first(arguments, error):
    with pytest.raises(error, match=f"{arguments[0]}|PRUNE"):
        start_check.check(settings_of(*arguments), is_elsewhere=True)
