"""`make scaling` from made-up measurements: efficiencies, what limits, report and plots."""

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from common.errors import SettingsError
from common.settings import Settings
from launch import objects
from launch.benchmark_manifest import benchmark_objects
from planning import scaling, scaling_plots, scaling_report
from planning.bottlenecks import (
    CROWDED,
    NEIGHBOURS,
    ROWS,
    efficiency_losses,
    main_bottleneck,
    paragraph,
)
from planning.scaling_point import ScalingPoint, scaling_points
from planning.step_measurement import MEASURED_PARTS, StepMeasurement, cpu_sets
from training import step_benchmark_worker

CONDITIONS = {
    "command": "make scaling", "when": "2026-11-21T20:00:00", "target": "local", "model": "qcnn",
    "processor": "a processor", "threads": 1, "rounds": 3,
}  # fmt: skip


def ms(simulate: float, exchange: float = 0.0, data: float = 0.1, other: float = 0.1) -> dict:
    return dict(zip(MEASURED_PARTS, (simulate, exchange, data, other), strict=True))


def line(rank: int = 0, **more: Any) -> StepMeasurement:
    said = {
        "case": 0, "rank": rank, "workers": 2, "qubits": 12, "batch": 64, "threads": 1, "split": 1,
        "alone": "", "data": "turned", "steps_per_call": 50, "steps": 100, "seconds": 1.0,
        "examples_per_second": 6400.0, "step_ms": ms(9.0, 0.8), "wait_ms": 0.3, "cpu_seconds": 0.95,
        "start_seconds": 5.0, "build_seconds": 1.5, "rss_bytes": 800 * 2**20, "cores": [rank],
    }  # fmt: skip
    return StepMeasurement.from_line(json.dumps(said | more))


def point(**more: Any) -> ScalingPoint:
    said = {
        "kind": "strong", "qubits": 12, "workers": 2, "batch": 64, "cores": 2, "crowded": False,
        "rate": 195.0, "alone": 200.0, "share": 100.0, "single": 100.0, "efficiency": 0.975,
        "ratio": 1.95, "step_ms": ms(9.0, 0.2), "wait_ms": 0.0, "alone_ms": ms(9.0),
        "cpu": [0.97, 0.96], "alone_cpu": 1.0, "rss_mib": [800, 790], "steps_per_call": 50,
    }  # fmt: skip
    return ScalingPoint(**said | more)


def gang(rates: list[float], independent: list[float], one: list[float], **more: Any) -> Any:
    """Turns of a gang of two at a global batch of 64, as `points_of` takes them."""
    return {
        ("", 64): [[line(r, examples_per_second=rate, **more) for r in (0, 1)] for rate in rates],
        ("all", 32): [
            [line(r, examples_per_second=rate, workers=1, step_ms=ms(9.0), **more) for r in (0, 1)]
            for rate in independent
        ],
        ("first", 32): [[line(examples_per_second=rate, workers=1)] for rate in one],
        ("first", 64): [[line(examples_per_second=rate, workers=1)] for rate in one],
    }


def test_efficiency_is_over_independent_workers_of_the_same_turn() -> None:
    # A machine that becomes twice as fast between two turns does not change what was seen in each.
    turns = gang([95.0, 190.0, 95.0], [50.0, 100.0, 50.0], [60.0, 120.0, 60.0])
    one, two = scaling_points("strong", 12, 64, 2, turns)
    assert (one.workers, one.efficiency, one.ratio, one.rate) == (1, 1.0, 1.0, 60.0)
    assert two.efficiency == pytest.approx(0.95)
    assert two.ratio == pytest.approx(95 / 60)
    assert two.alone == 100.0  # both workers' rates
    assert two.cores == 2
    assert not two.crowded
    assert two.cpu == [0.95, 0.95]
    assert two.rss_mib == [800, 800]


