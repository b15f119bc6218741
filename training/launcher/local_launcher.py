"""Local launcher: starts the workers of a run on this machine, and restarts them together.

It does what the Kubeflow operator does in a cluster. Each worker gets the TF_CONFIG of a
pod, and ends with the same exit codes. All workers restart when one is lost. One that does not
touch its heartbeat file is killed, as the kubelet does it.

On Linux, workers listen on the loopback interface only (qfleet/native/process/loopback.cc).
"""

import logging
import os
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from common import devices, runs, storage
from common.commands import command
from common.errors import (
    DeadlineReached,
    PeerLost,
    SettingsError,
    StorageUnavailable,
)
from common.events import Event, log_event
from common.processes import (
    Heartbeats,
    ManagedProcess,
    ProcessGroup,
    StopSignals,
    clean_environment,
    cpu_count,
    cpu_sets,
    free_ports,
)
from common.settings import Settings
from common.settings.launcher_variables import HEARTBEAT_FILE, JOB_ID, job_id
from qfleet.native.libraries import process_path
from training.cluster.spec import TF_CONFIG, ClusterSpec, loopback_addresses
from training.launcher.training_display import TrainingDisplay

log = logging.getLogger("qfleet")

PEER_EXIT_TIMEOUT_SECONDS = 15.0
"""Time for the other workers to end after one was lost; then they are killed. The chief saves the
last step boundary in it."""

START_EXIT_TIMEOUT_SECONDS = 3.0
"""The same before the first step, where there is nothing to save."""

ERROR_WAIT_SECONDS = 4.0
"""Time in which the other workers' errors may come before one of them is shown."""

TERMINATION_GRACE_SECONDS = 30.0
"""Time for the chief to write its checkpoint after SIGTERM."""

_TRAINING_EVENTS = ("progress", "epoch", "checkpoint_saved")

POLL_INTERVAL_SECONDS = 0.05
PRELOAD, LIBRARY_PATH = "LD_PRELOAD", "LD_LIBRARY_PATH"
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
        self._job_id = job_id() or uuid.uuid4().hex
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
        log.warning(
            f"Stopped. Run `{command('train')} {self._run.arguments}` to {self._run.continuation}"
        )
        return signals.exit_code

    @property
    def _run(self) -> runs.Run:
        return runs.Run.at(storage.path(self._settings.job.storage), self._name)

    def worker_cpus(self) -> list[list[int]]:
        """Return the CPUs of each worker; none to leave that to the system.

        Workers that wait for each other in every step lose a third of a short step where the
        system moves their threads.
        """
        workers, threads = self._settings.training.workers, self._settings.training.threads
        cpus = cpu_sets(workers)
        if workers == 1 or workers > cpu_count() or threads > len(cpus[0]):
            return [[]] * workers
        return cpus

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
            f" `{command('train')} {self._run.arguments}` again to {self._run.continuation}"
        )

    def _run_workers(self, signals: StopSignals) -> int:
        """Start all workers once, wait for them, and return the exit code that counts."""
        size = self._settings.training.workers
        with (
            free_ports(size + 1) as (*ports, rendezvous_port),
            storage.temporary_folder() as folder,
            ProcessGroup() as group,
            TrainingDisplay() as display,
        ):
            addresses = loopback_addresses(ports)
            files = [Path(folder, f"worker-{rank}") for rank in range(size)]
            cpus, places = self.worker_cpus(), devices.assign(self._settings, size)
            for rank, file in enumerate(files):
                file.touch()
                cluster = ClusterSpec(addresses, rank)
                self._start(group, cluster, rendezvous_port, file, cpus[rank], places[rank])
            try:
                return _Supervision(group, files, display, signals).wait()
            finally:
                for process in group.processes:
                    process.kill()

    def _start(
        self,
        group: ProcessGroup,
        cluster: ClusterSpec,
        rendezvous_port: int,
        heartbeat_file: Path,
        cpus: Sequence[int],
        device: str,
    ) -> None:
        changes: dict[str, str | int] = {
            "run": self._name,
            "rendezvous_port": rendezvous_port,
        }
        if self._settings.monitoring.profiler_port:
            changes["profiler_port"] = self._settings.monitoring.profiler_port + cluster.rank
        if cpus:
            changes["threads"] = self._settings.training.threads or len(cpus)
        if self._deadline is not None:
            changes["deadline"] = max(1, round(self._deadline - time.monotonic()))
        settings = self._settings.replace(**changes)
        # TensorFlow's temporary files of a killed worker are removed with the heartbeat files.
        environment = clean_environment(
            QFLEET_VERBOSE=str(settings.job.verbose).lower(),
            TMPDIR=str(heartbeat_file.parent),
            **{HEARTBEAT_FILE: str(heartbeat_file), JOB_ID: self._job_id},
            **{devices.VARIABLE: device},
            **loopback_environment(),
        )
        if cluster.size > 1:
            environment[TF_CONFIG] = cluster.to_config()
        group.start(
            [*self._command, *settings.to_args()],
            name=f"worker {cluster.rank}",
            env=environment,
            cpus=cpus,
        )


