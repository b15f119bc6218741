"""Claiming, attempts, listing, comparing, deleting and loading of runs."""

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cirq
import h5py
import numpy as np
import pytest
import sympy
from rich.console import Console

from cli import runs as command
from common import checkpoints, lease, runs, storage
from common.errors import RunError, UserError, WeightsError
from common.formats import MODEL_FORMAT
from common.storage import StoragePath
from tests.support.finished_run import model_folder
from tests.support.patience import seconds

IDENTITY = {"model": "hybrid", "qubits": 8, "data": "excitations", "seed": 0, "classes": ""}
VERSIONS = {"tensorflow": "2.18.1"}
METRICS = {"test": {"mse": 0.1234567, "accuracy": 0.98}, "train": {"mse": 0.11, "accuracy": 0.99}}


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorten the intervals of leases."""
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", seconds(0.25))
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", seconds(0.75))
    return iter([None])


def open_run(
    root: StoragePath,
    name: str = "hybrid",
    *,
    fingerprint: str | None = None,
    data: str = "d" * 64,
    job_id: str = "job-a",
    **changes: Any,
) -> runs.ClaimedRun | runs.FinishedRun:
    identity = {**IDENTITY, **changes}
    fingerprint = fingerprint or str(sorted(identity.items()))
    claimed = runs.claim_for_training(root, name, identity, fingerprint, job_id)
    if isinstance(claimed, runs.ClaimedRun):
        try:
            claimed.record(data, VERSIONS, {"epochs": 50})
        except BaseException:
            claimed.close()
            raise
    return claimed


def starts(root: StoragePath, rank: int = 0) -> runs.Attempts:
    return runs.Attempts(root / "hybrid", rank)


def held(*args: Any, **kwargs: Any) -> runs.ClaimedRun:
    opened = open_run(*args, **kwargs)
    assert isinstance(opened, runs.ClaimedRun)
    return opened


def described(angle: float = 0.25) -> dict[str, Any]:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x0"))(qubit), cirq.rz(sympy.Symbol("w0"))(qubit))
    part = {
        "name": "circuit_0",
        "circuit": cirq.to_json(circuit),
        "inputs": ["x0"],
        "parameters": ["w0"],
        "trained": {"w0": angle},
        "readouts": ["1.000*Z(q(0))"],
    }
    return {
        "format": MODEL_FORMAT,
        "settings": IDENTITY,
        "source": None,
        "features": 1,
        "encoding": {"placement": "angle"},
        "weights": [[1]],
        "circuits": [part],
    }


def finished(
    root: StoragePath, name: str, tmp: Path, mse: float = 0.1234567, **changes: Any
) -> runs.Run:
    """A run with all that training leaves."""
    with held(root, name, **changes) as opened:
        checkpoints.save(opened.run.path, 7, {"x": np.ones(3)}, {"epoch": 1}, 3)
        rows = [{"epoch": e, "loss": 1 / e} for e in (1, 2)]
        storage.write_atomic(
            opened.run.path / "metrics.jsonl", "".join(json.dumps(r) + "\n" for r in rows)
        )
        file = tmp / "weights.h5"
        with h5py.File(file, "w") as content:
            content["angle"] = np.full(1, len(name), np.float32)
        weights = opened.run.write_model(described(), file)
        metrics = {**METRICS, "test": {"mse": mse, "accuracy": 0.98}}
        opened.finish({"metrics": metrics, "epochs": 2, "seconds": 1.5, "weights": weights})
    return opened.run


def test_run_life_cycle_from_new_to_deleted(root: StoragePath, tmp_path: Path) -> None:
    """New, killed, resumed, finished; then there is nothing left to do."""
    first = held(root)
    assert first.run.record()["settings"] == IDENTITY
    assert first.run.record()["versions"] == VERSIONS
    assert starts(root).begin(5).attempts == 1
    checkpoints.save(first.run.path, 3, {"x": np.zeros(2)}, {}, 2)
    first.close()
    assert not storage.exists(first.run.path / "lease.json")

    again = held(root)
    assert starts(root).begin(5).attempts == 2
    assert runs.list_runs(root)[0].state == "training"
    again.close()
    assert not again.run.finished()
    assert runs.list_runs(root)[0].state == "unfinished"
    with pytest.raises(RunError, match=r"run hybrid is not finished.* of step 3"):
        runs.resolve(root, "hybrid")

    run = finished(root, "hybrid", tmp_path)
    assert run.finished()
    over = open_run(root)
    assert isinstance(over, runs.FinishedRun)
    assert str(over) == "run hybrid is already finished: there is nothing left to do"
    assert runs.resolve(root) == run
    assert run.metrics() == [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": 0.5}]
    names = {path.name for path in storage.children(run.path)}
    assert names == {
        "attempts", "checkpoints", "metrics.jsonl", "model", "result.json", "run.json",
    }  # fmt: skip
    with run.local_weights() as weights:
        assert h5py.File(weights)["angle"][0] == len("hybrid")
    runs.delete(root, ["hybrid"])
    assert storage.files(root) == []


def test_next_name_skips_finished_runs(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    assert runs.next_name(root, "hybrid") == "hybrid"
    held(root, "hybrid").close()
    assert runs.next_name(root, "hybrid") == "hybrid"
    finished(root, "hybrid", tmp_path)
    assert runs.next_name(root, "hybrid") == "hybrid-2"
    finished(root, "hybrid-2", tmp_path)
    held(root, "hybrid-3").close()
    assert runs.next_name(root, "hybrid") == "hybrid-3"


def test_next_name_of_a_long_name_is_shortened(tmp_path: Path) -> None:
    root, name = tmp_path / "runs", "a" * 50 + "-bc"
    finished(root, name, tmp_path)
    assert runs.next_name(root, name) == "a" * 50 + "-2"


def test_claim_with_other_settings_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    with held(root, qubits=8) as opened:
        checkpoints.save(opened.run.path, 3, {"x": np.zeros(2)}, {}, 2)
    before = storage.read_bytes(root / "hybrid" / "run.json")
    with pytest.raises(RunError) as caught:
        open_run(root, qubits=12, seed=3)
    assert "hybrid was created with QUBITS=8 (now 12), SEED=0 (now 3):" in str(caught.value)
    with pytest.raises(RunError, match=r"other data .DATA=excitations has changed"):
        open_run(root, data="e" * 64)
    with pytest.raises(RunError, match="settings of another version of qfleet"):
        open_run(root, fingerprint="another")
    assert storage.read_bytes(root / "hybrid" / "run.json") == before
    assert not (root / "hybrid" / "lease.json").exists()


def test_claim_with_other_package_version_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held(tmp_path).close()
    path = tmp_path / "hybrid" / "run.json"
    path.write_text(path.read_text().replace("2.18.1", "2.17.0"))
    with caplog.at_level(logging.WARNING, "qfleet"):
        held(tmp_path).close()
    assert caplog.messages == [
        "run hybrid was created with tensorflow 2.17.0, and is resumed with 2.18.1"
    ]


@pytest.mark.parametrize("name", ["datasets", "../x", "A", "a_b", "", "-a", "a" * 54, "a/b"])
def test_claim_invalid_run_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match=r"RUN=.*(is not a run name|choose another RUN)"):
        open_run(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_claim_foreign_folder_is_refused(tmp_path: Path) -> None:
    storage.write_atomic(tmp_path / "hybrid" / "thesis.tex", "years of work")
    with pytest.raises(RunError, match=r"is not a run \(it contains thesis.tex"):
        open_run(tmp_path)
    assert [p.name for p in (tmp_path / "hybrid").iterdir()] == ["thesis.tex"]


def test_claim_after_early_kill_creates_the_run(tmp_path: Path) -> None:
    storage.write_atomic(tmp_path / "hybrid" / "text" / "worker-0.attempt-1.log", "hello")
    storage.write_atomic(tmp_path / "hybrid" / "logs" / "events", b"")
    starts(tmp_path).begin(5)
    held(tmp_path).close()
    assert starts(tmp_path).begin(5).attempts == 2


def test_claim_removes_partial_files(tmp_path: Path) -> None:
    held(tmp_path).close()
    part = tmp_path / "hybrid" / "checkpoints" / ".step-00000001.npz.0a1b2c3d.part"
    storage.write_atomic(part, b"half")
    held(tmp_path).close()
    assert not part.exists()


def begun(root: Path, name: str, **changes: Any) -> None:
    """An unfinished run with a checkpoint."""
    with held(root, name, **changes) as opened:
        checkpoints.save(opened.run.path, 1, {"x": np.ones(1)}, {}, 1)


def test_find_suggests_similar_names(tmp_path: Path) -> None:
    held(tmp_path, "hybird-2").close()  # failed: it is never proposed
    with pytest.raises(RunError, match="has no runs that have trained; create one with"):
        runs.find(tmp_path, "hybrid")
    with pytest.raises(RunError, match=r"no finished run in .* with `make training`$"):
        runs.resolve(tmp_path)
    for name in ("hybrid", "digits"):
        begun(tmp_path, name)
    with pytest.raises(RunError, match=r"there is no run hybird in .*: did you mean hybrid\?"):
        runs.find(tmp_path, "hybird")
    with pytest.raises(RunError, match=r"there is no run zzz in .*: existing runs: digits, hybrid"):
        runs.find(tmp_path, "zzz")
    with pytest.raises(RunError, match=r"no finished run in .*; unfinished: digits, hybrid"):
        runs.resolve(tmp_path)


def test_latest_finished_returns_the_last_run(tmp_path: Path) -> None:
    for name, when in (("b", "2026-01-03"), ("a", "2026-01-04"), ("c", "2026-01-02")):
        run = finished(tmp_path, name, tmp_path)
        result = {**run.result(), "finished": f"{when}T00:00:00Z"}
        storage.write_json(run.path / "result.json", result)
    latest = runs.latest_finished(tmp_path)
    assert latest is not None
    assert latest.name == "a"


def test_compare_lists_differing_settings(tmp_path: Path) -> None:
    finished(tmp_path, "a", tmp_path, mse=0.2)
    finished(tmp_path, "b", tmp_path, mse=0.1, qubits=12)
    held(tmp_path, "c", seed=5).close()
    found = runs.compare(tmp_path, ["a", "b", "c"])
    assert found.settings == [("qubits", ["8", "12", "8"]), ("seed", ["0", "0", "5"])]
    assert ("test mse", [0.2, 0.1, None]) in found.metrics
    with pytest.raises(RunError, match="has fewer than two runs"):
        runs.compare(tmp_path, ["a", "a"])


def shown(act: Callable[[Console], None]) -> str:
    console = Console(file=io.StringIO(), width=200)
    act(console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_print_runs_lists_all_states(tmp_path: Path) -> None:
    assert "No runs in" in shown(lambda c: command.print_runs(c, tmp_path))
    finished(tmp_path, "a", tmp_path)
    begun(tmp_path, "b", qubits=12)
    held(tmp_path, "d").close()
    finished(tmp_path, "c", tmp_path)
    (tmp_path / "c" / "run.json").write_text("{")
    table = shown(lambda c: command.print_runs(c, tmp_path))
    line = {row.split()[0]: row for row in table.splitlines() if row.strip()}
    assert "0.1235" in line["a"]
    assert "finished" in line["a"]
    assert "unfinished" in line["b"]
    assert " 12 " in line["b"]
    assert "damaged" in line["c"]
    assert "failed" in line["d"]
    assert "run.json is damaged: it is not JSON" in table
    compared = shown(lambda c: command.compare(c, tmp_path, ["a", "b"]))
    assert "QUBITS" in compared


def test_compared_curves_share_a_scale_and_skip_other_losses(tmp_path: Path) -> None:
    rows = {"a": [("mse", 0.8), ("mse", 0.4)], "b": [("mse", 0.0)], "c": [("energy", -1.0)]}
    for name, losses in rows.items():
        finished(tmp_path, name, tmp_path)
        lines = [
            json.dumps({"epoch": epoch, loss: value, f"val_{loss}": value, "seconds": 1.0})
            for epoch, (loss, value) in enumerate(losses, 1)
        ]
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(lines))
    found = [runs.find(tmp_path, name) for name in rows]
    drawn = shown(lambda c: command.print_curves(c, found)).splitlines()
    assert drawn[:3] == ["mse by epoch, from 0 to 0.8", "  a █▅ 0.4", "  b ▁ 0"]
    assert drawn[3] == "val_mse by epoch, from 0 to 0.8"
    assert len(drawn) == 6  # the loss of c is another one
    assert not shown(lambda c: command.print_curves(c, []))


def test_page_has_differing_settings_results_and_curves(tmp_path: Path) -> None:
    finished(tmp_path, "a", tmp_path, mse=0.2)
    finished(tmp_path, "b", tmp_path, mse=0.1, classes="<script>x,y")
    held(tmp_path, "c", qubits=12).close()
    page = tmp_path / "pages" / "compared.html"
    printed = shown(lambda c: command.compare(c, tmp_path, ["a", "b", "c"], str(page)))
    assert printed.endswith(f"Page: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    rows = re.findall(r"<tr><th>(.*?)</th>(.*?)</tr>", text)
    cells = {name: re.findall(r"<td>(.*?)</td>", row) for name, row in rows}
    assert cells["QUBITS"] == ["8", "8", "12"]
    assert cells["CLASSES"] == ["", "&lt;script&gt;x,y", ""]
    assert cells["test mse"] == ["0.2000", "0.1000", "–"]
    assert cells["epochs"] == ["2", "2", "–"]
    assert "SEED" not in cells
    assert re.search(r"best test mean squared error.*?0\.1000.*?>b<", text, re.DOTALL)
    assert "another loss: c." in text
    (svg,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    labels = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    assert {"epoch", "loss (training)", "a", "b"} <= {*labels}
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_page_with_one_plot_per_loss_has_unique_ids(tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(8)]  # more than there are colours
    for name in names:
        finished(tmp_path, name, tmp_path)
        row = {"epoch": 1, "mse": 0.5, "val_mse": 0.25}
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    page = tmp_path / "compared.html"
    shown(lambda c: command.compare(c, tmp_path, names, str(page)))
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert "All settings are equal" in text
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert {*re.findall(r'href="#([^"]*)"', text)} <= {*ids}


def test_curve_leaves_out_epochs_without_a_finite_loss(tmp_path: Path) -> None:
    finished(tmp_path, "a", tmp_path)
    rows = [{"epoch": 1, "mse": None}, {"epoch": 2, "mse": 0.5}]
    (tmp_path / "a" / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = runs.find(tmp_path, "a")
    assert command.learning_curves([found]) == {"mse": {"a": [0.5]}}


def test_remove_without_confirmation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path, "a", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(RunError, match="DELETE=a needs YES=true"):
        shown(lambda c: command.remove(c, tmp_path, ["a"], confirmed=False))
    with pytest.raises(RunError, match="no run b"):
        shown(lambda c: command.remove(c, tmp_path, ["a", "b"], confirmed=True))
    assert (tmp_path / "a" / "result.json").exists()
    assert "Deleted a" in shown(lambda c: command.remove(c, tmp_path, ["a"], confirmed=True))
    assert not (tmp_path / "a").exists()


def test_remove_failed_deletes_all_failed_runs(tmp_path: Path) -> None:
    begun(tmp_path, "a")
    finished(tmp_path, "b", tmp_path)
    for name in ("c", "d"):
        held(tmp_path, name).close()
    with held(tmp_path, "e"):
        shown(lambda c: command.remove(c, tmp_path, ["failed"], confirmed=True))
        assert runs.names(tmp_path) == ["a", "b", "e"]
        assert "no failed runs" in shown(
            lambda c: command.remove(c, tmp_path, ["failed"], confirmed=True)
        )
    held(tmp_path, "failed").close()
    shown(lambda c: command.remove(c, tmp_path, ["failed"], confirmed=True))
    assert runs.names(tmp_path) == ["a", "b", "e"], "the run of this name is meant"


def test_delete_run_in_training_is_refused(tmp_path: Path) -> None:
    finished(tmp_path, "a", tmp_path)
    with held(tmp_path, "b"), pytest.raises(RunError, match="b is in use by another job"):
        runs.delete(tmp_path, ["a", "b"])
    assert runs.names(tmp_path) == ["a", "b"]


def test_load_binds_the_trained_angles(root: StoragePath, tmp_path: Path) -> None:
    run = finished(root, "hybrid", tmp_path)
    for loaded in (runs.load("hybrid", storage=str(root)), runs.load(str(run.path))):
        assert cirq.parameter_names(loaded.circuit) == {"x0"}
        assert cirq.read_json(json_text=loaded.to_json()) == loaded.circuit
        assert loaded.to_qasm([0.5]).startswith("// Generated from Cirq")
        assert "rz(pi*0.0795" in loaded.to_qasm()
        assert loaded.result["metrics"]["test"]["mse"] == 0.1234567
        assert loaded.circuits[0].trained == {"w0": 0.25}
    with pytest.raises(ValueError, match="give 1 angle"):
        loaded.to_qasm([1.0, 2.0])


def write(name: str, text: str | bytes) -> Callable[[Path], None]:
    content = text.encode() if isinstance(text, str) else text

    def damage(run: Path) -> None:
        folder = model_folder(run) if name in ("weights.h5", "model.json") else run
        (folder / name).write_bytes(content)

    return damage


LOADING: dict[str, tuple[Callable[[Path], None], type[UserError], str]] = {
    "no run.json": (lambda r: (r / "run.json").unlink(), RunError, "there is no run hybrid"),
    "run.json cut": (write("run.json", '{"fo'), RunError, "run.json is damaged: it is not JSON"),
    "run.json a list": (write("run.json", "[]"), RunError, "run.json is damaged: it is not a"),
    "run.json binary": (write("run.json", b"\xff"), RunError, "run.json is damaged"),
    "run.json of another format": (
        lambda r: (
            (r / "run.json").write_text(
                (r / "run.json").read_text().replace('"format": 3', '"format": 1')
            )
            and None
        ),
        RunError,
        "has format 1 and this version of qfleet reads format 3",
    ),
    "result.json cut": (write("result.json", '{"m'), RunError, "result.json is damaged"),
    "result.json empty": (write("result.json", "{}"), RunError, "result.json is damaged: it lacks"),
    "no result.json": (lambda r: (r / "result.json").unlink(), RunError, "is not finished"),
    "result.json of another file": (
        lambda r: (
            (r / "result.json").write_text(
                (r / "result.json").read_text().replace('"model/', '"../model/')
            )
            and None
        ),
        RunError,
        "its weights are not a file of this run",
    ),
    "no weights": (
        lambda r: (model_folder(r) / "weights.h5").unlink(),
        WeightsError,
        "weights.h5 does not exist",
    ),
    "weights altered": (write("weights.h5", "other"), WeightsError, "was altered: its SHA"),
    "no model.json": (
        lambda r: (model_folder(r) / "model.json").unlink(),
        WeightsError,
        "does not exist",
    ),
    "model.json cut": (write("model.json", '{"ci'), WeightsError, "damaged: it is not JSON"),
    "model.json a list": (write("model.json", "[]"), WeightsError, "not a JSON object"),
    "no circuits": (write("model.json", "{}"), WeightsError, "has format None"),
    "circuit damaged": (
        lambda r: storage.write_json(
            model_folder(r) / "model.json",
            {**described(), "circuits": [{**described()["circuits"][0], "circuit": "{"}]},
        ),
        WeightsError,
        "does not describe circuits",
    ),
}


@pytest.mark.parametrize("name", LOADING)
def test_load_damaged_run_is_refused(tmp_path: Path, name: str) -> None:
    run = finished(tmp_path / "runs", "hybrid", tmp_path)
    assert isinstance(run.path, Path)
    damage, kind, message = LOADING[name]
    damage(run.path)
    before = sorted(p for p in run.path.rglob("*"))
    with pytest.raises(kind, match=message):
        runs.load("hybrid", storage=str(tmp_path / "runs"))
    assert sorted(p for p in run.path.rglob("*")) == before


OPENING: dict[str, tuple[Callable[[Path], None], str]] = {
    "run.json cut": (write("run.json", '{"fo'), "run.json is damaged: it is not JSON"),
    "run.json empty": (write("run.json", ""), "run.json is damaged: it is not JSON"),
    "run.json of another format": (LOADING["run.json of another format"][0], "has format 1"),
    "run.json of numbers": (
        write("run.json", '{"format": 3, "settings": 5}'),
        "settings is not a valid dict",
    ),
    "no run.json but checkpoints": (
        lambda r: (r / "run.json").unlink(),
        "is not a run .it contains",
    ),
}


def test_record_before_the_first_epoch_is_replaced_aloud(
    root: StoragePath, caplog: pytest.LogCaptureFixture
) -> None:
    with held(root) as opened:
        storage.write_atomic(opened.run.path / "contraction_paths.json", "{}")
    held(root).close()
    assert not caplog.messages
    with held(root, qubits=4, data="e" * 64) as other:
        assert "QUBITS=8 (now 4)" in caplog.text
        assert "has trained no epoch" in caplog.text
        assert other.run.record()["settings"]["qubits"] == 4
        assert not storage.exists(other.run.path / "contraction_paths.json")


@pytest.mark.parametrize("line", ['{"epoch": 0, "loss": 1.0}\n', '{"epo'])
def test_run_with_metrics_only_is_not_taken_over(root: StoragePath, line: str) -> None:
    with held(root, train_examples=None) as opened:
        storage.write_atomic(opened.run.path / "metrics.jsonl", line)
    for changes in ({"qubits": 40}, {"data": "e" * 64}):
        with pytest.raises(RunError, match=r"RUN=hybrid-2 .* DELETE=hybrid`"):
            held(root, **{"train_examples": None, **changes})
    with pytest.raises(RunError, match=r"TRAIN_EXAMPLES=unset \(now 20\):"):
        held(root, train_examples=20)
    assert storage.read_bytes(root / "hybrid" / "metrics.jsonl") == line.encode()
    held(root, train_examples=None).close()  # the same settings train it from the beginning


@pytest.mark.parametrize("name", OPENING)
def test_claim_damaged_run_is_refused(tmp_path: Path, name: str) -> None:
    with held(tmp_path) as opened:
        checkpoints.save(opened.run.path, 1, {"x": np.ones(1)}, {}, 1)
    damage, message = OPENING[name]
    damage(tmp_path / "hybrid")
    with pytest.raises(RunError, match=message):
        held(tmp_path)


def test_metrics_damaged_file_is_refused(tmp_path: Path) -> None:
    run = finished(tmp_path / "runs", "hybrid", tmp_path)
    for text in ('{"epoch": 1}\n{"ep', "5\n", "\xff"):
        storage.write_atomic(run.path / "metrics.jsonl", text.encode("latin-1"))
        with pytest.raises(RunError, match=r"metrics.jsonl is damaged"):
            run.metrics()


def test_circuit_of_a_run_without_circuits_is_refused(tmp_path: Path) -> None:
    run = finished(tmp_path / "runs", "hybrid", tmp_path)
    storage.write_json(run.weights.parent / "model.json", {**described(), "circuits": []})
    with pytest.raises(RunError, match="has no circuit"):
        _ = runs.load(str(run.path)).circuit


def test_arguments_include_other_storage():
    assert runs.Run(Path("runs/mine")).arguments == "RUN=mine"
    assert runs.Run(Path("/my data/mine")).arguments == "STORAGE='/my data' RUN=mine"
