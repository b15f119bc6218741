"""Groups of benchmark workers as real processes on this machine."""

import contextlib
import os
from typing import Any

import psutil
import pytest

from common.errors import PeerLost, SettingsError
from common.processes import cpu_sets
from planning.benchmark_group import measure_group
from planning.scaling_point import scaling_points, turns_by_case
from planning.step_measurement import StepMeasurement
from tests.support.patience import seconds

pytestmark = pytest.mark.exhaustive

TURN: list[dict[str, Any]] = [
    {"batch": 64},
    {"batch": 32, "independent": "all"},
    {"batch": 32, "independent": "first"},
    {"batch": 64, "independent": "first"},
]
# Two turns, so each case occurs again.
CASES: list[dict[str, Any]] = [{"qubits": 8, "seconds": 0.3, **case} for case in TURN + TURN[::-1]]


@pytest.fixture(scope="module")
def measured() -> list[list[StepMeasurement]]:
    """Return the measurements of CASES in two workers."""
    return measure_group(CASES, workers=2, cpus=cpu_sets(2, 1))


def benchmark_workers() -> list[psutil.Process]:
    """Return the running benchmark workers of this process."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if (
                "training.benchmark.worker" in child.cmdline()
                and child.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(child)
    return found


def test_measure_group_returns_each_case_by_rank(measured: list[list[StepMeasurement]]) -> None:
    assert [[one.rank for one in ranks] for ranks in measured] == [
        [0, 1], [0, 1], [0], [0], [0], [0], [0, 1], [0, 1],
    ]  # fmt: skip
    for number, (case, ranks) in enumerate(zip(CASES, measured, strict=True)):
        for one in ranks:
            assert (one.case, one.qubits, one.batch) == (number, 8, case["batch"])
            assert one.independent == case.get("independent", "")
            assert one.workers == (1 if one.independent else 2)
    assert not benchmark_workers()


def test_measure_group_steps_are_equal_and_consistent(
    measured: list[list[StepMeasurement]],
) -> None:
    for ranks in measured:
        assert len({(one.steps, one.steps_per_call) for one in ranks}) == 1
        for one in ranks:
            assert 0.01 < one.seconds < seconds(10)  # 0.3 s are asked for
            assert one.examples_per_second == pytest.approx(one.batch * one.steps / one.seconds)
            assert sum(one.step_ms.values()) == pytest.approx(1e3 * one.step_seconds, rel=0.2)
            assert 0 < one.cpu_seconds < 1.2 * one.seconds * one.threads + 0.1
            assert 2**28 < one.rss_bytes < 2**32
            assert one.start_seconds > 0.5
            assert one.build_seconds > 0.1


def test_independent_steps_have_no_exchange(measured: list[list[StepMeasurement]]) -> None:
    together, independent, *_ = measured
    exchanges = [[one.step_ms["exchange"] for one in ranks] for ranks in (independent, together)]
    assert max(exchanges[0]) < min(exchanges[1])
    # Each worker waits at times, but not during the transfer itself.
    assert all(one.wait_ms >= 0 for one in together)
    assert 0 < sum(one.wait_ms for one in together) < sum(exchanges[1])
    assert all(one.wait_ms < 1e-3 for one in independent)  # rounding


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="CPU pinning is not supported")
def test_workers_are_pinned_to_their_cpus(measured: list[list[StepMeasurement]]) -> None:
    for ranks in measured:
        assert [list(one.cores) for one in ranks] == cpu_sets(2, 1)[: len(ranks)]
        assert all(one.threads == 1 for one in ranks)


def test_scaling_points_use_measured_rates(measured: list[list[StepMeasurement]]) -> None:
    one, two = scaling_points("strong", 8, 64, 2, turns_by_case(CASES, measured, 8))
    rates = [sum(each.examples_per_second for each in ranks) for ranks in measured]
    together = [ranks[0].examples_per_second for ranks in (measured[0], measured[7])]
    independent, first = (rates[1], rates[6]), (rates[3], rates[4])
    mean = [(a / b, a / c) for a, b, c in zip(together, independent, first, strict=True)]
    assert two.efficiency == pytest.approx((mean[0][0] + mean[1][0]) / 2)
    assert two.speedup == pytest.approx((mean[0][1] + mean[1][1]) / 2)
    assert one.examples_per_second == pytest.approx(sum(first) / 2)
    assert two.oversubscribed is (len(os.sched_getaffinity(0)) < 2)


def test_measure_group_invalid_case_raises_one_sentence() -> None:
    with pytest.raises(SettingsError, match=r"^QUBITS=5000 is not allowed"):
        measure_group([{"qubits": 5000}], workers=2)
    assert not benchmark_workers()


def test_measure_group_killed_worker_raises_peer_lost() -> None:
    def kill(measurement: StepMeasurement) -> None:
        for worker in benchmark_workers():
            if worker.environ().get("TF_CONFIG", "").endswith('"index": 1}}'):
                worker.kill()

    cases = [{"qubits": 4, "batch": 8, "seconds": 0.1}] * 50
    with pytest.raises(PeerLost, match="worker"):
        measure_group(cases, workers=2, on_measurement=kill)
    assert not benchmark_workers()