def loopback_environment() -> dict[str, str]:
    """Return the variables with which a process listens on the loopback interface only.

    Empty where the library is not built, and on other systems than Linux, which have no LD_PRELOAD.
    """
    library = process_path()
    if sys.platform != "linux" or not library.is_file():
        return {}
    folder = str(library.parent)
    if not {":", ";"}.isdisjoint(folder):
        raise SettingsError(
            f"the folder {folder} has a colon or a semicolon in its name, so that TensorFlow would"
            " listen on all network interfaces: move qfleet to another folder"
        )
    # The loader splits LD_PRELOAD at blanks, but not the folders in which it looks for the file.
    values = {PRELOAD: library.name, LIBRARY_PATH: folder}
    return {
        name: ":".join(filter(None, [own, os.environ.get(name)])) for name, own in values.items()
    }


class _Supervision:
    """One start of all workers: shows their events, stops them on a signal, collects exit codes."""

    def __init__(
        self,
        group: ProcessGroup,
        heartbeat_files: Sequence[Path],
        display: TrainingDisplay,
        signals: StopSignals,
    ) -> None:
        self._group, self._display, self._signals = group, display, signals
        self._ranks = {process.name: rank for rank, process in enumerate(group.processes)}
        self._running = set(self._ranks)
        self._codes: dict[int, int] = {}  # by rank
        self._left_out: set[int] = set()  # ranks that the chief started without (MIN_WORKERS)
        self._heartbeats = Heartbeats()
        for process, file in zip(group.processes, heartbeat_files, strict=True):
            self._heartbeats.watch(process, file)
        self._errors: dict[int, Event] = {}  # the first one of each rank, not shown yet
        self._error_time = 0.0  # when the first of them came
        self._reported = False
        self._trained = False
        self._refused = False  # a worker has reported a permanent failure

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
            self._heartbeats.kill_silent()
            failed = [code for code in self._codes.values() if code]
            if any(map(_is_permanent, failed)) and not terminated:
                terminated, kill_time = True, time.monotonic() + START_EXIT_TIMEOUT_SECONDS
                self._group.terminate()  # the other workers can't change it, and record their end
            if failed and kill_time is None:
                seconds = PEER_EXIT_TIMEOUT_SECONDS if self._trained else START_EXIT_TIMEOUT_SECONDS
                kill_time = time.monotonic() + seconds
            if kill_time is not None and time.monotonic() > kill_time:
                break
            if failed and {self._ranks[name] for name in self._running} <= self._left_out:
                break  # those left out wait for the next start
            if self._errors and time.monotonic() > self._error_time + ERROR_WAIT_SECONDS:
                self._report_cause()
        self._report_cause()
        return self._overall_code()

    def _overall_code(self) -> int:
        return _overall_code([self._codes[rank] for rank in sorted(self._codes)])

    def _report_cause(self) -> None:
        """Show one error of this start: other workers end because of it, and report that too."""
        code = self._overall_code()
        ranks = sorted(self._errors, key=lambda rank: (self._codes.get(rank) != code, rank))
        if ranks and not self._reported and not self._refused:
            self._reported = True
            self._display.show(self._errors[ranks[0]])
        self._errors.clear()

    def _take(self, process: ManagedProcess, event: Event) -> None:
        rank = self._ranks[process.name]
        if event.kind == "elastic_start":
            self._left_out = {one for one in event.items("missing") if isinstance(one, int)}
        if event.kind != "exit":
            self._trained |= event.kind in _TRAINING_EVENTS
            is_retryable = event.integer("exit_code") >= FIRST_RETRYABLE_EXIT_CODE
            if event.kind == "error" and is_retryable and rank not in self._left_out:
                self._error_time = self._error_time or time.monotonic()
                self._errors.setdefault(rank, event)
            elif not self._refused:  # later errors are the same one, or the loss of this worker
                self._display.show(event)
            self._refused |= _is_permanent(event.integer("exit_code"))
            return
        self._running.discard(process.name)
        code = event.integer("exit_code")
        if rank in self._left_out and code >= FIRST_RETRYABLE_EXIT_CODE:
            return  # the others train without it
        self._codes[rank] = code
        if code >= FIRST_RETRYABLE_EXIT_CODE and not self._signals.received:
            log_event(
                "worker_lost",
                f"Worker {rank} ended: {process.describe_exit()}",
                level=logging.DEBUG,
                worker=rank,
                exit_code=code,
            )


def _is_permanent(code: int) -> bool:
    return 0 < code < FIRST_RETRYABLE_EXIT_CODE


def _is_restartable(code: int) -> bool:
    return code >= FIRST_RETRYABLE_EXIT_CODE and code != DeadlineReached.exit_code


def _overall_code(codes: Sequence[int]) -> int:
    """Return the exit code of the workers' group from those of workers, by rank.

    PeerLost is only a symptom, so another worker's code is preferred. The chief's code comes first,
    because only the chief observes the deadline.
    """
    failed = [code for code in codes if code]
    permanent = [code for code in failed if _is_permanent(code)]
    causes = [code for code in failed if code != PeerLost.exit_code]
    return (permanent or causes or failed or [0])[0]