def test_in_weak_scaling_one_worker_has_its_own_examples_alone() -> None:
    turns = gang([95.0], [50.0], [50.0])
    turns["first", 64] = [[line(examples_per_second=1e9)]]
    one, two = scaling_points("weak", 12, 64, 2, turns)
    assert one.batch == 32
    assert two.ratio == pytest.approx(1.9)
    assert "32 examples a worker" in paragraph(two)


@pytest.mark.parametrize(
    ("cores", "nodes", "threads", "crowded"),
    [
        ([[0], [1]], ["", ""], 1, False),
        ([[0], [0]], ["", ""], 1, True),
        ([[0, 1], [0, 1]], ["", ""], 1, False),
        ([[0, 1], [0, 1]], ["a", "a"], 2, True),
        ([[0, 1], [0, 1]], ["a", "b"], 2, False),
    ],
)
def test_workers_outnumber_cores_where_a_machine_has_fewer_than_their_threads(
    cores: list, nodes: list, threads: int, crowded: bool
) -> None:
    turns = gang([95.0], [50.0], [50.0])
    turns["", 64] = [
        [line(r, cores=cores[r], node=nodes[r], threads=threads, step_ms=ms(9)) for r in (0, 1)]
    ]
    *_, two = scaling_points("strong", 12, 64, 2, turns)
    assert two.crowded is crowded
    assert (main_bottleneck(two) == CROWDED) is crowded
    assert ("workers share" in paragraph(two)) is crowded


@pytest.mark.parametrize(
    ("reason", "more"),
    [
        ("simulate", {}),
        ("exchange", {"efficiency": 0.6, "step_ms": ms(9.0, 5.0), "rate": 120.0, "ratio": 1.2}),
        ("input", {"efficiency": 0.6, "step_ms": ms(9.0, 0.2, 6.0), "rate": 120.0, "ratio": 1.2}),
        ("other", {"efficiency": 0.6, "step_ms": ms(9.0, 0.2, 0.1, 6.0), "ratio": 1.2}),
        (NEIGHBOURS, {"alone": 160.0, "rate": 156.0, "ratio": 1.56}),
        (ROWS, {"share": 70.0, "alone": 140.0, "rate": 136.0, "ratio": 1.36}),
        (CROWDED, {"crowded": True, "cores": 1, "efficiency": 0.5}),
    ],
)
def test_the_largest_loss_is_named(reason: str, more: dict[str, Any]) -> None:
    found = point(**more)
    assert main_bottleneck(found) == reason
    told = paragraph(found)
    assert told.startswith(f"**12 qubits, global batch 64, 2 workers: {reason}.**")
    assert "97 % 96 %" in told
    assert "800 790 MiB" in told


def test_losses_multiply_to_what_is_missing() -> None:
    found = point(
        rate=110.0, alone=140.0, share=80.0, single=100.0, efficiency=110 / 140, ratio=1.1,
        step_ms=ms(9.0, 3.0),
    )  # fmt: skip
    assert math.exp(-sum(efficiency_losses(found).values())) == pytest.approx(found.ratio / 2)


def test_it_is_said_what_of_an_exchange_is_a_wait_and_what_the_efficiency_is_without() -> None:
    found = point(efficiency=0.8, ratio=1.6, step_ms=ms(8.0, 1.8), wait_ms=1.5)
    assert found.unwaited == pytest.approx(0.8 * 10 / 8.5)
    assert "Of the exchange 1.5 ms are a wait" in paragraph(found)
    assert "without it the efficiency would be 0.94" in paragraph(found)
    assert "are a wait" not in paragraph(point())


def test_a_gang_whose_steps_took_no_longer_is_told_no_number_of_examples() -> None:
    found = point(efficiency=0.8, ratio=1.6, step_ms=ms(0.8, 0.5), alone_ms=ms(1.4, 0.1))
    said = paragraph(found)
    assert main_bottleneck(found) == "exchange"
    assert "Lost to" in said
    assert "more in a gang" not in said


