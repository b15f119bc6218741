"""Trials as tasks of array jobs of Slurm; the ID of a task is the number of its trial.

The queue is the only record of submitted arrays: their comment contains a hash of the study and its
folder. So a study that was killed at any moment finds the tasks that it has submitted.
"""

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.errors import EXIT_BUG, ClusterError, Preempted
from common.runs import Run
from common.runs.slurm_job import decide, outcomes
from common.settings import Settings
from launch.slurm import client
from launch.slurm.array import ArrayScript, QueuedTask, queued_tasks
from launch.slurm.script import JOB_PREFIX, SHARED_SECONDS
from launch.slurm.watcher import POLL_SECONDS, UNREACHABLE_SECONDS
from studies.definition import StudyDefinition
from studies.folder import StudyFolder
from studies.trial_launcher import TrialHandle, TrialOutcome, TrialRequest

STOP_SECONDS = 180.0
"""Longest time for cancelled tasks to leave their nodes; Slurm's KillWait is part of it."""


class SlurmTrials:
    """Starts trials as tasks of arrays; see `TrialLauncher`.

    A grid or a random search is one array, whose tasks Slurm starts `parallelism` at a time.
    SEARCH=tpe proposes from the results of earlier trials, so its arrays have one to `parallelism`
    tasks.

    Args:
        definition: The study.
        folder: Its folder.
        parallelism: Trials at a time.
    """

    outlives_study = True

    def __init__(self, definition: StudyDefinition, folder: StudyFolder, parallelism: int) -> None:
        self.folder = folder
        self.slots = definition.trial_count if definition.combinations else parallelism
        self._definition, self._parallelism = definition, parallelism
        text = f"{definition.fingerprint} {folder.path}"
        self._comment = f"qfleet-study-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        self._tasks: Mapping[int, QueuedTask] = {}
        self._asked = -math.inf

    def queued(self) -> Mapping[int, QueuedTask]:
        """Return the tasks of the study in the queue, by number of the trial.

        Raises:
            ClusterError: Slurm does not answer.
        """
        return queued_tasks(self._comment)

    def start(self, requests: Sequence[TrialRequest]) -> Sequence[TrialHandle]:
        """Submit an array of the trials that are not in the queue.

        Raises:
            SettingsError: Slurm refuses a setting.
            ClusterError: There is no Slurm here, or it refuses the array.
        """
        queued = self.queued()
        missing = [one for one in requests if one.number not in queued]
        submitted = self._submit(missing) if missing else 0
        self._asked = -math.inf
        jobs = {one.number: f"{submitted}_{one.number}" for one in missing}
        jobs |= {number: task.job for number, task in queued.items()}
        return [TaskTrial(self, one, jobs[one.number]) for one in requests]

    def task(self, job: str, number: int) -> QueuedTask | None:
        """Return a task of the queue, as it was POLL_SECONDS ago at most; None if it has ended.

        Raises:
            ClusterError: Slurm does not answer for too long.
            JobCannotStart: The task would wait for ever; its array is cancelled.
        """
        now = time.monotonic()
        if now - self._asked > POLL_SECONDS:
            try:
                self._tasks = self.queued()
                self._asked = now
            except ClusterError:
                if now - self._asked > UNREACHABLE_SECONDS:
                    raise
        found = self._tasks.get(number)
        if found is not None and found.state == "PENDING" and found.reason in client.HOPELESS:
            client.cancel(found.array)
            raise client.JobCannotStart(
                f"trial {number} can't start, as Slurm has no nodes for it ({found.reason}): change"
                " PARTITION, TIME_LIMIT, CPU, MEMORY, WORKERS or WORKERS_PER_NODE; `sinfo` lists"
                " partitions and nodes"
            )
        return found if found is not None and found.job == job else None

    def is_finished(self, request: TrialRequest) -> bool:
        """Return True if the run of a trial is finished."""
        return Run.at(self.folder.root, request.run).finished()

    def outcome(self, request: TrialRequest, job: str) -> TrialOutcome | None:
        """Return how a task that has left the queue ended; None while its result may be on its way.

        Raises:
            ClusterError: Slurm does not answer.
        """
        if self.is_finished(request):
            return TrialOutcome(0, "")
        state = client.show(job)
        if state is not None and state.state == "COMPLETED":
            return None
        if state is None or state.state != "FAILED":
            ended = f"as {state.state}" if state else "without a result"
            return TrialOutcome(Preempted.exit_code, f"job {job} ended {ended}")
        code, workers = state.exit_code or EXIT_BUG, self._definition.workers
        run = Run.at(self.folder.root, request.run)
        found = outcomes(run, f"{state.number}-{state.restarts}", workers)
        cause = decide(found, workers).cause if found else f"see {self._log(job)}"
        return TrialOutcome(code, f"job {job}: {cause}")

    def _submit(self, requests: Sequence[TrialRequest]) -> int:
        root = self.folder.root
        tasks = {
            one.number: Settings.from_args([*one.args, f"STORAGE={root}"]).to_args()
            for one in requests
        }
        path, name = self.folder.path, self._definition.name
        if isinstance(path, Path):
            (path / "slurm").mkdir(exist_ok=True)
        script = ArrayScript(
            settings=Settings.from_args(tasks[requests[0].number]),
            log=self._log("%A_%a"),
            folder=Path.cwd(),
            job_id=self._definition.job_id("$SLURM_ARRAY_TASK_ID"),
            name=f"{JOB_PREFIX}{name}",
            tasks=tasks,
            limit=self._parallelism,
            comment=self._comment,
            shared=(path / "study.json", f'"study": "{name}"'),
        )
        return client.submit(script.render(), script.settings)

    def _log(self, job: str) -> Path:
        path = self.folder.path
        if isinstance(path, Path):
            return path / "slurm" / f"job-{job}.log"
        return Path.cwd() / f"{JOB_PREFIX}{self._definition.name}-{job}.log"


class TaskTrial:
    """A trial in a task of an array; see `TrialHandle`.

    Args:
        trials: Its launcher.
        request: The trial.
        job: Its identity in Slurm, such as 17_3.
    """

    def __init__(self, trials: SlurmTrials, request: TrialRequest, job: str) -> None:
        self._trials, self._request, self._job = trials, request, job
        self._stopped = False
        self._completed_at: float | None = None
        self.is_running = False

    def poll(self) -> TrialOutcome | None:
        """Return how the task ended; None while it is in the queue."""
        task = self._trials.task(self._job, self._request.number)
        self.is_running = task is not None and task.state in ("RUNNING", "COMPLETING")
        if task is not None:
            return None
        if self._completed_at is None:
            outcome = self._trials.outcome(self._request, self._job)
            self._completed_at = time.monotonic()
            return outcome
        # Network file systems cache folders for a while.
        if self._trials.is_finished(self._request):
            return TrialOutcome(0, "")
        if time.monotonic() < self._completed_at + SHARED_SECONDS:
            return None
        return TrialOutcome(Preempted.exit_code, f"job {self._job} ended without a result")

    def stop(self) -> None:
        """Cancel the task; its chief saves a checkpoint."""
        self._stopped = True
        try:
            client.cancel(self._job)
        except ClusterError:
            if self._request.number in self._trials.queued():  # else it has ended meanwhile
                raise

    def close(self) -> None:
        """Wait until a cancelled task has left its nodes."""
        deadline = time.monotonic() + (STOP_SECONDS if self._stopped else 0.0)
        while time.monotonic() < deadline:
            if self._trials.task(self._job, self._request.number) is None:
                return
            time.sleep(POLL_SECONDS / 2)
