"""The fingerprint that workers must share, and the sentence that names the difference."""

import pytest

from common.settings import Settings
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group import fingerprint
from training.group.fingerprint import describe_differences, group_fingerprint

CLUSTER = ClusterSpec(loopback_addresses([1, 2]), 0)


def of_settings(**values):
    return group_fingerprint(Settings.from_values(**values), CLUSTER)


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rate": 5.0},
        {"batch": 32},
        {"initializations": 3},
        {"epochs": 171},
        {"steps_per_call": 3},
        {"profile_steps": "1:2"},
        {"seed": 1},
        {"data": "d" * 80 + "1.csv"},
    ],
)
def test_setting_that_changes_training_is_named(values):
    (name,) = values
    text = describe_differences({0: of_settings(), 1: of_settings(**values)})
    assert text.startswith(f"the workers differ: {name.upper()} is ")
    assert str(values[name])[:40] in text


@pytest.mark.parametrize(
    "values", [{"threads": 3}, {"verbose": True}, {"storage": "b"}, {"batch": 64}, {"deadline": 9}]
)
def test_setting_of_one_process_may_differ(values):
    assert describe_differences({0: of_settings(), 1: of_settings(**values)}) == ""


def test_long_values_that_differ_at_their_end_differ():
    one, other = (of_settings(data="d" * 90 + f"{number}.csv") for number in (1, 2))
    assert "DATA is" in describe_differences({0: one, 1: other})


def test_number_of_workers_is_compared():
    other = group_fingerprint(Settings.from_values(), ClusterSpec(loopback_addresses([1, 2, 3]), 1))
    text = describe_differences({0: of_settings(), 1: other})
    assert "WORKERS is 2 on worker 0, 3 on worker 1" in text


def test_other_version_library_or_code_is_named(monkeypatch, tmp_path):
    before = of_settings()
    monkeypatch.setattr(fingerprint, "_versions", lambda: {"qfleet": "0.4.9"})
    assert "the version of qfleet is" in describe_differences({0: before, 1: of_settings()})
    monkeypatch.undo()
    library = tmp_path / "library.so"
    library.write_bytes(b"another build")
    monkeypatch.setattr(fingerprint.libraries, "core_path", lambda: library)
    assert "the native library is" in describe_differences({0: before, 1: of_settings()})
    monkeypatch.undo()
    monkeypatch.setattr(fingerprint, "_sources", lambda: [library])
    assert "the Python code is" in describe_differences({0: before, 1: of_settings()})


def test_source_of_a_user_model_is_compared(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "model.py"
    file.write_text("a = 1\n")
    before = of_settings(model="mine.model:build")
    file.write_text("raise SystemExit(0)  # it is not imported\n")
    after = of_settings(model="mine.model:build")
    assert "the source of MODEL is" in describe_differences({0: before, 1: after})


def test_many_differences_are_counted():
    values = {"seed": 1, "qubits": 3, "filters": 4, "partitions": 5, "epochs": 300, "batch": 1}
    text = describe_differences({0: of_settings(), 1: of_settings(**values, workers=1)})
    assert "and 2 more" in text
    assert "\n" not in text