def test_it_is_said_how_many_examples_an_exchange_wants() -> None:
    # 1 ms of computing for 32 examples and 1 ms of exchange: 0.95 takes 19 times the examples.
    found = point(qubits=8, efficiency=0.5, ratio=0.9, step_ms=ms(0.8, 1.0), alone_ms=ms(0.8))
    assert "about 610 examples a worker would bring 0.95" in paragraph(found)
    assert "One worker alone is faster." in paragraph(found)


@pytest.fixture
def points() -> list[ScalingPoint]:
    """Of one, two and four workers on two cores."""
    return [
        point(qubits=qubits, workers=workers, crowded=workers > 2, rate=rate * 1000 / 2**qubits,
              efficiency=1.0 if workers == 1 else 0.9 - workers / 100)
        for qubits in (8, 12)
        for workers, rate in ((1, 100.0), (2, 190.0), (4, 150.0))
    ]  # fmt: skip


@pytest.fixture
def figure(points: list[ScalingPoint], request: pytest.FixtureRequest) -> Iterator[Figure]:
    made = getattr(scaling_plots, request.param)(points)
    yield made
    plt.close(made)


def joined(figure: Figure) -> list[tuple[list[float], list[float]]]:
    """The points on full lines."""
    lines = [one for axes in figure.axes for one in axes.lines]
    return [
        (list(one.get_xdata()), list(one.get_ydata()))
        for one in lines
        if one.get_linestyle() == "-"
    ]


def single(figure: Figure) -> list[tuple[list[float], list[float]]]:
    """Those that stand on no line."""
    lines = [one for axes in figure.axes for one in axes.lines]
    return [
        (list(one.get_xdata()), list(one.get_ydata()))
        for one in lines
        if one.get_linestyle() == "None" and one.get_markerfacecolor() == "none"
    ]


@pytest.mark.parametrize("figure", ["time"], indirect=True)
def test_the_plot_of_times_has_a_line_for_each_number_of_workers(
    figure: Figure, points: list[ScalingPoint]
) -> None:
    def times(workers: int) -> tuple[list[float], list[float]]:
        return [8, 12], [1e3 / one.rate for one in points if one.workers == workers]

    assert joined(figure) == [times(1), times(2)]
    assert single(figure) == [times(4)]


@pytest.mark.parametrize("figure", ["efficiency"], indirect=True)
def test_the_plot_of_efficiencies_draws_no_line_to_workers_without_cores(figure: Figure) -> None:
    assert joined(figure) == [([1, 2], [1.0, 0.88])] * 2
    assert single(figure) == [([4], [0.86])] * 2
    labels = [text.get_text() for text in figure.legends[0].texts]
    assert labels == ["8 qubits", "12 qubits", "more workers than cores: no line"]


def test_a_folder_gets_table_plots_and_report(points: list[ScalingPoint], tmp_path: Path) -> None:
    scaling_report.write(tmp_path, points, {8: "there is no place for them"}, CONDITIONS)
    for name in (scaling_plots.TIME, scaling_plots.EFFICIENCY):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert name in (tmp_path / "report.md").read_text()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "scaling.csv").read_text())))
    assert len(rows) == len(points)
    assert [row["more_workers_than_cores"] for row in rows[:3]] == ["false", "false", "true"]
    assert rows[2]["limit"] == CROWDED
    assert float(rows[1]["efficiency"]) == pytest.approx(0.88)
    text = (tmp_path / "report.md").read_text()
    assert "**There are 2 cores for 4 workers**" in text
    assert "**8 workers are left out**: there is no place for them." in text
    assert "Other programs" not in text


def test_a_machine_that_did_something_else_is_told(points: list[ScalingPoint]) -> None:
    busy = [point(alone_cpu=0.5), *points]
    assert "Other programs used these cores" in scaling_report.report(busy, {}, CONDITIONS)


