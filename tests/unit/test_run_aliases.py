"""Aliases of runs: promoted, resolved by inference, and protected from deletion."""

import json

import pytest

from cli.runs import main
from common import runs
from common.environments import code_version
from common.errors import RunError, SettingsError
from common.lease import Lease
from common.runs import Run
from common.settings import Settings
from inference.model_source import choose_model
from tests.support.finished_run import finish


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    """Two finished runs."""
    root = tmp_path_factory.mktemp("runs")
    finish(root, "one")
    finish(root, "two", "SEED=1")
    return root


def call(monkeypatch: pytest.MonkeyPatch, root, *args: str) -> None:
    monkeypatch.setattr("sys.argv", ["runs", f"STORAGE={root}", *args])
    main()


def test_promoted_run_is_used_by_inference(shared, monkeypatch, capsys) -> None:
    for name in ("one", "two"):
        call(monkeypatch, shared, f"PROMOTE={name}", "AS=production")
        source = choose_model(Settings.from_values(storage=str(shared), run="production"))
        assert source.name == name
    record = json.loads((shared / "production" / "alias.json").read_text())
    assert record["data"] == Run.at(shared, "two").record()["data"]
    capsys.readouterr()
    call(monkeypatch, shared)
    assert "production = two" in capsys.readouterr().out
    assert runs.names(shared) == ["one", "two"]


def test_promoted_run_is_not_deleted(shared, monkeypatch) -> None:
    call(monkeypatch, shared, "PROMOTE=one", "AS=kept")
    with pytest.raises(RunError, match="kept"):
        call(monkeypatch, shared, "DELETE=one", "YES=1")
    call(monkeypatch, shared, "DELETE=kept", "YES=1")
    assert Run.at(shared, "one").finished()
    assert "kept" not in runs.aliases(shared)


def test_alias_is_kept_if_a_run_to_delete_is_in_use(shared, monkeypatch) -> None:
    call(monkeypatch, shared, "PROMOTE=one", "AS=used")
    training = Lease(Run.at(shared, "two").path, "a training").acquire()
    with pytest.raises(RunError, match="two"):
        call(monkeypatch, shared, "DELETE=used,one,two", "YES=1")
    training.close()
    assert runs.aliases(shared)["used"].name == "one"
    assert runs.names(shared) == ["one", "two"]
    call(monkeypatch, shared, "DELETE=used", "YES=1")


@pytest.mark.parametrize(
    "args",
    [
        ["PROMOTE=one"],
        ["AS=production"],
        ["PROMOTE=one", "AS=two"],
        ["PROMOTE=missing", "AS=production"],
        ["PROMOTE=one", "AS=p", "DELETE=one"],
    ],
)
def test_promotion_with_a_mistake_is_refused(shared, monkeypatch, args) -> None:
    with pytest.raises((RunError, SettingsError)):
        call(monkeypatch, shared, *args)
    assert not (shared / "p").exists()


def test_wrong_alias_is_named_as_it_was_written(shared, monkeypatch) -> None:
    with pytest.raises(SettingsError, match=r"^AS=a/b is not allowed: AS is"):
        call(monkeypatch, shared, "PROMOTE=one", "AS=a/b")


def test_training_under_an_alias_is_refused(shared) -> None:
    runs.promote(Run.at(shared, "one"), "taken")
    settings = Settings.from_values(storage=str(shared), run="taken")
    with pytest.raises(RunError, match=r"alias\.json"):
        runs.claim_for_training(
            shared, "taken", settings.identity(), settings.fingerprint(), job_id="job"
        )


def test_damaged_alias_is_refused_in_one_sentence(shared) -> None:
    (shared / "broken").mkdir()
    (shared / "broken" / "alias.json").write_text('{"run": "../../etc"}')
    with pytest.raises(RunError, match="PROMOTE"):
        runs.find(shared, "broken")
    assert "broken" not in runs.aliases(shared)
    runs.delete(shared, ["broken"])
    assert not (shared / "broken").exists()


def test_code_version_starts_with_the_release() -> None:
    assert code_version()[0].isdigit()
