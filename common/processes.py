"""Child processes: started, watched and stopped in one way.

A `ManagedProcess` runs in a session of its own, so that Ctrl-C in the terminal reaches only this
process, which stops its children itself. One thread per child reads its pipes all the time, so a
child never blocks on a full one. What it emits (common/events.py) comes as a stream of events that
always ends with one of kind "exit":

    with ManagedProcess([sys.executable, "-m", "planning.auto"], stderr="capture") as planner:
        for event in planner.events():
            ...
    if planner.exit_code:
        raise RuntimeError(planner.describe_exit())

A `ProcessGroup` merges the streams of several children.
"""

import contextlib
import os
import queue
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Literal, Self

from common import events
from common.events import Event, LineSplitter

if TYPE_CHECKING:
    import psutil

Output = Literal["inherit", "capture", "discard"]

MAX_KEPT_BYTES = 1 << 20
"""The end of captured output that is kept."""

MAX_QUEUED_EVENTS = 100_000
"""Events that wait to be taken; lines of foreign text beyond that are dropped."""

DRAIN_SECONDS = 2.0
"""Longest time for reading what a process left in its pipes when it ended."""

_POLL_SECONDS = 0.05
_CHUNK_BYTES = 1 << 16


def usable_cpus() -> list[int]:
    """Return the numbers of the CPUs that this thread may run on (all, where that is unknown)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cpu_count() -> int:
    """Return the number of CPUs that this thread may run on."""
    return len(usable_cpus())


@contextlib.contextmanager
def pinned(cpus: Sequence[int]) -> Iterator[None]:
    """Pin this thread, and what it starts meanwhile, to CPUs.

    Args:
        cpus: CPU numbers; nothing is pinned where there are none, or where the system can't.
    """
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def clean_environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without settings (QFLEET_*), TF_CONFIG and events.

    A child gets its settings as arguments.

    Args:
        extra: Variables to add.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("QFLEET_") and name != "TF_CONFIG"
    }
    return {**kept, **extra}


def exit_code(returncode: int) -> int:
    """Convert a return code of `subprocess` to an exit code: 128 + n where signal n ended it."""
    return 128 - returncode if returncode < 0 else returncode


def describe_exit(returncode: int, detail: str = "") -> str:
    """Describe how a process ended.

    Args:
        returncode: Of `subprocess`: negative where a signal ended it.
        detail: Put in parentheses after an exit code that is not 0.

    Returns:
        For example "killed by SIGKILL" or "exit code 2 (BATCH=0 is not allowed)".
    """
    if returncode < 0:
        try:
            return f"killed by {signal.Signals(-returncode).name}"
        except ValueError:  # a real-time signal
            return f"killed by signal {-returncode}"
    return f"exit code {returncode}" + (f" ({detail})" if returncode and detail else "")


@contextlib.contextmanager
def free_ports(count: int, host: str = "127.0.0.1") -> Iterator[list[int]]:
    """Choose TCP ports that no process uses, and hold them until the context ends.

    Args:
        count: How many different ports.
        host: The address that they are free on.
    """
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            holder = held.enter_context(socket.socket())
            holder.bind((host, 0))
            ports.append(int(holder.getsockname()[1]))
        yield ports


def find_child(
    pid: int, matches: Callable[[Mapping[str, str]], bool], *, recursive: bool = False
) -> "psutil.Process | None":
    """Find a living child of a process by its environment; None where there is none.

    Args:
        pid: The parent.
        matches: Called with a child's environment; a KeyError or ValueError is no match.
        recursive: Search children of children too.
    """
    import psutil

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=recursive):
            with contextlib.suppress(KeyError, ValueError, psutil.Error):
                if matches(child.environ()):
                    return child
    return None


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
        self._stdout, self._stderr = _Tail(), _Tail()
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
            lines = _Lines(self._take_event_line)
            sources.append((pipe[0], lines.feed, lines.finish))
        if self._child.stdout:
            lines = _Lines(self._take_stdout_line)
            sources.append((self._child.stdout, lines.feed, lines.finish))
        if self._child.stderr:
            sources.append((self._child.stderr, self._stderr.feed, _nothing))
        self._reader = threading.Thread(
            target=self._read, args=(sources,), name=f"reader of {self.name}", daemon=True
        )
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        return "running" if code is None else describe_exit(code, self.error_message)

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
            below = _descendants(self.pid)
            for end in [self._child.kill, *below]:
                with contextlib.suppress(OSError):
                    end()

    def stop(self, grace_seconds: float = 10.0) -> int:
        """Stop it: SIGTERM, SIGKILL for it and its descendants after the grace time, pipes closed.

        Returns:
            Its exit code.
        """
        self.terminate()
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
                        _read_ready(selector, _POLL_SECONDS)
                    else:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            self._child.wait(_POLL_SECONDS)
                # No waiting for the end of a pipe: descendants may keep it open for longer.
                deadline = time.monotonic() + DRAIN_SECONDS
                while _read_ready(selector, 0.0) and time.monotonic() < deadline:
                    pass
        finally:
            for file, _, finish in sources:
                finish()
                if isinstance(file, int):
                    os.close(file)
                else:
                    file.close()
            returncode = self._child.wait()
            reason = describe_exit(returncode, self.error_message)
            self._exit_code = exit_code(returncode)  # set before the event can be taken
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
        if event.kind == "exit":  # only this module says that a process has ended
            return
        if "stream" not in event.fields or self._inbox.qsize() < MAX_QUEUED_EVENTS:
            self._inbox.put((self, event))


class ProcessGroup:
    """Several child processes whose events come as one stream. As a context, all are stopped.

    Args:
        grace_seconds: Time for all of them to end after SIGTERM when the context ends.

    Attributes:
        processes: Those started, in that order; the caller may remove or replace some.
    """

    def __init__(self, grace_seconds: float = 10.0) -> None:
        self.processes: list[ManagedProcess] = []
        self._grace_seconds = grace_seconds
        self._inbox: queue.SimpleQueue[tuple[ManagedProcess, Event]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_all(self._grace_seconds)

    def start(
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
    ) -> ManagedProcess:
        """Start a process of the group; the arguments are those of `ManagedProcess`."""
        process = ManagedProcess(
            command, name=name, cwd=cwd, env=env, cpus=cpus, stdin=stdin, stdout=stdout,
            stderr=stderr, emits=emits, inbox=self._inbox,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def next_event(self, timeout_seconds: float) -> tuple[ManagedProcess, Event] | None:
        """Wait for the next event of any process; None where there was none in time."""
        try:
            return self._inbox.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None

    def terminate(self) -> None:
        """Send SIGTERM to all."""
        for process in self.processes:
            process.terminate()

    def stop_all(self, grace_seconds: float) -> None:
        """Send SIGTERM to all, and SIGKILL to those left after one grace time for all."""
        self.terminate()
        deadline = time.monotonic() + grace_seconds
        for process in self.processes:
            process.stop(deadline - time.monotonic())


class StopSignals:
    """Records SIGINT, SIGTERM and SIGHUP while its context lasts, in place of ending the process.

    For a supervisor that stops its children itself. Use it in the main thread.

    Attributes:
        received: The number of the last such signal; None while none came.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, signal.Handlers | int | Callable[..., object] | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that stopped because of it."""
        return None if self.received is None else 128 + self.received

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number


class _Tail:
    """The end of a stream."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * MAX_KEPT_BYTES:
            del self._kept[:-MAX_KEPT_BYTES]

    @property
    def text(self) -> str:
        return bytes(self._kept[-MAX_KEPT_BYTES:]).decode("utf-8", "replace")


