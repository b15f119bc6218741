"""Trials as processes of this machine; one that is stopped or stuck is killed."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common import storage
from common.processes import Heartbeats, ManagedProcess, clean_environment
from common.settings.launcher_variables import HEARTBEAT_FILE, JOB_ID
from qfleet.engine import gpus
from studies.trial_launcher import TrialHandle, TrialOutcome, TrialRequest

TRIAL_COMMAND = (sys.executable, "-m", "training")

TERMINATION_GRACE_SECONDS = 45.0
"""Time for all trials to write a checkpoint and end after SIGTERM; workers have 30 s of it."""


class ProcessTrial:
    """A trial in a process; see `TrialHandle`.

    Args:
        command: Program of a trial.
        request: The trial.
    """

    is_running = True

    def __init__(self, command: Sequence[str], request: TrialRequest) -> None:
        self._folder = storage.temporary_folder()
        file = Path(self._folder.name, "heartbeat")
        own = {HEARTBEAT_FILE: str(file), JOB_ID: request.job_id, **_gpus(request)}
        self._process = ManagedProcess(
            [*command, *request.args],
            name=f"trial {request.run}",
            env=clean_environment(**own),
            stdout="discard",
            stderr="capture",
        )
        self._heartbeats = Heartbeats()
        self._heartbeats.watch(self._process, file)
        self._stop_deadline: float | None = None

    def poll(self) -> TrialOutcome | None:
        """Return how the process ended; None while it has not."""
        self._heartbeats.kill_silent()
        self._process.discard_events()
        code = self._process.exit_code
        if code is None:
            return None
        return TrialOutcome(code, self._process.failure if code else "")

    def stop(self) -> None:
        """Send SIGTERM."""
        self._stop_deadline = time.monotonic() + TERMINATION_GRACE_SECONDS
        self._process.terminate()

    def close(self) -> None:
        """Wait for the end of the process; SIGKILL after the grace time."""
        if self._stop_deadline is None:
            self.stop()
        assert self._stop_deadline is not None
        self._process.stop(self._stop_deadline - time.monotonic())
        self._folder.cleanup()


class LocalTrials:
    """Starts trials as processes of this machine; see `TrialLauncher`.

    Args:
        slots: Trials at a time.
        command: Program of a trial; settings are appended as arguments.
    """

    outlives_study = False

    def __init__(self, slots: int, command: Sequence[str] = TRIAL_COMMAND) -> None:
        self.slots = slots
        self._command = command

    def start(self, requests: Sequence[TrialRequest]) -> Sequence[TrialHandle]:
        """Start a process for each trial."""
        return [ProcessTrial(self._command, one) for one in requests]


def _gpus(trial: TrialRequest) -> dict[str, str]:
    """Return the variables by which trials side by side begin with different GPUs."""
    is_chosen = any(arg.startswith("--device=cuda:") for arg in trial.args)
    return {} if is_chosen else gpus.visible_from(trial.number)
