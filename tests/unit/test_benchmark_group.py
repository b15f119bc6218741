"""Groups of benchmark workers, with processes that only emit events."""

import json
import sys
from typing import Any

import pytest

from common.environments import ROOT
from common.errors import PeerLost, SettingsError
from common.processes import ProcessGroup
from common.settings import Settings
from planning import benchmark_group
from planning.benchmark_group import collect_measurements
from planning.step_measurement import StepMeasurement, common_arguments
from training.step.constants import STEP_PARTS

PROGRAM = """
import json, sys, time
from common import events
for kind, fields in json.loads(sys.argv[1]):
    events.emit(kind, fields.pop("message", ""), **fields)
if sys.argv[2] == "hang":
    time.sleep(60)
sys.exit(int(sys.argv[2]))
"""


def result(rank: int = 0, **fields: Any) -> dict[str, Any]:
    values = {
        "case": 0, "rank": rank, "workers": 2, "qubits": 4, "batch": 8, "threads": 1,
        "state_shards": 1, "independent": "", "data": "turned", "steps_per_call": 5,
        "host_seconds": 0.004, "steps": 10,
        "seconds": 1.0, "examples_per_second": 80.0, "step_ms": dict.fromkeys(STEP_PARTS, 1.0),
        "wait_ms": 0.0, "cpu_seconds": 0.9, "start_seconds": 1.0, "build_seconds": 1.0,
        "rss_bytes": 2**29, "cores": [rank],
    }  # fmt: skip
    return values | fields


def measurement(rank: int = 0) -> tuple[str, dict[str, Any]]:
    return "measurement", {"result": result(rank)}


def collect(*processes: tuple[list[tuple[str, dict[str, Any]]], str]) -> list[StepMeasurement]:
    """Run processes that emit events and end with an exit code; return their measurements."""
    with ProcessGroup(grace_seconds=1.0) as group:
        for events, end in processes:
            group.start(
                [sys.executable, "-c", PROGRAM, json.dumps(events), end],
                name="worker", cwd=ROOT, stdout="capture", stderr="capture",
            )  # fmt: skip
        return collect_measurements(group, None)


def test_collect_returns_measurements_of_all_workers() -> None:
    collected = collect(([measurement(0)], "0"), ([measurement(1)], "0"))
    assert {one.rank for one in collected} == {0, 1}


def test_collect_adds_the_nodes_of_pods() -> None:
    events = [measurement(0), measurement(1), ("nodes", {"nodes": ["a", "b"]})]
    assert [one.node for one in collect((events, "0"))] == ["a", "b"]


def test_collect_permanent_failure_ends_the_others() -> None:
    error = ("error", {"message": "QUBITS=40 is not allowed", "exit_code": 2})
    with pytest.raises(SettingsError, match=r"^QUBITS=40 is not allowed$"):
        collect(([], "hang"), ([error], "2"))


def test_collect_prefers_the_lowest_exit_code() -> None:
    lost = ("error", {"message": "worker 1 was lost", "exit_code": PeerLost.exit_code})
    refused = ("error", {"message": "BATCH=0 is not allowed", "exit_code": 2})
    with pytest.raises(SettingsError, match="BATCH"):
        collect(([lost], str(PeerLost.exit_code)), ([refused], "2"))


def test_collect_retryable_failure_raises_peer_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_group, "PEER_EXIT_TIMEOUT_SECONDS", 0.2)
    lost = ("error", {"message": "worker 1 was lost", "exit_code": PeerLost.exit_code})
    with pytest.raises(PeerLost, match="worker 1"):
        collect(([], "hang"), ([lost], str(PeerLost.exit_code)))


def test_collect_bug_raises_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="worker failed"):
        collect(([], "1"))


def test_collect_without_events_raises_peer_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_group, "EVENT_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(PeerLost, match="no benchmark worker emitted an event"):
        collect(([], "hang"))


@pytest.mark.parametrize("args", [[], ["NOISE=depolarizing:0.01", "TRAJECTORIES=5", "SHOTS=10"]])
def test_common_arguments_give_equal_settings(args):
    settings = Settings.from_args(args)
    again = Settings.from_args(common_arguments(settings))
    assert again.model == settings.model
