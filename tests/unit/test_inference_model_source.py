"""Choice of the model. Mistakes exit with 2 and one line, and write nothing."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from common import storage
from common.errors import SettingsError, run_main
from common.settings import Settings
from inference import model_source
from inference.__main__ import main
from tests.support.finished_run import finish, model_folder


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A STORAGE with the finished runs `first` (qcnn), `second` and `wide`, in that order."""
    root = tmp_path_factory.mktemp("runs")
    for name, args in (
        ("first", ["MODEL=qcnn"]),
        ("second", ["MODEL=hybrid"]),
        ("wide", ["MODEL=qcnn", "QUBITS=3"]),
    ):
        run = finish(root, name, *args)
        result = json.loads((run.path / "result.json").read_text())
        result["finished"] = f"2026-01-0{1 + ['wide', 'first', 'second'].index(name)}T00:00:00Z"
        (run.path / "result.json").write_text(json.dumps(result))
    return root


@pytest.fixture
def root(finished_runs: Path, tmp_path: Path) -> Path:
    """A copy of the runs, which tests may alter."""
    return Path(shutil.copytree(finished_runs, tmp_path / "runs"))


@pytest.fixture
def infer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Run inference in this process and return exit code, stdout and stderr."""

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["inference", *args])
        capsys.readouterr()
        code = run_main(main)
        return code, *capsys.readouterr()

    return call


def choose(*args: str) -> model_source.ModelSource:
    return model_source.choose_model(Settings.from_args(args))


def test_choose_model_defaults_to_the_last_finished_run(root):
    assert choose(f"STORAGE={root}").name == "second"
    assert choose(f"STORAGE={root}", "RUN=first").name == "first"


def test_title_names_no_qubits_of_an_own_model(root):
    source = choose(f"STORAGE={root}", "RUN=first")
    assert source.title == "run first (qcnn, 4 qubits)"
    own = dataclasses.replace(source, described={"settings": {"model": "m:build", "qubits": 8}})
    assert own.title == "run first (m:build)"


@pytest.mark.parametrize("inside", ["", "model", "model/ID", "model/ID/weights.h5"])
def test_weights_in_a_run_folder_select_that_run(root, inside):
    identity = model_folder(root / "first").name
    source = choose(f"WEIGHTS={root / 'first' / inside.replace('ID', identity)}")
    assert source.name == "first"
    assert source.predictions == root / "first" / "predictions"


def test_weights_elsewhere_have_predictions_next_to_them(root, tmp_path):
    for name in ("weights.h5", "model.json"):
        shutil.copy(model_folder(root / "first") / name, tmp_path)
    source = choose(f"WEIGHTS={tmp_path / 'weights.h5'}")
    assert source.run is None
    assert source.predictions == tmp_path / "predictions"
    assert "not verified" in source.unverified
    with source.local_weights() as path:
        assert path == tmp_path / "weights.h5"


def test_weights_elsewhere_are_verified_with_result_json(root, tmp_path):
    folder = tmp_path / "elsewhere"
    shutil.copytree(root / "first" / "model", folder / "model")
    shutil.copy(root / "first" / "result.json", folder)
    model = folder / "model" / model_folder(root / "first").name
    source = choose(f"WEIGHTS={model / 'weights.h5'}")
    assert source.run is None
    assert not source.unverified
    shutil.copy(model_folder(root / "second") / "weights.h5", model)
    with pytest.raises(model_source.WeightsError, match="was altered"), source.local_weights():
        pass


def test_choose_model_accepts_settings_equal_to_the_run(root):
    assert choose(f"STORAGE={root}", "RUN=wide", "QUBITS=3", "SEED=5").name == "wide"


def test_noise_and_shots_replace_those_of_the_training(root):
    storage = f"STORAGE={root}"
    source = choose(storage, "NOISE=readout:0.1", "SHOTS=100", "TRAJECTORIES=20")
    changed = {"noise": "readout:0.1", "shots": "100", "trajectories": 20}
    assert changed.items() <= source.settings.items()
    assert source.test_loss is None
    assert choose(storage, "NOISE=none", "SHOTS=none").test_loss == choose(storage).test_loss


def test_trajectories_without_noise_are_refused(root):
    with pytest.raises(SettingsError, match="TRAJECTORIES=20"):
        choose(f"STORAGE={root}", "TRAJECTORIES=20")


def test_sampler_replaces_pruned_and_reproducible_circuits(tmp_path):
    finish(tmp_path, "pruned", "MODEL=qcnn", "PRUNE=0.5", "REPRODUCIBLE=true")
    source = choose(f"STORAGE={tmp_path}", "SAMPLER=my:factory", "SHOTS=9")
    assert {"sampler": "my:factory", "shots": "9"}.items() <= source.settings.items()
    assert source.code.sampler == "my:factory"


def _json(path: Path, **changes: object) -> None:
    read = json.loads(path.read_text())
    path.write_text(json.dumps({**read, **changes}))


def _other_seed(path: Path) -> None:
    _json(path, settings={**json.loads(path.read_text())["settings"], "seed": 5})


def _other_circuit(path: Path) -> None:
    circuit = json.loads(path.read_text())["circuits"][0]
    _json(path, circuits=[{**circuit, "trained": {"w": 0.5}}])


def _states(root: Path) -> list[str]:
    for path in (root / "first" / "run.json", model_folder(root / "first") / "model.json"):
        settings = json.loads(path.read_text())["settings"]
        changed = {"task": "state", "model": "hardware-efficient"}
        _json(path, settings={**settings, **changed})
    return ["RUN=first", "ZNE=1,3"]


def _unfinished(root: Path) -> list[str]:
    (root / "first" / "result.json").unlink()
    return ["RUN=first"]


def _weights(change: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    def alter(root: Path) -> list[str]:
        change(model_folder(root / "first") / "weights.h5")
        return ["RUN=first"]

    return alter


def _described(change: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    def alter(root: Path) -> list[str]:
        change(model_folder(root / "first") / "model.json")
        return ["RUN=first"]

    return alter


def _combine(weights: str, model: str) -> Callable[[Path], list[str]]:
    """Combine the weights of one run with the model.json of another."""

    def alter(root: Path) -> list[str]:
        shutil.copy(model_folder(root / weights) / "weights.h5", root / "weights.h5")
        shutil.copy(model_folder(root / model) / "model.json", root / "model.json")
        return [f"WEIGHTS={root / 'weights.h5'}"]

    return alter


def _with_weights(content: bytes) -> Callable[[Path], list[str]]:
    def alter(root: Path) -> list[str]:
        shutil.copy(model_folder(root / "first") / "model.json", root)
        (root / "weights.h5").write_bytes(content)
        return [f"WEIGHTS={root / 'weights.h5'}"]

    return alter


def _without_model(root: Path) -> list[str]:
    args = _with_weights(b"x")(root)
    (root / "model.json").unlink()
    return args


def _other_angles(root: Path) -> list[str]:
    """Weights of the right shapes, but of another run, without a result.json."""
    args = _combine("first", "first")(root)
    with h5py.File(root / "weights.h5", "r+") as file:
        file["circuit_0/circuit_0/angles:0"][...] = np.zeros(42, np.float32)
    return args


def _nan(root: Path) -> list[str]:
    args = _other_angles(root)
    with h5py.File(root / "weights.h5", "r+") as file:
        file["circuit_0/circuit_0/angles:0"][...] = np.full(42, np.nan, np.float32)
    return args


def _other_data(root: Path) -> list[str]:
    _json(root / "first" / "run.json", data="0" * 64)
    return ["RUN=first"]


def _altered_data(root: Path) -> list[str]:
    for shard in (root / "datasets").glob("*/test-*"):
        shard.write_bytes(shard.read_bytes()[:-1])
    return ["RUN=first"]


def test_a_refusal_names_what_to_omit_once(tmp_path: Path) -> None:
    finish(tmp_path, "a", "SIMULATOR=tensorflow")
    with pytest.raises(SettingsError, match=r"or omit TRAJECTORIES$"):
        choose(f"STORAGE={tmp_path}", "TRAJECTORIES=5")
    with pytest.raises(SettingsError, match=r"omit one; SHOTS can be left out$"):
        choose(f"STORAGE={tmp_path}", "SHOTS=100")


def _input(name: str, text: str | None) -> Callable[[Path], list[str]]:
    def alter(root: Path) -> list[str]:
        if text is not None:
            (root / name).write_text(text)
        return ["RUN=first", f"INPUT={root / name}"]

    return alter


HEADER = "x_00,x_01,x_02,x_03"

CASES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "nothing trained": (lambda r: [f"STORAGE={r / 'none'}"], "`make training`"),
    "unknown run": (lambda r: ["RUN=frist"], "did you mean first?"),
    "unfinished run": (_unfinished, "RUN=first`"),
    "data sets as run": (lambda r: ["RUN=datasets"], "choose another RUN"),
    "run and weights": (lambda r: ["RUN=first", "WEIGHTS=x.h5"], "set only one of them"),
    "cluster": (lambda r: ["TARGET=k8s"], "TARGET=local"),
    "other width": (lambda r: ["RUN=first", "QUBITS=9"], "leave QUBITS out"),
    "other model": (lambda r: ["MODEL=qcnn"], "MODEL=hybrid: leave MODEL out"),
    "other data": (lambda r: ["DATA=my.csv"], "use INPUT"),
    "ZNE without NOISE": (lambda r: ["RUN=first", "ZNE=1,3"], "NOISE=none: set NOISE"),
    "ZNE of states": (_states, "TASK=state"),
    "ZNE of a sampler": (
        lambda r: ["RUN=first", "SAMPLER=my:factory", "SHOTS=9", "NOISE=readout:0.1", "ZNE=1,3"],
        "SAMPLER=my:factory",
    ),
    "no weights": (_weights(Path.unlink), "weights.h5 does not exist"),
    "altered weights": (_weights(lambda p: p.write_bytes(p.read_bytes()[:-1] + b"x")), "altered"),
    "cut weights": (_weights(lambda p: p.write_bytes(p.read_bytes()[:99])), "was altered"),
    "no model": (_described(Path.unlink), "model.json does not exist"),
    "model no JSON": (_described(lambda p: p.write_text("{")), "is not JSON"),
    "model a list": (_described(lambda p: p.write_text("[]")), "is not a JSON object"),
    "model of later format": (_described(lambda p: _json(p, format=99)), "format 99"),
    "model without shapes": (
        _described(lambda p: _json(p, weights=3)),
        "weights is not a valid list",
    ),
    "shapes no lists": (
        _described(lambda p: _json(p, weights=[3])),
        "weights.0 is not a valid list",
    ),
    "model of other run": (_described(_other_seed), "other settings"),
    "encoding damaged": (_described(lambda p: _json(p, encoding={})), "model.json is damaged"),
    "features damaged": (
        _described(lambda p: _json(p, features=5)),
        "has 4 angles, but its model has 5",
    ),
    "circuits damaged": (_described(lambda p: _json(p, circuits=[{}])), "it lacks circuits.0"),
    "circuit of other angles": (_described(_other_circuit), "another circuit"),
    "result damaged": (
        lambda r: [(r / "first" / "result.json").write_text("{}") and "RUN=first"],
        "result.json is damaged",
    ),
    "record damaged": (
        lambda r: [(r / "first" / "run.json").write_text("x") and "RUN=first"],
        "run.json is damaged",
    ),
    "metrics damaged": (
        lambda r: [(r / "first" / "metrics.jsonl").write_text("x") and "RUN=first"],
        "metrics.jsonl is damaged",
    ),
    "no such weights": (lambda r: [f"WEIGHTS={r / 'x.h5'}"], "does not exist"),
    "no weights in folder": (lambda r: [f"WEIGHTS={r}"], "does not contain a weights.h5"),
    "weights without model": (
        _without_model,
        "there is no model.json next to",
    ),
    "weights without bucket": (lambda r: ["WEIGHTS=gs://x"], "gs://x"),
    "weights of another model": (_combine("second", "first"), "from another model"),
    "weights of other width": (_combine("wide", "second"), "(hybrid, 4 qubits)"),
    "weights no HDF5": (_with_weights(b"weights"), "is not an HDF5 file"),
    "weights empty": (_with_weights(b""), "is not an HDF5 file"),
    "weights of another run": (_other_angles, "from another run"),
    "weights not numbers": (_nan, "from another run"),
    "data of other fingerprint": (_other_data, "restore that data set"),
    "data altered": (_altered_data, "has "),
    "input missing": (_input("x.csv", None), "does not exist"),
    "input no table": (_input("x.txt", "1"), "must end in"),
    "input empty": (_input("x.csv", ""), "is empty"),
    "input too narrow": (_input("x.csv", "x_00,x_01\n1,2\n"), "lacks 'x_02', 'x_03'"),
    "input too wide": (_input("x.csv", f"{HEADER},x_04\n1,2,3,4,5\n"), "has 'x_04'"),
    "input NaN": (_input("x.csv", f"{HEADER}\n1,2,3,nan\n"), "row 1 of column 'x_03'"),
    "input text": (_input("x.csv", f"{HEADER}\n1,2,3,up\n"), "not a number"),
    "input other label": (_input("x.csv", f"{HEADER},label\n1,2,3,4,7\n"), "label '7'"),
}


@pytest.mark.parametrize("case", CASES)
def test_mistake_exits_with_2_and_writes_nothing(case, root, infer):
    alter, expected = CASES[case]
    args = alter(root)
    before = sorted(root.rglob("*"))
    given = {word.partition("=")[0]: word for word in (f"STORAGE={root}", *args)}
    code, out, err = infer(*given.values())
    assert (code, out) == (2, ""), err
    assert expected in err
    assert err.startswith("qfleet: ")
    assert err.count("\n") == 1
    assert sorted(root.rglob("*")) == before


def test_predictions_not_writable_exits_with_2(root, infer):
    (root / "first" / "predictions").write_text("a file")
    code, _, err = infer(f"STORAGE={root}", "RUN=first")
    assert code == 2
    assert "predictions" in err
    assert err.count("\n") == 1
    assert storage.read_bytes(root / "first" / "predictions") == b"a file"
