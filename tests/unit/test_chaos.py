"""Schedules of faults, what is observed of a job, and the report."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from chaos.__main__ import Options
from chaos.campaign import SUCCEEDED, Campaign, JobResult, same_state, watch
from chaos.report import Report, summary
from chaos.schedule import MAX_FAULTS, WORKERS, Fault, FaultKind, Schedule, draw
from common.checkpoints import Checkpoint
from common.errors import RunError, SettingsError
from common.events import Event

KILL = FaultKind("SIGKILL")
PAUSE = FaultKind("pause", durations=(2.0, 3.0))
STORAGE = FaultKind("storage down", of_workers=False, durations=(1.0, 9.0))
KINDS = (KILL, PAUSE, STORAGE)


def event(kind: str, **fields: int) -> Event:
    return Event(kind, 0.0, fields=fields)


class ScriptedJob:
    """A job whose events follow a script: one entry per poll.

    The first `targets_after` tries of a fault do not find a target.
    """

    def __init__(self, script: Sequence[list[Event]], *, targets_after: int = 0) -> None:
        self._script, self._targets_after = list(script), targets_after
        self.tried: list[Fault] = []
        self.undone: list[Fault] = []
        self.closed = False

    def poll(self) -> list[Event]:
        return self._script.pop(0) if self._script else []

    def apply(self, fault: Fault) -> bool:
        self.tried.append(fault)
        return len(self.tried) > self._targets_after

    def undo(self, fault: Fault) -> None:
        self.undone.append(fault)

    def outcome(self) -> str:
        return "" if self._script else SUCCEEDED

    def close(self) -> None:
        self.closed = True


class Place:
    name = "scripted"
    kinds = KINDS
    limit_seconds = 60.0


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.campaign.POLL_SECONDS", 0.01)


def test_draw_is_reproducible_and_differs_by_seed_and_job() -> None:
    drawn = [draw(seed, job, KINDS, 5.0, 20.0) for seed in (1, 2) for job in range(20)]
    assert drawn == [draw(seed, job, KINDS, 5.0, 20.0) for seed in (1, 2) for job in range(20)]
    assert len({schedule.faults for schedule in drawn}) == len(drawn)


def test_draw_covers_all_moments_workers_and_kinds() -> None:
    drawn = [draw(3, job, KINDS, 5.0, 20.0) for job in range(300)]
    faults = [fault for schedule in drawn for fault in schedule.faults]
    assert {schedule.workers for schedule in drawn} == set(WORKERS)
    assert {len(schedule.faults) for schedule in drawn} == set(range(1, MAX_FAULTS + 1))
    assert {fault.kind for fault in faults} == {kind.name for kind in KINDS}
    assert {len(fault.ranks) for fault in faults} == {0, 1, 2, 3, 4}
    assert min(fault.at for fault in faults) < 1 < 20 < max(fault.at for fault in faults)
    for schedule in drawn:
        assert list(schedule.faults) == sorted(schedule.faults, key=lambda fault: fault.at)
        assert all(rank < schedule.workers for fault in schedule.faults for rank in fault.ranks)


def test_watch_measures_recovery_and_repeated_epochs() -> None:
    schedule = Schedule(0, 2, (Fault("SIGKILL", 0.05, (1,)),))
    started = [event("run_started", attempt=1), event("epoch", epoch=3)]
    resumed = [event("run_resumed", attempt=2)]
    progress = [event("epoch", epoch=3)]
    job = ScriptedJob([started, *[[]] * 10, resumed, *[[]] * 10, progress])
    result = watch(job, schedule, Place())  # type: ignore[arg-type]
    assert result.outcome == SUCCEEDED
    assert (result.attempts, result.repeated_epochs) == (2, 1)
    assert result.applied == list(schedule.faults)
    (recovery,) = result.recoveries
    assert 0.1 < recovery < 5
    assert job.closed


def test_watch_ends_lasting_faults() -> None:
    fault = Fault("pause", 0.0, (0,), seconds=0.1)
    job = ScriptedJob([[]] * 30)
    assert watch(job, Schedule(0, 2, (fault,)), Place()).applied == [fault]  # type: ignore[arg-type]
    assert job.undone == [fault]


def test_watch_repeats_a_fault_until_it_finds_its_target() -> None:
    fault = Fault("pause", 0.0, (0,), seconds=0.1)
    job = ScriptedJob([[]] * 30, targets_after=5)
    assert watch(job, Schedule(0, 2, (fault,)), Place()).applied == [fault]  # type: ignore[arg-type]
    assert job.tried == [fault] * 6
    assert job.undone == [fault]
    missed = ScriptedJob([[]] * 3, targets_after=100)
    assert watch(missed, Schedule(0, 2, (fault,)), Place()).applied == []  # type: ignore[arg-type]
    assert missed.undone == []


def test_watch_ends_a_job_that_does_not_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Place, "limit_seconds", 0.2)
    job = ScriptedJob([[]] * 10_000)
    result = watch(job, Schedule(0, 2, ()), Place())  # type: ignore[arg-type]
    assert "not finished" in result.outcome
    assert not result.passed
    assert 0.1 < result.silence < 5
    assert job.closed


def test_same_state_sees_one_bit() -> None:
    one = Checkpoint(5, {"model/0": np.arange(4.0)}, {})
    other = Checkpoint(5, {"model/0": np.nextafter(np.arange(4.0), 9.0)}, {})
    assert same_state(one, Checkpoint(5, {"model/0": np.arange(4.0)}, {}))
    assert not same_state(one, other)
    assert not same_state(one, Checkpoint(6, one.arrays, {}))
    assert not same_state(one, None)


def result(job: int, *, equal: bool = True) -> JobResult:
    fault = Fault("SIGKILL", 1.0, (1,))
    return JobResult(
        Schedule(job, 2, (fault,)), SUCCEEDED, equal, True, [fault], 30.0, [4.0 + job], 2, 1, 3.0
    )


def test_report_appends_and_names_what_did_not_pass(tmp_path: Path) -> None:
    Report(tmp_path).add("local", "1.0", 7, result(0))
    again = Report(tmp_path)
    again.add("local", "1.0", 7, result(1, equal=False))
    assert again.next_job("local", 7) == 2
    assert again.next_job("cluster", 7) == again.next_job("local", 8) == 0
    numbers = summary(again.entries())
    assert (numbers["jobs"], numbers["passed"], numbers["median seconds to recover"]) == (2, 1, 4.5)
    page = (tmp_path / "RESULTS.md").read_text()
    assert "| local | 1.0 | 7 | 2 | 1 |" in page
    assert "job 1, 2 workers: SIGKILL of 1 at 1.0 s. finished in 30 s, DIFFERENT WEIGHTS" in page


def test_report_with_damaged_lines_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"seed": 1}\n')
    with pytest.raises(RunError, match="damaged"):
        Report(tmp_path).entries()


def test_options_accept_settings_of_jobs() -> None:
    options = Options.parse(["JOBS=3", "SEED=5", "TARGET=k8s", "EPOCHS=9", "REPORT=/tmp/x"])
    assert (options.jobs, options.seed, options.target) == (3, 5, "k8s")
    assert (options.settings, options.report) == (("EPOCHS=9",), Path("/tmp/x"))
    assert Options.parse([]).seed != Options.parse([]).seed


@pytest.mark.parametrize("arg", ["JOBS=0", "JOBS=x", "SEED=-1", "TARGET=moon", "JOBS", "CPU=4"])
def test_options_refuse_bad_values(arg: str) -> None:
    with pytest.raises(SettingsError, match=arg.partition("=")[0]):
        Options.parse([arg])


def test_campaign_with_failing_calm_job_is_refused() -> None:
    class Broken(ScriptedJob):
        def outcome(self) -> str:
            return "exit code 2: BATCH is wrong"

    class BrokenPlace(Place):
        def start(self, run: str, workers: int) -> ScriptedJob:
            return Broken([])

    campaign = Campaign(BrokenPlace(), 1, lambda line: None)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="BATCH is wrong"):
        list(campaign.run(0, 1))


def test_job_without_faults_is_repeated_by_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    polls = {"chaos-10-0": 3}
    started = []

    class FastPlace(Place):
        def start(self, run: str, workers: int) -> ScriptedJob:
            started.append(run)
            return ScriptedJob([[event("epoch", epoch=1)]] * polls.get(run, 60))

    end = Checkpoint(5, {"model/0": np.arange(4.0)}, {}), [1]
    monkeypatch.setattr(Campaign, "_final_state", lambda self, run: end)
    campaign = Campaign(FastPlace(), 10, lambda line: None)  # type: ignore[arg-type]
    (result,) = campaign.run(0, 1)
    assert started[-2:] == ["chaos-10-0", "chaos-10-0-1"]
    assert result.applied
    assert result.passed
