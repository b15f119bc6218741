"""Studies in clusters: what trials do with the client of Kubernetes and the commands of Slurm."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.errors import ClusterError
from common.processes import heartbeats
from common.runs.slurm_job import Outcome, record_outcome
from common.settings import Settings
from launch.commands import run
from launch.slurm.array import ranges
from studies.definition import StudyDefinition
from studies.folder import StudyFolder, Trial
from studies.kubernetes_trials import KubernetesTrials, open_cluster_storage
from studies.local_trials import LocalTrials
from studies.slurm_trials import SlurmTrials
from studies.targets import parallel_trials
from studies.trial_launcher import TrialHandle, TrialOutcome, TrialRequest
from tests.support.patience import wait_until

REQUEST = TrialRequest(0, "s-0000", ["--run=s-0000"], "study-0")
EVENT = """echo '{"event":"%s","time":0,"message":"",%s}' >&${QFLEET_EVENTS#fd:}"""


def phase(name: str) -> str:
    """Return the command of a shell that emits a job's phase."""
    return EVENT % ("job_phase", f'"job":"qfleet-s-0000","phase":"{name}"')


def outcome(handle: TrialHandle) -> TrialOutcome:
    """Wait for the end of a trial."""
    wait_until(lambda: handle.poll() is not None)
    found = handle.poll()
    assert found
    return found


def define(*args: str) -> StudyDefinition:
    return StudyDefinition.from_args(["NAME=s", *args])


def start_job(script: str) -> TrialHandle:
    """Start a trial of Kubernetes whose client is a shell script."""
    return KubernetesTrials(1, ["bash", "-c", script, "client"]).start([REQUEST])[0]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"{phase('Running')}; {phase('Succeeded')}", TrialOutcome(0, "")),
        ("exit 0", TrialOutcome(0, "")),  # the run was finished before
        (f"{phase('Failed')}; echo no >&2; exit 2", TrialOutcome(2, "no")),
        (f"{phase('Running')}; echo gone >&2; exit 143", TrialOutcome(143, "gone")),
    ],
)
def test_job_ends_with_the_exit_code_of_its_client(script: str, expected: TrialOutcome) -> None:
    handle = start_job(script)
    assert outcome(handle) == expected
    handle.close()


def test_stopped_process_of_a_trial_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "LIVENESS_SECONDS", 0.3)
    program = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    (handle,) = LocalTrials(1, program).start([REQUEST])
    assert outcome(handle) == TrialOutcome(137, "killed by SIGKILL")
    handle.close()