class _Lines:
    """Passes on the lines of a stream."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._splitter, self._take = LineSplitter(), take

    def feed(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._take(line)

    def finish(self) -> None:
        for line in self._splitter.finish():
            self._take(line)


_POPEN = {
    "inherit": None,
    "capture": subprocess.PIPE,
    "discard": subprocess.DEVNULL,
    "stdout": subprocess.STDOUT,
}


def _nothing() -> None:
    pass


def _read_ready(selector: selectors.BaseSelector, timeout_seconds: float) -> bool:
    """Read once from each pipe that holds something; False where none does."""
    ready = selector.select(timeout_seconds) if selector.get_map() else []
    for key, _ in ready:
        data = os.read(key.fd, _CHUNK_BYTES)
        if data:
            key.data(data)
        else:
            selector.unregister(key.fileobj)
    return bool(ready)


def _descendants(pid: int) -> list[Callable[[], None]]:
    """Return functions that kill what a process started, also in other sessions."""
    try:
        import psutil
    except ImportError:  # the cluster client's environment has none, and starts no such trees
        return []
    with contextlib.suppress(psutil.Error):
        return [_killer(child) for child in psutil.Process(pid).children(recursive=True)]
    return []


def _killer(process: "psutil.Process") -> Callable[[], None]:
    import psutil

    def kill() -> None:
        with contextlib.suppress(psutil.Error):
            process.kill()

    return kill
