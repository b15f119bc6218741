"""The parent of a worker in Slurm, and the exit code of one start of a job."""

import os
import sys
from pathlib import Path

import pytest

from common.errors import SettingsError
from common.processes import heartbeats
from common.runs import Run
from common.runs.slurm_job import Outcome, outcomes, record_outcome
from training.launcher import slurm_outcome, slurm_task

VARIABLES = {
    "SLURM_JOB_ID": "41",
    "SLURM_RESTART_COUNT": "1",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_CPUS_PER_TASK": "3",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the run of the job whose variables are set."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    arguments = ["TARGET=slurm", f"STORAGE={tmp_path}", "RUN=r", "WORKERS=2"]
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    return Run.at(tmp_path, "r")


def start_worker(body: str) -> int:
    """Run a worker with this body, and return the exit code of its parent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["program", "id", *sys.argv[1:]])
        return slurm_task.main([sys.executable, "-c", f"import os, sys, json, signal\n{body}"])


def test_exit_code_and_cause_are_recorded(run: Run) -> None:
    assert start_worker("print('QUBITS is wrong', file=sys.stderr); sys.exit(2)") == 2
    recorded = outcomes(run, "41-1", 2)
    assert recorded.keys() == {1}
    assert recorded[1].exit_code == 2


def test_killed_worker_has_an_outcome(run: Run) -> None:
    assert start_worker("os.kill(os.getpid(), signal.SIGKILL)") == 137
    assert outcomes(run, "41-1", 2)[1] == Outcome(137, "killed by SIGKILL")


def test_worker_gets_its_cluster_ports_and_threads(run: Run) -> None:
    body = (
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "ports = [int(one.split(':')[1]) for one in config['cluster']['worker']]\n"
        "given = dict(one.lstrip('-').split('=', 1) for one in sys.argv[1:])\n"
        "good = config['task']['index'] == 1 and given['threads'] == '3'\n"
        "good &= os.environ['QFLEET_JOB_ID'] == 'id'\n"
        "good &= ports == [int(given['rendezvous-port']) + rank for rank in (1, 2)]\n"
        "sys.exit(not good)"
    )
    assert start_worker(body) == 0


def test_sigterm_reaches_the_worker(run: Run) -> None:
    body = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        f"os.kill({os.getpid()}, signal.SIGTERM)\n"
        "signal.pause()"
    )
    assert start_worker(body) == 143


def test_silent_worker_is_killed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "LIVENESS_SECONDS", 0.3)
    assert start_worker("signal.pause()") == 137


def test_outside_of_slurm_is_a_settings_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_PROCID")
    with pytest.raises(SettingsError, match="TARGET=slurm"):
        start_worker("")


@pytest.mark.parametrize(
    ("codes", "step_code", "expected"),
    [((0, 0), 0, 0), ((143, 2), 143, 2), ((138, 137), 138, 137), ((), 1, 1), ((), 0, 137)],
)
def test_outcome_of_a_start_is_the_exit_code(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    codes: tuple[int, ...],
    step_code: int,
    expected: int,
) -> None:
    """Without any outcome, the code of srun counts: what can't start is not requeued for ever."""
    monkeypatch.setenv("STEP_EXIT_CODE", str(step_code))
    for rank, code in enumerate(codes):
        record_outcome(run, "41-1", rank, Outcome(code, ""))
    assert slurm_outcome.main() == expected


def test_finished_run_is_success(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEP_EXIT_CODE", "143")
    record_outcome(run, "41-1", 0, Outcome(143, ""))
    assert isinstance(run.path, Path)
    (run.path / "result.json").write_text("{}")
    assert slurm_outcome.main() == 0
