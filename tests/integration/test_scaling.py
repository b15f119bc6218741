"""Gangs of probes as real processes on this machine."""

import contextlib
import os
import time

import psutil
import pytest

from common.errors import PeerLost, SettingsError
from planning.scaling_point import by_case, scaling_points
from planning.step_measurement import StepMeasurement, cpu_sets, measure_group

TURN = [
    {"batch": 64},
    {"batch": 32, "alone": "all"},
    {"batch": 32, "alone": "first"},
    {"batch": 64, "alone": "first"},
]
# Two turns, so that each case comes again.
CASES = [{"qubits": 8, "seconds": 0.3, **case} for case in TURN + TURN[::-1]]


@pytest.fixture(scope="module")
def measured() -> list[list[StepMeasurement]]:
    """What a gang of two says of CASES."""
    return measure_group(CASES, workers=2, cores=cpu_sets(2, 1))


def probes() -> list[psutil.Process]:
    """Probes that this process started and that still run."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if (
                "training.step_benchmark_worker" in child.cmdline()
                and child.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(child)
    return found


def test_each_worker_tells_each_case_that_it_has_a_part_in(
    measured: list[list[StepMeasurement]],
) -> None:
    assert [[line.rank for line in lines] for lines in measured] == [
        [0, 1], [0, 1], [0], [0], [0], [0], [0, 1], [0, 1],
    ]  # fmt: skip
    for number, (case, lines) in enumerate(zip(CASES, measured, strict=True)):
        for line in lines:
            assert (line.case, line.qubits, line.batch) == (number, 8, case["batch"])
            assert line.alone == case.get("alone", "")
            assert line.workers == (1 if line.alone else 2)
    assert not probes()


def test_workers_do_the_same_number_of_steps_for_about_as_long_as_they_should(
    measured: list[list[StepMeasurement]],
) -> None:
    for lines in measured:
        assert len({(line.steps, line.steps_per_call) for line in lines}) == 1
        for line in lines:
            assert 0.01 < line.seconds < 10  # a busy machine is slower than it was a moment ago
            assert line.examples_per_second == pytest.approx(line.batch * line.steps / line.seconds)
            assert sum(line.step_ms.values()) == pytest.approx(1e3 * line.step_seconds, rel=0.05)
            assert 0 < line.cpu_seconds < 1.2 * line.seconds * line.threads + 0.1
            assert 2**28 < line.rss_bytes < 2**32
            assert line.start_seconds > 0.5
            assert line.build_seconds > 0.1


def test_a_step_without_exchange_has_none(measured: list[list[StepMeasurement]]) -> None:
    together, independent, *_ = measured
    assert all(line.step_ms["exchange"] < 0.01 for line in independent)
    assert all(line.step_ms["exchange"] > 0.02 for line in together)
    # Both wait for each other now and then, and neither during what the exchange itself takes.
    assert all(0 <= line.wait_ms < line.step_ms["exchange"] for line in together)
    assert sum(line.wait_ms for line in together) > 0
    assert all(line.wait_ms < 1e-3 for line in independent)  # but for rounding


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no pinning here")
def test_each_worker_is_pinned_to_cores_of_its_own(measured: list[list[StepMeasurement]]) -> None:
    for lines in measured:
        assert [list(line.cores) for line in lines] == cpu_sets(2, 1)[: len(lines)]
        assert all(line.threads == 1 for line in lines)


def test_efficiency_is_computed_from_what_was_measured(
    measured: list[list[StepMeasurement]],
) -> None:
    one, two = scaling_points("strong", 8, 64, 2, by_case(CASES, measured, 8))
    rates = [sum(line.examples_per_second for line in lines) for lines in measured]
    together = [lines[0].examples_per_second for lines in (measured[0], measured[7])]
    independent, first = (rates[1], rates[6]), (rates[3], rates[4])
    mean = [(a / b, a / c) for a, b, c in zip(together, independent, first, strict=True)]
    assert two.efficiency == pytest.approx((mean[0][0] + mean[1][0]) / 2)
    assert two.ratio == pytest.approx((mean[0][1] + mean[1][1]) / 2)
    assert one.rate == pytest.approx(sum(first) / 2)
    assert two.crowded is (len(os.sched_getaffinity(0)) < 2)


def test_a_case_that_is_refused_ends_the_gang_in_one_sentence() -> None:
    began = time.monotonic()
    with pytest.raises(SettingsError, match=r"^QUBITS=40 is not allowed: QUBITS is a whole number"):
        measure_group([{"qubits": 40}], workers=2)
    assert time.monotonic() - began < 20
    assert not probes()


def test_a_worker_that_is_killed_ends_the_gang_in_one_sentence() -> None:
    def kill(line: StepMeasurement) -> None:
        for probe in probes():
            if probe.environ().get("TF_CONFIG", "").endswith('"index": 1}}'):
                probe.kill()

    with pytest.raises(PeerLost, match="worker"):
        measure_group([{"qubits": 4, "batch": 8, "seconds": 0.1}] * 50, workers=2, heard=kill)
    assert not probes()
