"""Rates of qfleet and the peaks of the machine."""

import shutil

import pytest

from benchmarks.machine_peaks import MachinePeaks, measure_peaks
from benchmarks.roofline import bound_fraction, roofline_table

ROW = {
    **{"system": "qfleet", "task": "train", "model": "qcnn", "qubits": 16, "batch": 16},
    **{"ms_per_circuit": 2.0, "operations": 4e8, "bytes": 5e7, "cached_bytes": 1e8},
    **{"peak_operations": 4e11, "peak_bytes": 5e10, "peak_cached_bytes": 2e11, "tile_bytes": 1e6},
}


def test_each_rate_of_the_machine_is_a_bound() -> None:
    peaks = MachinePeaks(operations=4e11, bytes=5e10, cached_bytes=1e11)
    assert peaks.bounds(4e11, 1e11, 3e11) == {"multiply-adds": 1, "memory": 2, "caches": 3}


@pytest.mark.parametrize(
    ("changed", "bound", "fraction"),
    [
        ({}, "multiply-adds", 0.5),
        ({"cached_bytes": 3e8}, "caches", 0.75),
        ({"bytes": 8e7}, "multiply-adds", 0.5),  # the states of a tile stay in a cache
        ({"bytes": 8e7, "tile_bytes": 1 << 21}, "memory", 0.8),
    ],
)
def test_longest_bound_holds(changed: dict[str, float], bound: str, fraction: float) -> None:
    row = ROW | changed
    assert bound_fraction(row) == pytest.approx(fraction)
    assert roofline_table([row]).endswith(f"| {bound} | {fraction:.2f} |")


def test_roofline_table_lists_only_rows_with_peaks() -> None:
    lines = roofline_table([{"task": "train"}, ROW | {"task": "forward"}, ROW]).splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["train", "forward"]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].endswith("| 400 | 100 | 0 | 200 | 50 | 400 | 200 | 50 | multiply-adds | 0.50 |")


@pytest.mark.skipif(shutil.which("g++") is None, reason="requires g++")
def test_measured_peaks_are_rates_of_this_machine() -> None:
    peaks = measure_peaks(cached_bytes=1 << 16)
    assert 1e9 < peaks.operations < 1e14
    assert 1e9 < peaks.cached_bytes < 1e14
    assert 1e8 < peaks.bytes < 1e13