def test_client_trains_no_finished_trial_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run may finish between the study's look at it and the client's."""
    cluster = SimpleNamespace(check=lambda: None)
    monkeypatch.setattr(run.KubeClient, "connect", lambda settings: cluster)
    monkeypatch.setattr(run.manifests, "build", lambda settings: SimpleNamespace(storage=None))
    monkeypatch.setattr(run.select, "engines", lambda *args: [])
    monkeypatch.setattr(run, "select_run", lambda *args: "s-0000-2")
    assert run.run(Settings.from_args(["TARGET=k8s", "STUDY=s", "RUN=s-0000"])) == 0


def test_client_that_fails_is_no_end_of_its_job() -> None:
    handle = start_job(f"{phase('Running')}; echo the API server >&2; exit 2")
    with pytest.raises(ClusterError, match=r"s-0000.*the API server"):
        outcome(handle)
    handle.close()


def test_job_is_running_in_some_phases_only() -> None:
    handle = start_job(f"{phase('Suspended')}; read -t 0.5 <><(:); {phase('Running')}; sleep 60")
    seen = set()

    def has_run() -> bool:
        handle.poll()
        seen.add(handle.is_running)
        return handle.is_running

    wait_until(has_run)
    assert False in seen
    handle.close()


def test_stopped_job_is_stopped_by_the_client(tmp_path: Path) -> None:
    handle = start_job(f'[[ $1 == stop ]] && echo "$@" >{tmp_path}/stopped || sleep 60')
    handle.stop()
    assert outcome(handle).exit_code == 143
    handle.close()
    assert (tmp_path / "stopped").read_text() == "stop --run=s-0000\n"


def test_cluster_storage_is_held_while_it_is_used(tmp_path: Path) -> None:
    emit = EVENT % ("storage_open", f'"storage":"{tmp_path}","emulator":""')
    settings = define("TARGET=k8s").settings
    script = f"{emit}; cat; echo closed >{tmp_path}/closed"
    with open_cluster_storage(settings, ["bash", "-c", script]) as root:
        assert root == tmp_path
        assert not (tmp_path / "closed").exists()
    with pytest.raises(ClusterError, match="no cluster"):
        open_cluster_storage(settings, ["bash", "-c", "echo no cluster >&2; exit 2"]).__enter__()


def test_cluster_runs_two_trials_with_their_own_threads() -> None:
    study = define("TARGET=slurm", "SEEDS=0..5")
    assert parallel_trials(study) == 2
    args = study.trial_args(0, {})
    assert "--workers=1" in args
    assert not any(arg.startswith("--threads") for arg in args)


@pytest.mark.parametrize(
    ("numbers", "text"), [([0], "0"), ([0, 1, 2, 5], "0-2,5"), ([3, 5, 6], "3,5-6")]
)
def test_ranges_are_those_of_sbatch(numbers: Sequence[int], text: str) -> None:
    assert ranges(numbers) == text


class FakeSlurm:
    """Slurm's commands: the queue and the ended jobs are files.

    Args:
        folder: Folder of the programs and files.
        monkeypatch: Changes PATH.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        (folder / "queue").touch()
        self.add("sbatch", f"cat >>{folder}/scripts; echo 17")
        self.add("squeue", f"cat {folder}/queue")
        forgotten = "{ echo Invalid job id >&2; exit 1; }"
        self.add("scontrol", f"cat {folder}/ended 2>/dev/null || {forgotten}")
        self.add("scancel", f'echo "$@" >>{folder}/cancelled')
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def add(self, name: str, body: str) -> None:
        """Add or replace a program."""
        program = self.folder / name
        program.write_text(f"#!/bin/bash\n{body}\n")
        program.chmod(0o755)

    @property
    def scripts(self) -> str:
        """All submitted scripts."""
        file = self.folder / "scripts"
        return file.read_text() if file.exists() else ""

    def option(self, name: str) -> str:
        """Return an option of the last script."""
        lines = [one for one in self.scripts.splitlines() if one.startswith(f"#SBATCH --{name}=")]
        return lines[-1].partition("=")[2]

    def queue(self, *tasks: tuple[int, int, str, str]) -> None:
        """Put tasks into the queue: array, task, state and reason."""
        comment = self.option("comment")
        rows = ("|".join([*map(str, task), comment]) for task in tasks)
        (self.folder / "queue").write_text("\n".join([*rows, "9|N/A|RUNNING|None|(null)"]))


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setattr("studies.slurm_trials.POLL_SECONDS", 0.0)
    (tmp_path / "bin").mkdir()
    return FakeSlurm(tmp_path / "bin", monkeypatch)


@pytest.fixture
def trials(tmp_path: Path) -> Callable[..., SlurmTrials]:
    """Return a start of a study of four trials."""

    def opened(*args: str) -> SlurmTrials:
        study = define("TARGET=slurm", "SEEDS=0,1", *(args or ("LAYERS=1,2",)))
        folder = StudyFolder(tmp_path / "runs", "s")
        folder.open(study)
        return SlurmTrials(study, folder, 3)

    return opened


