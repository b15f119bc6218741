"""Benchmark systems in processes of their own, which run in turns.

A request is a line of JSON on the system's stdin. A response is an event of kind `measurement`.
The first request names a case and a task; the system prepares them and responds. Each further
request starts one round; the response has its time. So all systems run in turns, and other load on
the machine affects them equally.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from common import events
from common.processes import ManagedProcess

Message = dict[str, Any]

START_TIMEOUT_SECONDS = 120.0
"""Time for the imports of a system; TensorFlow takes long on a busy machine."""

RESPONSE_TIMEOUT_SECONDS = 300.0
"""Time for a response, unless a system has its own limit."""

MAX_ERROR_CHARACTERS = 300


class SystemFailed(Exception):
    """A system did not respond, ended, or reported an error."""


class SubprocessSystem:
    """A system in its own process, started at the first request and again after a failure.

    Args:
        name: Name of the system.
        command: Command of the process.
        timeout_seconds: Time limit of a response.

    Attributes:
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
        self._command, self._timeout_seconds = command, timeout_seconds
        self._process: ManagedProcess | None = None

    def request(self, message: Message) -> Message:
        """Send a message and return the response.

        Raises:
            SystemFailed: There is no response, or it is an error.
        """
        if self._process is None:
            self._process = ManagedProcess(
                self._command, name=self.name, stdin=True, stdout="discard", stderr="capture"
            )
            self.versions = self._response(self._process, START_TIMEOUT_SECONDS)["versions"]
        self._process.send_line(json.dumps(message))  # if it has ended, the response is its exit
        return self._response(self._process, self._timeout_seconds)

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
                if "error" in response:
                    raise SystemFailed(f"{self.name}: {response['error']}")
                return response
            if event.kind == "exit":
                self.close()
                raise SystemFailed(f"{self.name} ended: {event.text('reason')}")
        self.close()
        raise SystemFailed(f"{self.name} did not respond within {timeout_seconds:.0f} s")


def peak_gib() -> float:
    """Return the peak resident memory of this process, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of installed packages by name."""
    return {name: metadata.version(name) for name in packages}


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
            except Exception as error:
                text = " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
                self.send({"error": f"{type(error).__name__}: {text}"})
