"""Stored benchmark results: resuming, and the cases that qfleet loses."""

from pathlib import Path

from benchmarks import cases
from benchmarks.cases import SpeedCase
from benchmarks.lost_cases import UNEXPLAINED, lost_cases, lost_table
from benchmarks.results import BenchmarkResults, Omitted, read


def row(system: str, qubits: int, batch: int, ms: float, task: str = "train") -> dict:
    found = {"system": system, "task": task, "model": "qcnn", "qubits": qubits, "batch": batch}
    return found | {"ms_per_circuit": ms, "runs": [ms]}


def test_lost_cases_are_explained_or_marked() -> None:
    rows = [row("qfleet", 8, 32, 2.0), row("tfq", 8, 32, 1.0), row("qulacs", 8, 32, 3.0)]
    (lost,) = lost_cases(rows)
    assert (lost.system, lost.ratio) == ("tfq", 2.0)
    assert UNEXPLAINED in lost_table(rows)
    assert lost_cases([row("qfleet", 8, 32, 0.5), *rows[1:]]) == []


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    case = SpeedCase("qcnn", 8, 32)
    results = BenchmarkResults([row("qfleet", 8, 32, 1.0)], versions={"qfleet": {"numpy": "2"}})
    results.omitted = [Omitted("tfq", "train", case, "too slow")]
    results.write(tmp_path)
    assert read(tmp_path) == results
    assert read(tmp_path / "missing") == BenchmarkResults()


def test_has_case_out_of_time_is_measured_again() -> None:
    case = SpeedCase("qcnn", 8, 32)
    results = BenchmarkResults([row("qfleet", 8, 32, 1.0)])
    assert results.has(case, "train")
    assert not results.has(case, "forward")
    results.omitted = [Omitted("tfq", "train", case, cases.OUT_OF_TIME, final=False)]
    assert not results.has(case, "train")
    results.drop(case, "train")
    assert results == BenchmarkResults()
