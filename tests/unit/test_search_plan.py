"""The plan of a search: a short search, and what follows from it."""

import sys
import time
from dataclasses import replace

import pytest

from cli.app import _names_search
from common.errors import SettingsError, run_main
from studies.search import __main__ as program
from studies.search import forecast, plan
from studies.search.definition import SearchDefinition
from studies.search.forecast import Probe, predict
from studies.search.space_of import space_of

ISING = ("NAME=s", "DATA=tfim:4:1.0")
FOUND = Probe(seconds=10.0, evaluations=500, rate=100.0, busy_cores=0.1, has_ended=False)


def define(*args: str) -> SearchDefinition:
    return SearchDefinition.from_args([*ISING, *args])


@pytest.fixture
def run(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Run a command in a folder; return its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(main, *args: str) -> int:
        monkeypatch.setattr(sys, "argv", ["search", *args])
        return run_main(main)

    return run


def test_plan_counts_evaluations_seconds_seeds_and_workers() -> None:
    one = predict(define("BUDGET=2500evaluations", "SEEDS=0..4", "WORKERS=2"), FOUND)
    assert (one.seed_seconds, one.seed_evaluations) == (30, 2500)
    assert (one.wall, one.worker) == (90, 150)
    one = predict(define("BUDGET=20s,2500evaluations"), FOUND)
    assert (one.seed_seconds, one.seed_evaluations, one.wall) == (20, 1500, 20)
    one = predict(define("BUDGET=1h"), replace(FOUND, has_ended=True))
    assert (one.seed_seconds, one.seed_evaluations) == (10, 500)
    pods = ("BUDGET=2500evaluations", "SEEDS=0..4", "TARGET=k8s")
    assert predict(define(*pods), FOUND).wall == 90
    assert predict(define(*pods, "PARALLELISM=5"), FOUND).wall == 30
    shared = predict(
        define("BUDGET=2500evaluations", "SEEDS=0,1", "WORKERS=2"), replace(FOUND, busy_cores=1e3)
    )
    assert shared.wall > 900


def test_plan_of_a_program_is_refused() -> None:
    one = define(f"METHOD={sys.executable} propose.py")
    with pytest.raises(SettingsError, match="METHOD"):
        forecast.require_known_time(one)


def test_plan_prints_time_cost_and_the_search(run, capsys) -> None:
    args = [*ISING, "METHOD=growth", "BUDGET=300evaluations", "PRICE_PER_WORKER_HOUR=2"]
    assert run(plan.main, *args) == 0
    output = capsys.readouterr().out
    assert run(program.main, *args) == 0
    evaluations = capsys.readouterr().out.partition(" evaluations;")[0].split()[-1]
    assert f"{evaluations} evaluations" in output  # the short search was the whole one
    assert f"make search {' '.join(args)}" in output
    assert "cost 0.00" in output


@pytest.mark.parametrize(
    ("args", "is_search"),
    [
        (["QUBITS=8", "PRICE_PER_WORKER_HOUR=2"], False),
        (["SEED=3", "QUICK=1"], False),
        (["DATA=h2:0.74", "NAME=h2"], True),
        (["--budget", "5min"], True),
        (["SPACE=blocks"], True),
    ],
)
def test_plan_is_of_a_search_with_its_settings(args: list[str], is_search: bool) -> None:
    assert _names_search(args) == is_search


@pytest.mark.exhaustive
def test_plan_predicts_the_time_of_a_search(run, monkeypatch) -> None:
    args = (*ISING, "SPACE=layers:3", "METHOD=random", "BUDGET=4000evaluations")
    monkeypatch.setattr(forecast, "PROBE_SECONDS", 0.3)
    one = SearchDefinition.from_args(args)
    found = predict(one, forecast.probe(one, space_of(one)))
    start = time.perf_counter()
    assert run(program.main, *args) == 0
    assert 1 / 4 < found.wall / (time.perf_counter() - start) < 4
