"""Malformed input of the user: exit code 2, one sentence, no partial output."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt

from common import checkpoints, runs
from common.data import prepare
from common.errors import run_main
from common.settings import Settings
from common.settings.schema import describe_constraint
from tests.support.malformed_tables import CASES
from tests.unit.test_checkpoints import DAMAGES
from tests.unit.test_cluster import MALFORMED
from tests.unit.test_runs import LOADING, finished
from training import worker
from training.cluster.spec import TF_CONFIG


class Case(NamedTuple):
    """One malformed thing.

    Attributes:
        name: What is wrong with what.
        prepare: Makes it in an empty folder, and gives what a program then does with it.
        words: Parts of the message: location, and allowed values or the error.
    """

    name: str
    prepare: Callable[[Path, pytest.MonkeyPatch], Callable[[], object]]
    words: tuple[str, ...]


def settings() -> list[Case]:
    """Each bound of each setting passed by one, and each type and choice missed."""
    cases = []
    for name, field in Settings.fields().items():
        wrong = {"no number": "many"} if "number" in describe_constraint(field) else {}
        if (
            describe_constraint(field).startswith("one of")
            or describe_constraint(field) == "true or false"
        ):
            wrong["no choice"] = "perhaps"
        for bound in field.bounds:
            if isinstance(bound, Ge):
                wrong["too low"] = str(bound.ge - 1)
            elif isinstance(bound, Gt):
                wrong["too low"] = str(bound.gt)
            elif isinstance(bound, Le):
                wrong["too high"] = str(bound.le + 1)
            elif isinstance(bound, Lt):
                wrong["too high"] = str(bound.lt)
        for what, value in wrong.items():
            cases.append(_setting(f"{name.upper()} {what}", f"{name.upper()}={value}"))
    cases += [
        _setting(f"{text} not of the form", text)
        for text in ("RUN=a_b", "RUN=-a", "MODEL=mine", "MODEL=a:b:c", "CLASSES=1",
                     "PROFILE_STEPS=3",
                     "STORAGE=s3://b", "STORAGE=gs://")
    ]  # fmt: skip
    return cases


def _setting(name: str, text: str) -> Case:
    variable, _, value = text.partition("=")

    def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
        del folder, monkeypatch
        from common import storage

        return lambda: storage.path(Settings.from_args([text]).job.storage) and None

    shown = value if variable == "STORAGE" else text
    return Case(f"setting {name}", make, (shown,))


def cluster() -> list[Case]:
    """TF_CONFIG, as a worker's process meets it."""

    def case(name: str, text: str, words: str) -> Case:
        def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
            monkeypatch.setenv(TF_CONFIG, text)
            monkeypatch.setattr(sys, "argv", ["worker", f"STORAGE={folder}"])
            return worker.main

        return Case(f"TF_CONFIG {name}", make, (TF_CONFIG, words))

    return [case(name, text, words) for name, (text, words) in MALFORMED.items()]


def tables() -> list[Case]:
    """The person's own table, as the chief meets it."""

    def case(table) -> Case:
        def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
            del monkeypatch
            table.write(folder / table.file)
            asked = Settings.from_values(data=str(folder / table.file), **table.settings)
            return lambda: prepare(asked, folder / "datasets")

        return Case(f"table {table.name}", make, table.words)

    return [case(table) for table in CASES]


def damaged_runs() -> list[Case]:
    """A finished run whose files were damaged, as a notebook and inference meet it."""

    def case(name: str, words: str) -> Case:
        def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
            del monkeypatch
            run = finished(folder / "runs", "hybrid", folder)
            LOADING[name][0](Path(str(run.path)))
            return lambda: runs.load("hybrid", storage=str(folder / "runs"))

        return Case(f"run {name}", make, (words.split(" .")[0],))

    return [case(name, words) for name, (_, _, words) in LOADING.items()]


def damaged_checkpoints() -> list[Case]:
    """A checkpoint that was damaged between the chief's order and a worker's reading."""

    def case(name: str) -> Case:
        def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
            del monkeypatch
            for step in (10, 20):
                checkpoints.save(folder, step, {"a": np.arange(1e3) + step}, {"epoch": 1}, keep=3)
            DAMAGES[name](folder / "checkpoints")
            return lambda: checkpoints.read(folder, 20, ("epoch",))

        return Case(f"checkpoint {name}", make, ("step-00000020", "run the same command again"))

    return [case(name) for name in DAMAGES]


ALL = [*settings(), *cluster(), *tables(), *damaged_runs(), *damaged_checkpoints()]


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_malformed_input_is_refused_in_one_sentence(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = case.prepare(tmp_path, monkeypatch)
    before = _content(tmp_path)
    code = run_main(program)
    said = capsys.readouterr().err
    assert code == 2, said
    assert said.startswith("qfleet: ")
    assert said.count("\n") == 1
    assert "Traceback" not in said
    for word in case.words:
        assert word in said
    assert _content(tmp_path) == before


def test_all_cases_are_unique():
    assert len(ALL) >= 60
    assert len({case.name for case in ALL}) == len(ALL)
