"""Trials as training jobs of a Kubernetes cluster, by the cluster client in its environment.

A job has the name of its trial's run. The client follows a job that exists already, so a study that
starts again never submits a trial twice. The end of a client leaves its job.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence

from common import events, storage
from common.environments import ROOT, cluster_client_command
from common.errors import ClusterError, Preempted, RetryableError
from common.processes import ManagedProcess
from common.settings import Settings
from common.settings.programs import selected, used_anywhere
from common.storage import EMULATOR, StoragePath
from studies.trial_launcher import TrialHandle, TrialOutcome, TrialRequest

STOP_SECONDS = 150.0
"""Longest time for the client to stop a job: its pods have 30 s to write a checkpoint."""

FOLLOWER_GRACE_SECONDS = 5.0
FINAL_PHASES = ("Succeeded", "Failed")

PLACE = (
    "target", "context", "namespace", "overlay", "job_api", "storage", "image", "service_account",
)  # fmt: skip
"""Settings that select the cluster and its storage."""

_TRAINING_PHASES = ("Running", "Restarting")


class JobTrial:
    """A trial in a job; see `TrialHandle`.

    Args:
        request: The trial.
        client: Command of the cluster client.
    """

    def __init__(self, request: TrialRequest, client: Sequence[str]) -> None:
        self._request, self._client = request, client
        self._phase = ""
        self._follower = _start_client(client, "run", request.args)
        self._stopper: ManagedProcess | None = None

    @property
    def is_running(self) -> bool:
        """True while the job has pods; a queue such as Kueue's suspends it before."""
        return self._phase in _TRAINING_PHASES

    def poll(self) -> TrialOutcome | None:
        """Return how the job ended; None while it has not.

        Raises:
            ClusterError: The client can't start or follow the job.
        """
        if self._stopper is not None:
            return self._poll_stop(self._stopper)
        while event := self._follower.next_event(0.0):
            if event.kind == "job_phase":
                self._phase = event.text("phase")
        code = self._follower.exit_code
        if code is None:
            return None
        reason = self._follower.failure
        has_ended = self._phase in FINAL_PHASES or code >= RetryableError.exit_code
        if code and not has_ended:
            raise ClusterError(f"trial {self._request.run} can't be followed: {reason}")
        return TrialOutcome(code, reason if code else "")

    def _poll_stop(self, stopper: ManagedProcess) -> TrialOutcome | None:
        stopper.discard_events()
        if stopper.exit_code is None:
            return None
        return TrialOutcome(Preempted.exit_code, "the study stopped it")

    def stop(self) -> None:
        """Delete the job; the chief saves a checkpoint."""
        if self._stopper is None:
            self._follower.terminate()
            args = selected(self._request.args, used_anywhere("cluster stop"))
            self._stopper = _start_client(self._client, "stop", args)

    def close(self) -> None:
        """End the clients; one that stops the job is waited for."""
        self._follower.stop(FOLLOWER_GRACE_SECONDS)
        if self._stopper is None:
            return
        with contextlib.suppress(TimeoutError):
            self._stopper.wait(STOP_SECONDS)
        if self._stopper.exit_code:  # it had ended and was removed, or the cluster is unreachable
            text = f"{self._request.run} was not stopped: {self._stopper.failure}"
            events.emit("log", text, level="WARNING")
        self._stopper.stop(0.0)


class KubernetesTrials:
    """Starts trials as jobs of a cluster; see `TrialLauncher`.

    Args:
        slots: Trials at a time.
        client: Command of the cluster client.
    """

    outlives_study = True

    def __init__(self, slots: int, client: Sequence[str] = ()) -> None:
        self.slots = slots
        self._client = client or cluster_client_command()

    def start(self, requests: Sequence[TrialRequest]) -> Sequence[TrialHandle]:
        """Start a client for each trial, which submits the job or follows it."""
        return [JobTrial(one, self._client) for one in requests]


@contextlib.contextmanager
def open_cluster_storage(settings: Settings, client: Sequence[str] = ()) -> Iterator[StoragePath]:
    """Provide STORAGE of the cluster's jobs, until the context ends.

    Args:
        settings: OVERLAY, STORAGE and the cluster.
        client: Command of the cluster client.

    Raises:
        ClusterError: The cluster or its storage can't be reached.
    """
    place = [f"{name}={settings.get(name)}" for name in PLACE if name in settings.explicit]
    command = [*(client or cluster_client_command()), "storage", *place]
    with ManagedProcess(command, cwd=ROOT, stdin=True, stdout="discard", stderr="capture") as held:
        for event in held.events():
            if event.kind == "storage_open":
                _set_emulator(event.text("emulator"))
                yield storage.path(event.text("storage"))
                held.close_stdin()
                return
        raise ClusterError(held.failure)


def _set_emulator(address: str) -> None:
    if address:
        os.environ[EMULATOR] = address
    else:
        os.environ.pop(EMULATOR, None)


def _start_client(client: Sequence[str], command: str, args: Sequence[str]) -> ManagedProcess:
    return ManagedProcess(
        [*client, command, *args], name="cluster client", cwd=ROOT, stdout="discard",
        stderr="capture",
    )  # fmt: skip
