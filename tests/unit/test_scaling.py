"""`make plan SCALING=1` with synthetic measurements: efficiencies, report and plots."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from common.errors import SettingsError
from common.processes import cpu_sets
from common.settings import Settings
from launch import objects
from launch.benchmark_manifest import benchmark_objects
from planning import scaling, scaling_plots, scaling_report
from planning.bottlenecks import (
    CONTENTION,
    OVERSUBSCRIBED,
    SMALL_BATCH,
    efficiency_losses,
    main_bottleneck,
    paragraph,
)
from planning.scaling_point import ScalingPoint, scaling_points
from planning.step_measurement import StepMeasurement
from training.benchmark.case import read_cases
from training.step.constants import STEP_PARTS

CONDITIONS = {
    "command": "make plan SCALING=1", "when": "2026-11-21T20:00:00", "target": "local",
    "model": "qcnn", "processor": "a processor", "threads": 1, "rounds": 3,
}  # fmt: skip


def ms(simulate: float, exchange: float = 0.0, data: float = 0.1, other: float = 0.1) -> dict:
    return dict(zip(STEP_PARTS, (simulate, exchange, data, other), strict=True))


def measurement(rank: int = 0, **fields: Any) -> StepMeasurement:
    result = {
        "case": 0, "rank": rank, "workers": 2, "qubits": 12, "batch": 64, "threads": 1,
        "state_shards": 1, "independent": "", "data": "turned", "steps_per_call": 50,
        "host_seconds": 0.004,
        "steps": 100,
        "seconds": 1.0,
        "examples_per_second": 6400.0, "step_ms": ms(9.0, 0.8), "wait_ms": 0.3, "cpu_seconds": 0.95,
        "start_seconds": 5.0, "build_seconds": 1.5, "rss_bytes": 800 * 2**20, "cores": [rank],
    }  # fmt: skip
    return StepMeasurement.from_result(result | fields)


def point(**fields: Any) -> ScalingPoint:
    values = {
        "kind": "strong", "qubits": 12, "workers": 2, "batch": 64, "cores": 2,
        "oversubscribed": False, "examples_per_second": 195.0, "independent_rate": 200.0,
        "share_rate": 100.0, "single_rate": 100.0, "efficiency": 0.975, "speedup": 1.95,
        "step_ms": ms(9.0, 0.2), "wait_ms": 0.0, "independent_step_ms": ms(9.0),
        "cpu_utilization": [0.97, 0.96], "independent_cpu_utilization": 1.0, "rss_mib": [800, 790],
        "steps_per_call": 50,
    }  # fmt: skip
    return ScalingPoint(**values | fields)


def two_workers(rates: list[float], independent: list[float], one: list[float], **more: Any) -> Any:
    """Return turns of two workers with a global batch of 64, as `scaling_points` takes them."""
    return {
        ("", 64): [
            [measurement(r, examples_per_second=rate, **more) for r in (0, 1)] for rate in rates
        ],
        ("all", 32): [
            [
                measurement(r, examples_per_second=rate, workers=1, step_ms=ms(9.0), **more)
                for r in (0, 1)
            ]
            for rate in independent
        ],
        ("first", 32): [[measurement(examples_per_second=rate, workers=1)] for rate in one],
        ("first", 64): [[measurement(examples_per_second=rate, workers=1)] for rate in one],
    }


def test_efficiency_compares_workers_of_the_same_turn() -> None:
    # A machine that becomes twice as fast between two turns does not change the ratios.
    turns = two_workers([95.0, 190.0, 95.0], [50.0, 100.0, 50.0], [60.0, 120.0, 60.0])
    one, two = scaling_points("strong", 12, 64, 2, turns)
    assert (one.workers, one.efficiency, one.speedup, one.examples_per_second) == (
        1,
        1.0,
        1.0,
        60.0,
    )
    assert two.efficiency == pytest.approx(0.95)
    assert two.speedup == pytest.approx(95 / 60)
    assert two.independent_rate == 100.0  # both workers' rates
    assert two.cores == 2
    assert not two.oversubscribed
    assert two.cpu_utilization == [0.95, 0.95]
    assert two.rss_mib == [800, 800]


def test_weak_scaling_compares_with_one_share_of_examples() -> None:
    turns = two_workers([95.0], [50.0], [50.0])
    turns["first", 64] = [[measurement(examples_per_second=1e9)]]
    one, two = scaling_points("weak", 12, 64, 2, turns)
    assert one.batch == 32
    assert two.speedup == pytest.approx(1.9)
    assert "32 examples per worker" in paragraph(two)


@pytest.mark.parametrize(
    ("cores", "nodes", "threads", "oversubscribed"),
    [
        ([[0], [1]], ["", ""], 1, False),
        ([[0], [0]], ["", ""], 1, True),
        ([[0, 1], [0, 1]], ["", ""], 1, False),
        ([[0, 1], [0, 1]], ["a", "a"], 2, True),
        ([[0, 1], [0, 1]], ["a", "b"], 2, False),
    ],
)
def test_oversubscribed_if_a_node_has_fewer_cores_than_threads(
    cores: list, nodes: list, threads: int, oversubscribed: bool
) -> None:
    turns = two_workers([95.0], [50.0], [50.0])
    turns["", 64] = [
        [
            measurement(r, cores=cores[r], node=nodes[r], threads=threads, step_ms=ms(9))
            for r in (0, 1)
        ]
    ]
    *_, two = scaling_points("strong", 12, 64, 2, turns)
    assert two.oversubscribed is oversubscribed
    assert (main_bottleneck(two) == OVERSUBSCRIBED) is oversubscribed
    assert ("workers share" in paragraph(two)) is oversubscribed


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        ("simulate", {}),
        (
            "exchange",
            {
                "efficiency": 0.6,
                "step_ms": ms(9.0, 5.0),
                "examples_per_second": 120.0,
                "speedup": 1.2,
            },
        ),
        (
            "input",
            {
                "efficiency": 0.6,
                "step_ms": ms(9.0, 0.2, 6.0),
                "examples_per_second": 120.0,
                "speedup": 1.2,
            },
        ),
        ("other", {"efficiency": 0.6, "step_ms": ms(9.0, 0.2, 0.1, 6.0), "speedup": 1.2}),
        (CONTENTION, {"independent_rate": 160.0, "examples_per_second": 156.0, "speedup": 1.56}),
        (
            SMALL_BATCH,
            {
                "share_rate": 70.0,
                "independent_rate": 140.0,
                "examples_per_second": 136.0,
                "speedup": 1.36,
            },
        ),
        (OVERSUBSCRIBED, {"oversubscribed": True, "cores": 1, "efficiency": 0.5}),
    ],
)
def test_main_bottleneck_is_the_largest_loss(reason: str, more: dict[str, Any]) -> None:
    found = point(**more)
    assert main_bottleneck(found) == reason
    text = paragraph(found)
    assert text.startswith(f"**12 qubits, global batch 64, 2 workers: {reason}.**")
    assert "97 % 96 %" in text
    assert "800 790 MiB" in text


def test_efficiency_losses_multiply_to_the_missing_speedup() -> None:
    found = point(
        examples_per_second=110.0, independent_rate=140.0, share_rate=80.0, single_rate=100.0,
        efficiency=110 / 140, speedup=1.1,
        step_ms=ms(9.0, 3.0),
    )  # fmt: skip
    assert math.exp(-sum(efficiency_losses(found).values())) == pytest.approx(found.speedup / 2)


def test_paragraph_long_wait_gives_efficiency_without_it() -> None:
    found = point(efficiency=0.8, speedup=1.6, step_ms=ms(8.0, 1.8), wait_ms=1.5)
    assert found.efficiency_without_wait == pytest.approx(0.8 * 10 / 8.5)
    assert "1.5 ms of the exchange are waiting" in paragraph(found)
    assert "without it, the efficiency would be 0.94" in paragraph(found)
    assert "waiting" not in paragraph(point())


def test_paragraph_without_overhead_omits_examples() -> None:
    found = point(
        efficiency=0.8, speedup=1.6, step_ms=ms(0.8, 0.5), independent_step_ms=ms(1.4, 0.1)
    )
    text = paragraph(found)
    assert main_bottleneck(found) == "exchange"
    assert "Losses compared with" in text
    assert "would reach" not in text


def test_paragraph_gives_examples_for_target_efficiency() -> None:
    # 1 ms of computing for 32 examples and 1 ms of exchange: 0.95 takes 19 times the examples.
    found = point(
        qubits=8, efficiency=0.5, speedup=0.9, step_ms=ms(0.8, 1.0), independent_step_ms=ms(0.8)
    )
    assert "about 610 examples per worker would reach 0.95" in paragraph(found)
    assert "One worker is faster." in paragraph(found)


@pytest.fixture
def points() -> list[ScalingPoint]:
    """Return points of one, two and four workers on two cores."""
    return [
        point(qubits=qubits, workers=workers, oversubscribed=workers > 2,
              examples_per_second=rate * 1000 / 2**qubits,
              efficiency=1.0 if workers == 1 else 0.9 - workers / 100)
        for qubits in (8, 12)
        for workers, rate in ((1, 100.0), (2, 190.0), (4, 150.0))
    ]  # fmt: skip


@pytest.fixture
def figure(points: list[ScalingPoint], request: pytest.FixtureRequest) -> Iterator[Figure]:
    figure = getattr(scaling_plots, request.param)(points)
    yield figure
    plt.close(figure)


def connected(figure: Figure) -> list[tuple[list[float], list[float]]]:
    """Return the points on full lines."""
    lines = [one for axes in figure.axes for one in axes.lines]
    return [
        (list(one.get_xdata()), list(one.get_ydata()))
        for one in lines
        if one.get_linestyle() == "-"
    ]


def hollow(figure: Figure) -> list[tuple[list[float], list[float]]]:
    """Return the hollow points without a line."""
    lines = [one for axes in figure.axes for one in axes.lines]
    return [
        (list(one.get_xdata()), list(one.get_ydata()))
        for one in lines
        if one.get_linestyle() == "None" and one.get_markerfacecolor() == "none"
    ]


@pytest.mark.parametrize("figure", ["time"], indirect=True)
def test_time_plot_has_a_line_per_number_of_workers(
    figure: Figure, points: list[ScalingPoint]
) -> None:
    def times(workers: int) -> tuple[list[float], list[float]]:
        return [8, 12], [1e3 / one.examples_per_second for one in points if one.workers == workers]

    assert connected(figure) == [times(1), times(2)]
    assert hollow(figure) == [times(4)]


@pytest.mark.parametrize("figure", ["efficiency"], indirect=True)
def test_efficiency_plot_oversubscribed_points_have_no_line(figure: Figure) -> None:
    assert connected(figure) == [([1, 2], [1.0, 0.88])] * 2
    assert hollow(figure) == [([4], [0.86])] * 2
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels == ["8 qubits", "12 qubits", "more workers than cores: no line"]


def test_write_creates_table_plots_and_report(points: list[ScalingPoint], tmp_path: Path) -> None:
    points[1] = replace(points[1], predicted_rate=400.0)
    scaling_report.write(tmp_path, points, {8: "no pod was scheduled"}, CONDITIONS)
    for name in (scaling_plots.TIME, scaling_plots.EFFICIENCY):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert name in (tmp_path / "report.md").read_text()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "scaling.csv").read_text())))
    assert len(rows) == len(points)
    assert [row["more_workers_than_cores"] for row in rows[:3]] == ["false", "false", "true"]
    assert rows[2]["limit"] == OVERSUBSCRIBED
    assert float(rows[1]["efficiency"]) == pytest.approx(0.88)
    assert [row["predicted_examples_per_second"] for row in rows[:2]] == ["", "400.0"]
    text = (tmp_path / "report.md").read_text()
    assert "**There are 2 cores for 4 workers**" in text
    assert "**8 workers are left out**: no pod was scheduled." in text
    assert "Other programs" not in text


def test_report_warns_of_other_programs(points: list[ScalingPoint]) -> None:
    busy = [point(independent_cpu_utilization=0.5), *points]
    assert "Other programs used these cores" in scaling_report.report(busy, {}, CONDITIONS)


def test_selected_cases_explicit_settings_replace_defaults() -> None:
    cases, _ = scaling.selected_cases(
        Settings.from_args(["workers=6", "qubits=16", "batch=96"]), quick=False
    )
    assert list(cases.workers) == [1, 2, 4, 6]
    assert (cases.qubits, cases.strong, cases.weak) == ((16,), (96,), ())
    assert scaling.selected_cases(Settings.from_args([]), quick=True)[0] == scaling.QUICK


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["workers=2", "state_shards=2"], "STATE_SHARDS=2"),
        (["batch=4", "workers=4", "partitions=4"], None),
        (["batch=6"], "BATCH=6 is less than 8 workers"),
        (["workers=auto"], "WORKERS"),
    ],
)
def test_selected_cases_unusable_setting_raises(args: list[str], said: str | None) -> None:
    settings = Settings.from_args(args)
    if said is None:
        scaling.selected_cases(settings, quick=False)
        return
    with pytest.raises(SettingsError, match=said):
        scaling.selected_cases(settings, quick=False)


def test_turn_cases_are_distinct_and_reversible() -> None:
    turn = scaling.turn_cases([("weak", 64), ("strong", 64)], 2, backwards=False)
    assert turn == [
        {"batch": 64},
        {"batch": 32, "independent": "all"},
        {"batch": 32, "independent": "first"},
        {"batch": 64, "independent": "first"},
    ]
    assert scaling.turn_cases([("weak", 64), ("strong", 64)], 2, backwards=True) == turn[::-1]


def test_cpu_sets_are_disjoint_while_there_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 5, 7})
    assert cpu_sets(2) == [[2, 3], [5, 7]]
    assert cpu_sets(2, 1) == [[2], [3]]
    assert cpu_sets(6) == [[2], [3], [5], [7], [2], [3]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "CASES is not JSON"),
        ("[]", "CASES is a list"),
        ('["a"]', "a case is an object"),
        ('[{"qubits": 9999}]', "QUBITS=9999"),
        ('[{"cubits": 9}]', "cubits is not a setting"),
        ('[{"threads": 2}]', "threads is equal in all cases"),
        ('[{"seconds": 0}]', "seconds of a case"),
        ('[{"data": "moved"}]', "data of a case is one of turned"),
        ('[{"placement": "before"}]', "placement of a case is one of cluster"),
        ('[{"angles": 0}]', "angles of a case"),
        ('[{"classes": "3"}]', "classes of a case"),
        ('[{"independent": "second"}]', "independent one of"),
        ('[{"batch": 1}]', "BATCH=1 is less than WORKERS=2"),
    ],
)
def test_read_cases_invalid_case_raises(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_cases(text, [], 2)


def test_read_cases_independent_worker_has_own_batch() -> None:
    (case,) = read_cases('[{"batch": 1, "independent": "all"}]', ["seed=3"], 8)
    assert (
        case.settings.training.workers,
        case.settings.training.global_batch,
        case.settings.data.seed,
    ) == (1, 1, 3)


@pytest.mark.parametrize(
    "fields", [{"rank": "first"}, {"step_ms": [1]}, {"seconds": None}, {"cores": 2}]
)
def test_measurement_invalid_result_raises(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        measurement(**fields)


def test_measurement_missing_field_raises() -> None:
    with pytest.raises(ValueError, match="rank"):
        StepMeasurement.from_result({"case": 0})


def test_benchmark_pods_have_no_storage_and_same_security() -> None:
    values = {"run": "benchmark-1", "model": "qcnn", "workers": 3, "cpu": "1"}
    settings = Settings.from_record(values)
    trained = objects.training(settings)
    found = benchmark_objects(trained, '[{"qubits": 8}]', settings)
    assert [one["kind"] for one in found] == ["ServiceAccount", "NetworkPolicy", "TFJob"]
    worker = found[-1]["spec"]["tfReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "Never")
    assert found[-1]["spec"]["enableDynamicWorker"] is False, "a lost worker ends the job"
    before = trained[-1]["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    after = worker["template"]["spec"]
    assert {k: v for k, v in after.items() if k != "containers"} == {
        k: v for k, v in before.items() if k != "containers"
    }
    labels = worker["template"]["metadata"]["labels"]
    assert "app.kubernetes.io/part-of" not in labels, (
        "network policies of storage admit parts of qfleet"
    )
    assert labels["app.kubernetes.io/component"] == "benchmark"
    (container,) = after["containers"]
    assert container["securityContext"] == before["containers"][0]["securityContext"]
    assert container["command"][:4] == [
        "python",
        "-m",
        "training.benchmark.worker",
        '[{"qubits": 8}]',
    ]
    assert {"workers=3", "model=qcnn"} <= set(container["command"])
    assert "envFrom" not in container
    kept = {"HOME", "QFLEET_EVENTS", "QFLEET_WORKERS", "QFLEET_THREADS",
            "QFLEET_HEARTBEAT_FILE", "RENDEZVOUS_SECRET"}  # fmt: skip
    assert {one["name"] for one in container["env"]} == kept
    probed = " ".join(container["startupProbe"]["exec"]["command"])
    (file,) = (e["value"] for e in container["env"] if e["name"] == "QFLEET_HEARTBEAT_FILE")
    assert file in probed, "the pod never becomes ready without it, and has no address"
    assert "envFrom" in before["containers"][0], "the manifest of the training job is not modified"
