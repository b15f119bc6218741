"""Following a Slurm job: its state, and its log in the shared folder as it grows."""

import time
from pathlib import Path

from common.commands import command
from common.errors import EXIT_BUG, ClusterError, Preempted
from common.runs import Run
from common.runs.slurm_job import SlurmJob, decide, outcomes
from common.text import printable
from launch.console import ClientConsole
from launch.outcome import JobOutcome
from launch.slurm import client
from launch.slurm.client import JobState

POLL_SECONDS = 2.0
"""Interval between two questions to Slurm's controller, which serves all users."""

LOG_SECONDS = 0.2
LATE_LOG_SECONDS = 3.0
"""Time in which the end of a log may arrive in a network file system."""

UNREACHABLE_SECONDS = 120.0


class LogTail:
    """Prints what is appended to a file, by lines.

    Args:
        file: The file, which may not exist yet.
        console: Where to print.
    """

    def __init__(self, file: Path, console: ClientConsole) -> None:
        self.file, self._console = file, console
        self._offset, self._rest = 0, b""

    @property
    def has_read(self) -> bool:
        """True once there was something to read."""
        return self._offset > 0

    def skip(self) -> None:
        """Leave out what the file contains now."""
        if self.file.is_file():
            self._offset = self.file.stat().st_size

    def read(self) -> None:
        """Print the lines that are complete."""
        try:
            with self.file.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._console.print(printable(line.decode("utf-8", "replace"), keep="\t"))


class SlurmWatcher:
    """Follows one job to its end.

    Args:
        run: The run.
        job: Its job.
        console: Where to report.
        again: The job existed before; only new lines of its log are shown.
    """

    def __init__(self, run: Run, job: SlurmJob, console: ClientConsole, *, again: bool) -> None:
        self._run, self._job, self._console = run, job, console
        self._tail = LogTail(Path(job.log), console)
        if again:
            self._tail.skip()

    def until_end(self) -> JobOutcome:
        """Follow the job until it has ended.

        Raises:
            JobCannotStart: It would wait for ever.
            ClusterError: Slurm does not answer for too long.
        """
        reported, last = "", None
        while True:
            state = self._poll()
            if state is None:  # forgotten: it ended some time ago
                return self._outcome(last)
            last = state
            if state.state == "PENDING" and state.reason in client.HOPELESS:
                raise client.JobCannotStart(
                    f"job {self._job.slurm_id} can't start, as Slurm has no nodes for it"
                    f" ({state.reason}): change PARTITION, TIME_LIMIT, CPU, MEMORY, WORKERS or"
                    " WORKERS_PER_NODE; `sinfo` lists partitions and nodes"
                )
            if str(state) != reported:
                self._console.print(f"job {self._job.slurm_id} {state}")
                reported = str(state)
            end = time.monotonic() + (LATE_LOG_SECONDS if state.has_ended else POLL_SECONDS)
            while time.monotonic() < end and not (state.has_ended and self._is_complete()):
                self._tail.read()
                time.sleep(LOG_SECONDS)
            self._tail.read()
            if state.has_ended:
                return self._outcome(state)

    def _is_complete(self) -> bool:
        """Return True if the end of the log has arrived, as far as this can be known."""
        return self._tail.has_read and self._run.finished()

    def _poll(self) -> JobState | None:
        end, reported = time.monotonic() + UNREACHABLE_SECONDS, ""
        while True:
            try:
                return client.show(self._job.slurm_id)
            except ClusterError as error:
                if time.monotonic() > end:
                    raise
                if str(error) != reported:
                    self._console.print(f"{error}; trying again")
                reported = str(error)
                time.sleep(POLL_SECONDS)

    def _outcome(self, state: JobState | None) -> JobOutcome:
        return outcome_of(self._run, self._job, state, has_log=self._tail.has_read)


def outcome_of(run: Run, job: SlurmJob, state: JobState | None, *, has_log: bool) -> JobOutcome:
    """Return the outcome of a job that has ended.

    Args:
        run: The run.
        job: The job.
        state: Its last state; None if Slurm has forgotten it.
        has_log: Its output was found.
    """
    title = f"job {job.slurm_id}"
    again = f"run `{command('train')} TARGET=slurm {run.arguments}` to {run.continuation}"
    if run.finished():
        return JobOutcome(0, f"{title} COMPLETED; run {run.name} is finished")
    if state is None:
        return JobOutcome(
            Preempted.exit_code, f"{title} has ended, and its run is not finished; {again}"
        )
    if state.state == "CANCELLED":
        return JobOutcome(Preempted.exit_code, f"{title} was cancelled; {again}")
    if state.state != "FAILED":
        return JobOutcome(Preempted.exit_code, f"{title} ended as {state.state}; {again}")
    code = state.exit_code or EXIT_BUG
    if not has_log:
        return JobOutcome(
            2,
            f"{title} FAILED without a log in {Path(job.log).parent}: STORAGE must be a folder that"
            " this machine and all nodes share, or gs://bucket/path",
        )
    found = outcomes(run, f"{job.slurm_id}-{state.restarts}", job.workers)
    cause = decide(found, job.workers).cause if found else f"see {job.log}"
    return JobOutcome(code, f"{title} FAILED with exit code {code}: {cause}")
