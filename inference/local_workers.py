"""The workers on this machine: real processes, of which a lost one is started again alone.

The embedded stand-in for an Indexed Job: each worker gets the JOB_COMPLETION_INDEX that its pod
would get, and leaves with the same exit codes.
"""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.errors import PeerLost, RetryableError, StorageUnavailable
from common.settings import Settings
from inference.chunk_plan import ChunkPlan
from inference.worker import COMPLETION_INDEX

TERMINATION_GRACE_SECONDS = 10.0
"""Seconds from the request to stop until a worker is ended."""

PIECE = re.compile(r"worker (\d+): piece (\d+)/\d+  .*  ([\d,]+) (circuits|examples)/s")
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LocalWorkers:
    """P workers on this machine.

    Args:
        settings: PARALLEL, THREADS and MAX_RESTARTS are read; all are handed on, JOB_ID among them.
        plan: How the examples are cut.

    Attributes:
        settings: What the workers are told.
    """

    def __init__(self, settings: Settings, plan: ChunkPlan) -> None:
        self._screen = _Screen(plan)
        workers = min(settings.inference.parallelism, len(plan.pieces))
        if workers < settings.inference.parallelism:
            self._screen.say(
                f"PARALLELISM={settings.inference.parallelism} is more than the {len(plan.pieces)} pieces that"
                f" these examples are cut into: {workers} process{'es' * (workers > 1)} answer"
            )
        # What this process was started with is the workers' machine, too: cores by affinity.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        more = {
            "parallelism": workers,
            "threads": settings.training.threads or max(1, (cores or 1) // workers),
        }
        self.settings = settings.replace(**more)
        self._stop: int | None = None

    def answer(self) -> int:
        """Run all workers to their end.

        Returns:
            The exit code: 0, that of a worker that can't go on, or 128 + the signal that ended it.

        Raises:
            PeerLost: Workers were lost more than MAX_RESTARTS times.
            StorageUnavailable: Storage is away.
        """
        before = {number: signal.signal(number, self._ask_to_stop) for number in _STOPS}
        working = [_Process(i, self.settings) for i in range(self.settings.inference.parallelism)]
        try:
            with self._screen:
                code = self._until_end(working)
        finally:
            _end(working)
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._stop:
            print("stopped: the same command goes on from the pieces that are answered")
            return 128 + self._stop
        return code

    def _ask_to_stop(self, number: int, frame: object) -> None:
        self._stop = number

    def _until_end(self, working: list["_Process"]) -> int:
        restarts = 0
        while not self._stop:
            for process in working:
                self._screen.relay(process.lines())
            ended = [process for process in working if process.code is not None]
            if lost := next((process for process in ended if process.code), None):
                if lost.code in (StorageUnavailable.exit_code, *range(RetryableError.exit_code)):
                    return self._give_up(lost)
                restarts += 1
                if restarts > self.settings.fault_tolerance.max_restarts:
                    raise PeerLost(
                        f"workers were lost {restarts} times, more than MAX_RESTARTS allows, the last"
                        f" one ({lost.how}): the same command goes on from the pieces that are"
                        " answered"
                    )
                self._screen.say(f"worker {lost.index} {lost.how}: it alone starts again")
                working[lost.index] = _Process(lost.index, self.settings)
            elif len(ended) == len(working):
                return 0
            time.sleep(0.05)
        return 0

    def _give_up(self, lost: "_Process") -> int:
        """Say what a worker said last, in place of its like from the others."""
        self._screen.stop()
        print(lost.complaint, file=sys.stderr)
        assert lost.code
        return lost.code


class _Process:
    """One worker's process."""

    def __init__(self, index: int, settings: Settings) -> None:
        self.index = index
        environment = {n: v for n, v in os.environ.items() if not n.startswith("QFLEET_")}
        environment["QFLEET_VERBOSE"] = str(settings.job.verbose).lower()
        environment[COMPLETION_INDEX] = str(index)
        # A session of its own: Ctrl-C in the terminal is for this process, which passes it on.
        self._child = subprocess.Popen(
            [sys.executable, "-m", "inference.worker", *settings.to_args()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._child.stdout
        assert self._child.stderr
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=_read, args=(self._child.stdout, self._lines.put), daemon=True),
            threading.Thread(
                target=_read, args=(self._child.stderr, self._errors.append), daemon=True
            ),
        ]
        for reader in self._readers:
            reader.start()

    def lines(self) -> list[str]:
        """What it printed since the last call."""
        return [self._lines.get() for _ in range(self._lines.qsize())]

    @property
    def code(self) -> int | None:
        """Its exit code, as a shell tells it, once all that it printed has been read."""
        code = self._child.poll()
        if code is None or any(reader.is_alive() for reader in self._readers):
            return None
        if self._lines.qsize():
            return None
        return 128 - code if code < 0 else code

    @property
    def complaint(self) -> str:
        """All that it wrote to stderr."""
        return "\n".join(self._errors)

    @property
    def how(self) -> str:
        """How it was lost."""
        code = self._child.returncode
        if code < 0:
            return f"was killed ({signal.Signals(-code).name})"
        last = self._errors[-1].removeprefix("qfleet: ") if self._errors else ""
        return f"ended with exit code {code}" + f" ({last})" * bool(last)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        if self._child.poll() is None:
            self._child.terminate()

    def end(self, until: float) -> None:
        """Wait for its end until then, then end it."""
        try:
            self._child.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._child.stdout, self._child.stderr):
            if stream:
                stream.close()


def _read(stream: IO[str], take: object) -> None:
    for line in stream:
        take(line.rstrip("\n"))  # type: ignore[operator]


def _end(working: list[_Process]) -> None:
    for process in working:
        process.ask_to_stop()
    until = time.monotonic() + TERMINATION_GRACE_SECONDS
    for process in working:
        process.end(until)


class _Screen:
    """What a person sees: on a terminal a bar of pieces, elsewhere the workers' lines."""

    def __init__(self, plan: ChunkPlan) -> None:
        self._console = Console(highlight=False, soft_wrap=True, markup=False)
        self._bar = Progress(
            TextColumn("pieces"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[rate]}"),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        )  # fmt: skip
        total = len(plan.pieces)
        self._task = self._bar.add_task("", completed=len(plan.there()), total=total, rate="")
        self._rates: dict[str, int] = {}  # worker -> circuits a second in its last piece

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away."""
        self._bar.stop()

    def say(self, text: str) -> None:
        """A line of this process's own."""
        self._console.print(text)

    def relay(self, lines: list[str]) -> None:
        """Lines of a worker's."""
        for line in lines:
            if done := PIECE.fullmatch(line):
                worker, _, rate, unit = done.groups()
                self._rates[worker] = int(rate.replace(",", ""))
                told = f"{sum(self._rates.values()):,} {unit}/s"
                self._bar.update(self._task, advance=1, rate=told)
            if not done or not self._console.is_terminal:
                self.say(line)