def test_what_is_said_replaces_what_is_measured() -> None:
    form, settings = scaling.selected_cases(
        Settings.from_args(["workers=6", "qubits=16", "batch=96"])
    )
    assert list(form.workers) == [1, 2, 4, 6]
    assert (form.qubits, form.strong, form.weak) == ((16,), (96,), ())
    assert settings.model.model == "qcnn"
    form, settings = scaling.selected_cases(Settings.from_args(["quick=1", "model=hybrid"]))
    assert form == scaling.QUICK
    assert settings.model.model == "hybrid"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["workers=2", "split=2"], "STATE_SHARDS=2"),
        (["batch=4", "workers=4", "lanes=4"], None),
        (["batch=6"], "BATCH=6 is less than 8 workers"),
        (["workers=auto"], "`auto`"),
    ],
)
def test_what_cannot_be_measured_is_refused(args: list[str], said: str | None) -> None:
    settings = Settings.from_args(args)
    if said is None:
        scaling.selected_cases(settings)
        return
    with pytest.raises(SettingsError, match=said):
        scaling.selected_cases(settings)


def test_a_turn_measures_each_thing_once_and_the_gang_beside_independent_workers() -> None:
    turn = scaling._turn([("weak", 64), ("strong", 64)], 2, backwards=False)
    assert turn == [
        {"batch": 64},
        {"batch": 32, "alone": "all"},
        {"batch": 32, "alone": "first"},
        {"batch": 64, "alone": "first"},
    ]
    assert scaling._turn([("weak", 64), ("strong", 64)], 2, backwards=True) == turn[::-1]


def test_workers_have_cores_of_their_own_while_there_are_enough(
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
        ('[{"qubits": 99}]', "QUBITS=99"),
        ('[{"cubits": 9}]', "cubits is not a setting"),
        ('[{"threads": 2}]', "threads is the same in all cases"),
        ('[{"seconds": 0}]', "seconds are a number"),
        ('[{"data": "moved"}]', "data is one of turned"),
        ('[{"alone": "second"}]', "alone one of all"),
        ('[{"batch": 1}]', "BATCH=1 is less than WORKERS=2"),
    ],
)
def test_a_case_that_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        step_benchmark_worker.read(text, [], 2)


def test_a_worker_by_itself_has_a_batch_of_its_own() -> None:
    (case,) = step_benchmark_worker.read('[{"batch": 1, "alone": "all"}]', ["seed=3"], 8)
    assert (
        case.settings.training.workers,
        case.settings.training.global_batch,
        case.settings.data.seed,
    ) == (1, 1, 3)


@pytest.mark.parametrize("text", ["{}", "[1]", '{"rank": 0}', "nonsense"])
def test_a_line_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not what a probe says|Expecting value"):
        StepMeasurement.from_line(text)


def test_benchmark_pods_keep_nothing_and_stay_restricted() -> None:
    values = {"run": "benchmark-1", "model": "qcnn", "workers": 3, "cpu": "1"}
    settings = Settings.from_record(values)
    trained = objects.training(settings)
    found = benchmark_objects(trained, '[{"qubits": 8}]', settings)
    assert [one["kind"] for one in found] == ["ServiceAccount", "NetworkPolicy", "TFJob"]
    worker = found[-1]["spec"]["tfReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "Never")
    before = trained[-1]["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    after = worker["template"]["spec"]
    assert {k: v for k, v in after.items() if k != "containers"} == {
        k: v for k, v in before.items() if k != "containers"
    }
    labels = worker["template"]["metadata"]["labels"]
    assert "app.kubernetes.io/part-of" not in labels, "storage lets in what is part of qfleet"
    assert labels["app.kubernetes.io/component"] == "benchmark"
    (container,) = after["containers"]
    assert container["securityContext"] == before["containers"][0]["securityContext"]
    assert container["command"][:4] == [
        "python",
        "-m",
        "training.step_benchmark_worker",
        '[{"qubits": 8}]',
    ]
    assert {"workers=3", "model=qcnn"} <= set(container["command"])
    assert "envFrom" not in container
    kept = {"HOME", "QFLEET_EVENTS", "QFLEET_WORKERS", "QFLEET_THREADS"}
    assert {one["name"] for one in container["env"]} == kept
    assert "envFrom" in before["containers"][0], "the training job itself is left alone"
