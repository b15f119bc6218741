"""Inference workers on this machine: processes, of which a lost one is restarted by itself.

This is the local counterpart of an Indexed Job. Each worker gets the JOB_COMPLETION_INDEX that its
pod would get, and exits with the same codes.
"""

import sys
from pathlib import Path
from typing import Self

from rich.console import Console

from common import devices, events, storage
from common.count_bar import CountBar
from common.errors import PeerLost, RetryableError, StorageUnavailable
from common.events import Event
from common.processes import (
    Heartbeats,
    ManagedProcess,
    ProcessGroup,
    StopSignals,
    clean_environment,
    cpu_count,
)
from common.settings import Settings
from common.settings.launcher_variables import HEARTBEAT_FILE, JOB_ID
from common.text import plural
from common.waiting import Waiting
from inference.chunk_plan import ChunkPlan
from inference.worker import COMPLETION_INDEX

TERMINATION_GRACE_SECONDS = 10.0
"""Time from SIGTERM until a worker is killed."""

POLL_SECONDS = 0.1
"""Longest time until a stop signal is noticed."""

FINAL_EXIT_CODES = frozenset({*range(1, RetryableError.exit_code), StorageUnavailable.exit_code})
"""Exit codes of a worker after which a restart would not help."""


class LocalWorkers:
    """PARALLELISM workers on this machine.

    Args:
        settings: PARALLELISM, THREADS and MAX_RESTARTS are used; all are passed on.
        plan: The division into chunks.
        job: Identity of the job, which all workers share.

    Attributes:
        settings: The settings of the workers.
    """

    def __init__(self, settings: Settings, plan: ChunkPlan, job: str) -> None:
        parallelism = settings.inference.parallelism
        workers = min(parallelism, len(plan.chunks))
        if workers < parallelism:
            message = (
                f"PARALLELISM={parallelism} is more than the {plural(len(plan.chunks), 'chunk')}"
                f" of these examples: using {plural(workers, 'process')}"
            )
            events.emit("log", message, level="INFO")
        threads = settings.training.threads or max(1, cpu_count() // workers)
        self.settings = settings.replace(parallelism=workers, threads=threads)
        self._plan, self._job = plan, job
        self._devices = devices.assign(settings, workers)
        self._restarts = 0
        self._errors: dict[ManagedProcess, str] = {}

    def run(self) -> int:
        """Run all workers until they have finished.

        Returns:
            The exit code: 0, that of a worker whose error is final, or 128 + n for signal n.

        Raises:
            PeerLost: Workers were lost more than MAX_RESTARTS times.
        """
        with StopSignals() as stop:
            with (
                storage.temporary_folder() as folder,
                ProcessGroup(TERMINATION_GRACE_SECONDS) as group,
                _Display(self._plan) as display,
                Waiting("the first chunk: TensorFlow is imported in each process") as wait,
            ):
                code = self._supervise(group, display, stop, Path(folder), wait)
            if stop.exit_code is None:
                return code
            message = "Stopped. Run the same command again to continue from the finished chunks."
            events.emit("log", message, level="INFO")
            return stop.exit_code

    def _supervise(
        self,
        group: ProcessGroup,
        display: "_Display",
        stop: StopSignals,
        folder: Path,
        wait: Waiting,
    ) -> int:
        files = [folder / f"worker-{i}" for i in range(self.settings.inference.parallelism)]
        workers = {self._start(group, index, file): index for index, file in enumerate(files)}
        running = {process.name: process for process in workers}
        heartbeats = Heartbeats()
        for process, index in workers.items():
            heartbeats.watch(process, files[index])
        while running and stop.received is None:
            received = group.next_event(POLL_SECONDS)
            heartbeats.kill_silent()
            if received is None:
                continue
            process, event = received
            if event.kind == "error":
                self._errors[process] = event.message
            elif event.kind != "exit":
                if event.kind == "chunk_done":
                    wait.end()  # from now on, chunks have lines or a bar
                display.show(event)
            elif (code := event.integer("exit_code")) == 0:
                del running[process.name]
            elif code in FINAL_EXIT_CODES:
                display.close()
                self._report_failure(process, code)
                return code
            else:
                index = workers[process]
                self._report_restart(display, index, event)
                running[process.name] = started = self._start(group, index, files[index])
                workers[started] = index
                heartbeats.watch(started, files[index])
        return 0

    def _start(self, group: ProcessGroup, index: int, heartbeat_file: Path) -> ManagedProcess:
        heartbeat_file.touch()
        own = {
            "QFLEET_VERBOSE": str(self.settings.job.verbose).lower(),
            HEARTBEAT_FILE: str(heartbeat_file),
            JOB_ID: self._job,
            COMPLETION_INDEX: str(index),
            devices.VARIABLE: self._devices[index],
        }
        return group.start(
            [sys.executable, "-m", "inference.worker", *self.settings.to_args()],
            name=f"worker {index}",
            env=clean_environment(**own),
            stdout="capture",
            stderr="capture",
        )

    def _report_failure(self, process: ManagedProcess, code: int) -> None:
        """Report the error of one worker; the others often have the same error."""
        if text := process.stderr_text.strip():
            print(text, file=sys.stderr)
        if message := self._errors.get(process):
            events.emit("error", message, exit_code=code)

    def _report_restart(self, display: "_Display", worker: int, exit_event: Event) -> None:
        """Count a restart, and report it.

        Raises:
            PeerLost: There were more than MAX_RESTARTS restarts.
        """
        reason, max_restarts = exit_event.text("reason"), self.settings.fault_tolerance.max_restarts
        self._restarts += 1
        if self._restarts > max_restarts:
            raise PeerLost(
                f"workers were lost {self._restarts} times (MAX_RESTARTS={max_restarts}), the last"
                f" one was worker {worker} ({reason}): run the same command again to continue from"
                " the finished chunks"
            )
        code = exit_event.integer("exit_code")
        display.emit("worker_lost", f"worker {worker}: {reason}", worker=worker, exit_code=code)
        display.emit(
            "restarting",
            f"worker {worker}: restarting this worker only"
            f" (restart {self._restarts} of {max_restarts})",
            restart=self._restarts, max_restarts=max_restarts, worker=worker,
        )  # fmt: skip


class _Display:
    """The output of all workers: a progress bar of chunks on a terminal, else their events."""

    def __init__(self, plan: ChunkPlan) -> None:
        self._console = Console(highlight=False, soft_wrap=True, markup=False)
        self._use_bar = self._console.is_terminal and not events.is_streaming()
        self._bar = CountBar("chunks", self._console, enabled=self._use_bar)
        self._bar.move(len(plan.existing()), len(plan.chunks))
        self._rates: dict[int, float] = {}  # worker -> rate of its last chunk

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()

    def emit(self, kind: str, message: str, **fields: int) -> None:
        """Emit an event of this process, without disturbing the bar."""
        if self._use_bar:
            self._console.print(message)
        else:
            events.emit(kind, message, **fields)

    def show(self, event: Event) -> None:
        """Show an event of a worker."""
        if not self._use_bar:
            events.forward(event)
        elif event.kind == "chunk_done":
            self._rates[event.integer("worker")] = event.number("rate")
            rate = f"{sum(self._rates.values()):,.0f} {event.text('unit')}"
            self._bar.advance(rate=rate)
        elif text := events.render(event):
            self._console.print(text)
