"""Local launcher: starts the workers of a run on this machine, and restarts them together.

It does what the Kubeflow operator does in a cluster. Each worker gets the TF_CONFIG of a
pod, and ends with the same exit codes. All workers restart when one is lost.
"""

import logging
import sys
import time
import uuid
from collections.abc import Sequence

from common.errors import DeadlineReached, PeerLost, StorageUnavailable
from common.events import Event, log_event
from common.processes import (
    ManagedProcess,
    ProcessGroup,
    StopSignals,
    clean_environment,
    free_ports,
)
from common.settings import Settings
from training.cluster import TF_CONFIG, ClusterSpec, loopback_addresses
from training.training_display import TrainingDisplay

log = logging.getLogger("qfleet")

PEER_EXIT_TIMEOUT_SECONDS = 30.0
"""Time for the other workers to end after one was lost; then they are killed."""

TERMINATION_GRACE_SECONDS = 20.0
"""Time for the chief to write its checkpoint after SIGTERM."""

POLL_INTERVAL_SECONDS = 0.05
FIRST_RETRYABLE_EXIT_CODE = 128

WORKER_COMMAND = (sys.executable, "-m", "training.worker")


class LocalLauncher:
    """The workers of one run on this machine.

    Args:
        settings: All settings; RUN is the exact name of the run.
        worker_command: Program of a worker; settings are appended as arguments.
    """

    def __init__(self, settings: Settings, worker_command: Sequence[str] = WORKER_COMMAND) -> None:
        self._settings = settings
        self._command = list(worker_command)
        self._name = settings.run_name
        self._job_id = settings.job.job_id or uuid.uuid4().hex
        limit = settings.fault_tolerance.deadline
        self._deadline = time.monotonic() + limit if limit else None

    def train(self) -> int:
        """Run the workers until training ends, is stopped, or failed MAX_RESTARTS + 1 times.

        Returns:
            The exit code: the first permanent one of a worker, else a retryable one, else 0.

        Raises:
            PeerLost: The workers failed too often.
        """
        with StopSignals() as signals:
            code = self._train_with_restarts(signals)
        if signals.exit_code is None:
            return code
        log.warning(f"Stopped. Run `make training RUN={self._name}` to resume from the checkpoint")
        return signals.exit_code

    def _train_with_restarts(self, signals: StopSignals) -> int:
        max_restarts = self._settings.fault_tolerance.max_restarts
        for restart in range(1, max_restarts + 2):
            code = self._run_workers(signals)
            if signals.received or not _is_restartable(code):
                return code
            if restart <= max_restarts:
                log_event(
                    "restarting",
                    f"Worker lost; restarting all workers (restart {restart} of {max_restarts})",
                    level=logging.WARNING,
                    restart=restart,
                    max_restarts=max_restarts,
                )
        if code == StorageUnavailable.exit_code:
            return code  # the workers have reported the storage and how to resume
        times = "once" if max_restarts == 0 else f"{max_restarts + 1} times"
        raise PeerLost(
            f"all workers failed {times} (MAX_RESTARTS={max_restarts}); logs:"
            f" {self._settings.job.storage}/{self._name}/text; run"
            f" `make training RUN={self._name}` again to resume from the checkpoint"
        )

    def _run_workers(self, signals: StopSignals) -> int:
        """Start all workers once, wait for them, and return the exit code that counts."""
        size = self._settings.training.workers
        with free_ports(size + 1) as (*ports, rendezvous_port):
            addresses = loopback_addresses(ports)
        with ProcessGroup() as group, TrainingDisplay() as display:
            for rank in range(size):
                self._start(group, ClusterSpec(addresses, rank), rendezvous_port)
            try:
                return _Supervision(group, display, signals).wait()
            finally:
                for process in group.processes:
                    process.kill()

    def _start(self, group: ProcessGroup, cluster: ClusterSpec, rendezvous_port: int) -> None:
        changes: dict[str, str | int] = {
            "run": self._name,
            "rendezvous_port": rendezvous_port,
            "job_id": self._job_id,
        }
        if self._settings.monitoring.profiler_port:
            changes["profiler_port"] = self._settings.monitoring.profiler_port + cluster.rank
        if self._deadline is not None:
            changes["deadline"] = max(1, round(self._deadline - time.monotonic()))
        settings = self._settings.replace(**changes)
        environment = clean_environment(QFLEET_VERBOSE=str(settings.job.verbose).lower())
        if cluster.size > 1:
            environment[TF_CONFIG] = cluster.to_config()
        group.start(
            [*self._command, *settings.to_args()], name=f"worker {cluster.rank}", env=environment
        )


class _Supervision:
    """One start of all workers: shows their events, stops them on a signal, collects exit codes."""

    def __init__(self, group: ProcessGroup, display: TrainingDisplay, signals: StopSignals) -> None:
        self._group, self._display, self._signals = group, display, signals
        self._ranks = {process.name: rank for rank, process in enumerate(group.processes)}
        self._running = set(self._ranks)
        self._codes: dict[int, int] = {}  # by rank

    def wait(self) -> int:
        """Wait for all workers, or until those left can no longer succeed."""
        kill_time: float | None = None
        terminated = False
        while self._running:
            if self._signals.received and not terminated:
                terminated, kill_time = True, time.monotonic() + TERMINATION_GRACE_SECONDS
                self._group.terminate()
            if taken := self._group.next_event(POLL_INTERVAL_SECONDS):
                self._take(*taken)
            failed = [code for code in self._codes.values() if code]
            if any(code < FIRST_RETRYABLE_EXIT_CODE for code in failed):
                break  # a permanent failure: the other workers can't change it
            if failed and kill_time is None:
                kill_time = time.monotonic() + PEER_EXIT_TIMEOUT_SECONDS
            if kill_time is not None and time.monotonic() > kill_time:
                break
        return _overall_code([self._codes[rank] for rank in sorted(self._codes)])

    def _take(self, process: ManagedProcess, event: Event) -> None:
        rank = self._ranks[process.name]
        if event.kind != "exit":
            self._display.show(event)
            return
        self._running.discard(process.name)
        code = event.integer("exit_code")
        self._codes[rank] = code
        if code >= FIRST_RETRYABLE_EXIT_CODE and not self._signals.received:
            log_event(
                "worker_lost",
                f"Worker {rank} ended: {process.describe_exit()}",
                level=logging.DEBUG,
                worker=rank,
                exit_code=code,
            )


def _is_restartable(code: int) -> bool:
    return code >= FIRST_RETRYABLE_EXIT_CODE and code != DeadlineReached.exit_code


def _overall_code(codes: Sequence[int]) -> int:
    """Return the exit code of the workers' group from those of workers, by rank.

    PeerLost is only a symptom, so another worker's code is preferred. The chief's code comes first,
    because only the chief observes the deadline.
    """
    failed = [code for code in codes if code]
    permanent = [code for code in failed if code < FIRST_RETRYABLE_EXIT_CODE]
    causes = [code for code in failed if code != PeerLost.exit_code]
    return (permanent or causes or failed or [0])[0]
