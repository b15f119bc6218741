"""Rates of qfleet and the peaks of the machine."""

import shutil

import pytest

from benchmarks.machine_peaks import MachinePeaks, measure_peaks
from benchmarks.roofline import bound_fraction, roofline_table

ROW = {
    **{"system": "qfleet", "task": "train", "model": "qcnn", "qubits": 16, "batch": 16},
    **{"ms_per_circuit": 2.0, "operations": 4e8, "bytes": 5e6},
    **{"peak_operations": 4e11, "peak_bytes": 5e10},
}


def test_seconds_is_the_longer_one_of_both_bounds() -> None:
    peaks = MachinePeaks(operations=4e11, bytes=5e10)
    assert peaks.seconds(4e11, 5e9) == 1
    assert peaks.seconds(4e10, 1e11) == 2
    cached = MachinePeaks(operations=4e11, bytes=5e10, cached_bytes=1e11)
    assert cached.seconds(4e11, 5e9, 3e11) == 3
    assert cached.bounds(4e11, 5e9, 3e11)["caches"] == 3


def test_bound_fraction_is_shortest_time_by_measured_time() -> None:
    assert bound_fraction(ROW) == 0.5
    assert bound_fraction(ROW | {"bytes": 1e8}) == 1


def test_roofline_table_lists_only_rows_with_peaks() -> None:
    lines = roofline_table([{"task": "train"}, ROW | {"task": "forward"}, ROW]).splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["train", "forward"]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].endswith("| 200 | 2.5 | 400 | 50 | multiply-adds | 0.50 |")


@pytest.mark.skipif(shutil.which("g++") is None, reason="requires g++")
def test_measured_peaks_are_rates_of_this_machine() -> None:
    peaks = measure_peaks(cached_bytes=1 << 16)
    assert 1e9 < peaks.operations < 1e14
    assert 1e9 < peaks.cached_bytes < 1e14
    assert 1e8 < peaks.bytes < 1e13
