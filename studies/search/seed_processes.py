"""Processes that each search a seed, on this machine: one that is killed or hangs starts again."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from common import events, storage
from common.processes import Heartbeats, ManagedProcess, ProcessGroup
from common.settings.launcher_variables import HEARTBEAT_FILE
from studies.runner import INTERRUPTED

COMMAND = (sys.executable, "-m", "studies.search.seed_process")
"""Program that searches one seed; the seed and the arguments of the search are appended."""

MAX_RESTARTS = 3
"""Most restarts of the process of a seed, such as one that has too little memory."""

_POLL_SECONDS = 1.0


class SeedProcesses:
    """Processes of seeds, each of which continues the history of its seed. A context.

    A process that hangs is killed (common/processes/heartbeats.py). One that was killed is started
    again, and its history is that of a process that was not.

    Args:
        args: The command line of the search.

    Attributes:
        running: Number of processes.
    """

    def __init__(self, args: Sequence[str]) -> None:
        self._args = args
        self._open = ExitStack()
        self._restarts: dict[str, int] = {}
        self.running = 0

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._folder = Path(undo.enter_context(storage.temporary_folder()))
            self._group = undo.enter_context(ProcessGroup())
            self._heartbeats = Heartbeats()
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def start(self, seed: int | str) -> None:
        """Start the process of a seed."""
        file = self._folder / str(seed)
        file.touch()
        process = self._group.start(
            [*COMMAND, str(seed), *self._args],
            name=f"seed {seed}",
            env={**os.environ, HEARTBEAT_FILE: str(file)},  # settings may be variables
            stdout="discard",
            stderr="capture",
        )
        self._heartbeats.watch(process, file)
        self.running += 1

    def next_end(self) -> ManagedProcess | None:
        """Wait for a second at most, and return a process that has ended, if one has.

        Processes that hang are killed here, and those that were killed start again.
        """
        found = self._group.next_event(_POLL_SECONDS)
        self._heartbeats.kill_silent()
        if found is None:
            return None
        process, event = found
        if event.kind == "log":
            events.forward(event)
        if event.kind != "exit":
            return None
        self._group.processes.remove(process)
        self.running -= 1
        restarts = self._restarts.get(process.name, 0)
        if process.exit_code not in INTERRUPTED or restarts == MAX_RESTARTS:
            return process
        self._restarts[process.name] = restarts + 1
        text = f"the process of {process.name} was lost ({process.failure}): starting it again"
        events.emit("log", text, level="WARNING")
        self.start(process.name.rpartition(" ")[2])
        return None
