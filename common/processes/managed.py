"""One child process."""

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Literal, Self

from common import events
from common.events import Event
from common.processes import system
from common.processes.output import Lines, Tail, read_ready
from common.processes.system import clean_environment, descendant_killers, pinned

Output = Literal["inherit", "capture", "discard"]

MAX_QUEUED_EVENTS = 100_000
"""Events that wait to be taken; lines of foreign text beyond that are dropped."""

DRAIN_SECONDS = 2.0
"""Longest time for reading what a process left in its pipes when it ended."""

_POLL_SECONDS = 0.05

_POPEN = {
    "inherit": None,
    "capture": subprocess.PIPE,
    "discard": subprocess.DEVNULL,
    "stdout": subprocess.STDOUT,
}


class ManagedProcess:
    """A child process, started at once. As a context, it is stopped at the end.

    Args:
        command: Program and arguments.
        name: For messages, such as "worker 1".
        cwd: Its working directory.
        env: Its environment; `clean_environment()` unless given.
        cpus: CPUs that it is pinned to, from its first thread on; empty pins nothing.
        stdin: Give it a pipe for `send_line`; else its standard input is empty.
        stdout: "capture" makes log events of its lines (those that are events stay events) and
            keeps `stdout_text`.
        stderr: "capture" keeps `stderr_text`; "stdout" merges it into stdout.
        emits: Give it a pipe for its events (QFLEET_EVENTS).
        inbox: Where its events go instead; see `ProcessGroup`.

    Raises:
        OSError: The program can't be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str = "",
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        cpus: Sequence[int] = (),
        stdin: bool = False,
        stdout: Output = "inherit",
        stderr: Output | Literal["stdout"] = "inherit",
        emits: bool = True,
        inbox: "queue.SimpleQueue[tuple[ManagedProcess, Event]] | None" = None,
    ) -> None:
        self.name = name or Path(command[0]).name
        self._inbox = queue.SimpleQueue() if inbox is None else inbox
        self._exit_code: int | None = None
        self._exit_taken = False
        self._error = ""
        self._stdout, self._stderr = Tail(), Tail()
        environment = dict(clean_environment() if env is None else env)
        environment.pop(events.ENVIRONMENT_VARIABLE, None)
        with ExitStack() as undo:
            pipe: list[int] = []
            if emits:
                pipe = [*os.pipe()]
                undo.callback(os.close, pipe[0])
                environment[events.ENVIRONMENT_VARIABLE] = f"fd:{pipe[1]}"
            try:
                with pinned(cpus):
                    self._child = subprocess.Popen(
                        command,
                        bufsize=0,
                        cwd=cwd,
                        env=environment,
                        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                        stdout=_POPEN[stdout],
                        stderr=_POPEN[stderr],
                        pass_fds=pipe[1:],
                        start_new_session=True,
                    )
            finally:
                for descriptor in pipe[1:]:
                    os.close(descriptor)
            undo.pop_all()
        sources: list[tuple[int | IO[bytes], Callable[[bytes], None], Callable[[], None]]] = []
        if emits:
            lines = Lines(self._take_event_line)
            sources.append((pipe[0], lines.feed, lines.finish))
        if self._child.stdout:
            lines = Lines(self._take_stdout_line)
            sources.append((self._child.stdout, lines.feed, lines.finish))
        if self._child.stderr:
            sources.append((self._child.stderr, self._stderr.feed, _nothing))
        self._reader = threading.Thread(
            target=self._read, args=(sources,), name=f"reader of {self.name}", daemon=True
        )
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, 128 + n where signal n ended it; None until all its output is read."""
        return self._exit_code

    @property
    def stdout_text(self) -> str:
        """The last MAX_KEPT_BYTES of its captured stdout."""
        return self._stdout.text

    @property
    def stderr_text(self) -> str:
        """The last MAX_KEPT_BYTES of its captured stderr."""
        return self._stderr.text

    @property
    def error_message(self) -> str:
        """Why it failed: the message of its last error event, else the last line on stderr."""
        return self._error or self.stderr_text.rstrip().rpartition("\n")[2].strip()

    def describe_exit(self) -> str:
        """Describe how it ended, as `describe_exit` does; "running" while it has not."""
        code = self._child.returncode
        return "running" if code is None else system.describe_exit(code, self.error_message)

    @property
    def failure(self) -> str:
        """Why it failed: its message, or how it ended where there is none."""
        return self.error_message or self.describe_exit()

    def discard_events(self) -> None:
        """Drop the events that have arrived; events that are not taken fill the memory."""
        while self.next_event(0.0):
            pass

    def next_event(self, timeout_seconds: float | None = None) -> Event | None:
        """Wait for its next event.

        Args:
            timeout_seconds: How long; 0 does not wait, None has no limit.

        Returns:
            The event; None where there was none in time, or where "exit" was returned before.
        """
        if self._exit_taken:
            return None
        try:
            _, event = self._inbox.get(timeout_seconds != 0, timeout_seconds)
        except queue.Empty:
            return None
        self._exit_taken = event.kind == "exit"
        return event

    def events(self) -> Iterator[Event]:
        """Iterate over its events until it has ended; the last one is of kind "exit"."""
        while event := self.next_event():
            yield event

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait until it has ended and all its output is read.

        Returns:
            Its exit code.

        Raises:
            TimeoutError: It is still running.
        """
        self._reader.join(timeout_seconds)
        code = self.exit_code
        if code is None:
            raise TimeoutError(f"{self.name} is still running after {timeout_seconds:g} s")
        return code

    def send_line(self, line: str, timeout_seconds: float = 30.0) -> bool:
        """Write a line to its standard input.

        Returns:
            False where it has ended, closed its input, or did not read the line in time.
        """
        pipe = self._child.stdin
        if pipe is None or pipe.closed:
            return False
        data = line.encode() + b"\n"
        try:
            return events.write_available(pipe.fileno(), data, timeout_seconds) == len(data)
        except OSError:
            return False

    def close_stdin(self) -> None:
        """End its standard input."""
        if self._child.stdin:
            self._child.stdin.close()

    def terminate(self) -> None:
        """Send SIGTERM, if it is running."""
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        """Send a signal, if it is running."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL to it and to all its descendants, if it is running."""
        if self._child.poll() is None:
            below = descendant_killers(self.pid)
            for end in [self._child.kill, *below]:
                with contextlib.suppress(OSError):
                    end()

    def stop(self, grace_seconds: float = 10.0) -> int:
        """Stop it: SIGTERM, SIGKILL for it and its descendants after the grace time, pipes closed.

        Returns:
            Its exit code.
        """
        self.terminate()
        return self.wait_or_kill(grace_seconds)

    def wait_or_kill(self, grace_seconds: float) -> int:
        """Do what `stop` does after SIGTERM, which a process should get only once."""
        self._reader.join(max(0.0, grace_seconds))
        self.kill()
        code = self.wait()
        self.close_stdin()
        return code

    def _read(
        self, sources: list[tuple[int | IO[bytes], Callable[[bytes], None], Callable[[], None]]]
    ) -> None:
        """Read all pipes until the process has ended and left nothing in them."""
        try:
            with selectors.DefaultSelector() as selector:
                for file, feed, _ in sources:
                    selector.register(file, selectors.EVENT_READ, feed)
                while self._child.poll() is None:
                    if selector.get_map():
                        read_ready(selector, _POLL_SECONDS)
                    else:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            self._child.wait(_POLL_SECONDS)
                # Don't wait for the end of a pipe: descendants may keep it open for longer.
                deadline = time.monotonic() + DRAIN_SECONDS
                while read_ready(selector, 0.0) and time.monotonic() < deadline:
                    pass
        finally:
            for file, _, finish in sources:
                finish()
                if isinstance(file, int):
                    os.close(file)
                else:
                    file.close()
            returncode = self._child.wait()
            reason = system.describe_exit(returncode, self.error_message)
            self._exit_code = system.exit_code(returncode)  # set before the event can be taken
            fields = {"exit_code": self._exit_code, "reason": reason}
            self._inbox.put((self, Event("exit", time.time(), fields=fields)))

    def _take_event_line(self, line: bytes) -> None:
        self._put(events.parse(line) or events.foreign(line))

    def _take_stdout_line(self, line: bytes) -> None:
        self._stdout.feed(line + b"\n")
        self._put(events.parse(line) or events.foreign(line))

    def _put(self, event: Event) -> None:
        if event.kind == "error":
            self._error = event.message
        if event.kind == "exit":  # only `_read` reports the end of a process
            return
        if "stream" not in event.fields or self._inbox.qsize() < MAX_QUEUED_EVENTS:
            self._inbox.put((self, event))


def _nothing() -> None:
    pass