def requests(*numbers: int) -> list[TrialRequest]:
    study = define("TARGET=slurm", "SEEDS=0,1", "LAYERS=1,2")
    return [
        TrialRequest(
            one,
            study.run_name(one),
            study.trial_args(one, study.combinations[one // 2]),
            study.job_id(one),
        )
        for one in numbers
    ]


def test_grid_is_one_array_with_the_settings_of_each_task(
    slurm: FakeSlurm, trials: Callable[..., SlurmTrials]
) -> None:
    launcher = trials()
    assert launcher.slots == 4
    launcher.start(requests(0, 1, 2, 3))
    assert slurm.option("array") == "0-3%3"
    assert slurm.option("job-name") == "qfleet-s"
    (line,) = [one for one in slurm.scripts.splitlines() if one.startswith("    2) ")]
    own = shlex.split(line.removeprefix("    2) settings+=(").removesuffix(") ;;"))
    assert {"--layers=2", "--seed=0", "--run=s-0002"} <= set(own)
    assert len(own) == 3
    assert 'slurm_task "study-' in slurm.scripts
    assert '-$SLURM_ARRAY_TASK_ID"' in slurm.scripts
    assert 'scontrol requeue "$job"' in slurm.scripts


def test_second_start_submits_missing_trials_only(
    slurm: FakeSlurm, trials: Callable[..., SlurmTrials]
) -> None:
    trials().start(requests(0, 1))
    slurm.queue((17, 0, "RUNNING", "None"), (17, 1, "PENDING", "Priority"))
    handles = trials().start(requests(0, 1, 3))
    assert slurm.option("array") == "3%3"
    assert [handles[0].poll(), handles[1].poll()] == [None, None]
    assert [one.is_running for one in handles[:2]] == [True, False]


def test_proposed_trials_are_arrays_of_free_slots(trials: Callable[..., SlurmTrials]) -> None:
    assert trials("SEARCH=tpe", "TRIALS=9", "LEARNING_RATE=0.1..0.2").slots == 3


def test_ended_task_has_the_outcome_of_its_workers(
    slurm: FakeSlurm, trials: Callable[..., SlurmTrials]
) -> None:
    launcher = trials()
    first, second = launcher.start(requests(0, 1))
    assert first.poll() == TrialOutcome(143, "job 17_0 ended without a result")  # forgotten
    shown = "JobId=21 ArrayJobId=17 ArrayTaskId=0 JobState=FAILED Restarts=2 ExitCode=2:0"
    (slurm.folder / "ended").write_text(shown)
    stored = launcher.folder.run(Trial(1, {}, 1, "s-0001"))
    record_outcome(stored, "21-2", 0, Outcome(2, "QUBITS"))
    found = second.poll()
    assert found is not None
    assert found.exit_code == 2
    assert "QUBITS" in found.reason


def test_completed_task_is_finished_once_its_result_is_seen(
    slurm: FakeSlurm, trials: Callable[..., SlurmTrials]
) -> None:
    """Network file systems cache folders for a while."""
    launcher = trials()
    (handle,) = launcher.start(requests(0))
    (slurm.folder / "ended").write_text("JobId=17 JobState=COMPLETED ExitCode=0:0")
    assert [handle.poll(), handle.poll()] == [None, None]
    stored = launcher.folder.run(Trial(0, {}, 0, "s-0000"))
    stored.path.mkdir()
    (stored.path / "result.json").write_text("{}")
    assert handle.poll() == TrialOutcome(0, "")


def test_array_that_is_too_long_is_one_sentence(
    slurm: FakeSlurm, trials: Callable[..., SlurmTrials]
) -> None:
    slurm.add("sbatch", "cat >/dev/null; echo Invalid job array specification >&2; exit 1")
    with pytest.raises(ClusterError, match="MaxArraySize"):
        trials().start(requests(0))


def test_task_that_waits_for_ever_ends_the_study(
    slurm: FakeSlurm, trials: Callable[..., SlurmTrials]
) -> None:
    (handle,) = trials().start(requests(0))
    slurm.queue((17, 0, "PENDING", "PartitionTimeLimit"))
    with pytest.raises(ClusterError, match="TIME_LIMIT"):
        handle.poll()
    assert (slurm.folder / "cancelled").read_text() == "17\n"


def test_stopped_task_is_cancelled(slurm: FakeSlurm, trials: Callable[..., SlurmTrials]) -> None:
    (handle,) = trials().start(requests(2))
    handle.stop()
    handle.close()
    assert (slurm.folder / "cancelled").read_text() == "17_2\n"
