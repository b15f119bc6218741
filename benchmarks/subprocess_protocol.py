"""Benchmark systems in processes of their own, which run in turns.

A request is a line of JSON on the system's stdin. A response is an event of kind `measurement`.
The first request names a case and a task; the system prepares them and responds. Each further
request starts one round; the response has its time. So all systems run in turns, and other load on
the machine affects them equally.
"""

import ctypes
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import events
from common.environments import package_version
from common.processes import ManagedProcess

Message = dict[str, Any]

START_TIMEOUT_SECONDS = 120.0
"""Time for the imports of a system; TensorFlow takes long on a busy machine."""

RESPONSE_TIMEOUT_SECONDS = 300.0
"""Time for a response, unless a system has its own limit."""

MAX_ERROR_CHARACTERS = 300

COMPARED_EXAMPLES = 2
"""Examples whose readouts are compared."""

_STATUS = Path("/proc/self/status")


class SystemFailed(Exception):
    """A system did not respond, ended, or reported an error."""


class SystemTimedOut(SystemFailed):
    """A system did not respond in time, and was ended."""


class SystemRefused(SystemFailed):
    """A system reported that a case needs more memory than this machine has."""


class TooLarge(Exception):
    """A case needs more memory than this machine has. The message is the reason to omit it."""


class SubprocessSystem:
    """A system in its own process, started at the first request and again after a failure.

    Args:
        name: Name of the system.
        command: Command of the process.
        timeout_seconds: Time limit of a response.

    Attributes:
        timeout_seconds: The same.
        versions: Versions of its packages, once it has started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        timeout_seconds: float = RESPONSE_TIMEOUT_SECONDS,
    ) -> None:
        self.name = name
        self.versions: dict[str, str] = {}
        self._command, self.timeout_seconds = command, timeout_seconds
        self._process: ManagedProcess | None = None

    def request(self, message: Message, timeout_seconds: float | None = None) -> Message:
        """Send a message and return the response.

        Args:
            message: The message.
            timeout_seconds: Time limit of the response, if it is not the system's.

        Raises:
            SystemFailed: There is no response, or it is an error.
        """
        if self._process is None:
            self._process = ManagedProcess(
                self._command, name=self.name, stdin=True, stdout="discard", stderr="capture"
            )
            self.versions = self._response(self._process, START_TIMEOUT_SECONDS)["versions"]
        self._process.send_line(json.dumps(message))  # if it has ended, the response is its exit
        return self._response(self._process, timeout_seconds or self.timeout_seconds)

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.stop(grace_seconds=0.0)
            self._process = None

    def _response(self, process: ManagedProcess, timeout_seconds: float) -> Message:
        deadline = time.monotonic() + timeout_seconds
        while event := process.next_event(max(0.0, deadline - time.monotonic())):
            if event.kind == "measurement":
                response = dict(event.mapping("result"))
                if "refusal" in response:
                    raise SystemRefused(response["refusal"])
                if "error" in response:
                    raise SystemFailed(f"{self.name}: {response['error']}")
                return response
            if event.kind == "exit":
                self.close()
                raise SystemFailed(f"{self.name} ended: {event.text('reason')}")
        self.close()
        raise SystemTimedOut(f"{self.name} did not respond within {timeout_seconds:.0f} s")


def reset_peak() -> float:
    """Free unused memory, restart the peak of `peak_gib`, and return the resident memory in GiB."""
    gc.collect()
    if not _STATUS.exists():
        return peak_gib()  # macOS keeps the peak of the whole process
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status_gib("VmRSS")


def peak_gib() -> float:
    """Return the peak resident memory of this process since `reset_peak`, in GiB."""
    if _STATUS.exists():
        return _status_gib("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30


def _status_gib(name: str) -> float:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 2**20 for line in lines if line.startswith(name))


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of installed packages by name."""
    return {name: package_version(name) for name in packages}


class Channel:
    """The system's end of the connection: requests on stdin, responses as events."""

    def __init__(self) -> None:
        events.start()

    def receive(self) -> Message:
        """Return the next request. The process exits when there are no more."""
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        message: Message = json.loads(line)
        return message

    def send(self, message: Mapping[str, object]) -> None:
        """Send a response. NaN and infinite values become None."""
        events.emit("measurement", result=message)

    def serve(self, greeting: Message, handle: Callable[[Message], None]) -> None:
        """Send a greeting, then handle all requests. An exception is sent as an error."""
        self.send(greeting)
        while True:
            request = self.receive()
            try:
                handle(request)
            except TooLarge as reason:
                self.send({"refusal": str(reason)})
            except Exception as error:
                text = " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
                self.send({"error": f"{type(error).__name__}: {text}"})
