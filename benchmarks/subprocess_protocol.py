"""How the one who measures talks with the systems, a process each: a line of JSON each way.

A request names a cell and a task. The system gets ready and answers; then, for each round, it
hears that it is its turn, works, and answers with the time. So the systems take turns, and
whatever else the machine does meets them all alike.
"""

import contextlib
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import metadata
from typing import Any

Message = dict[str, Any]
START_S = 120.0  # importing TensorFlow on a busy machine
ANSWER_S = 300.0  # the longest that an answer may take, unless a system is given more


class SystemFailed(Exception):
    """A system did not answer, ended or refused; the text says which and why."""


class SubprocessSystem:
    """A system in a process of its own, started at the first request and again after a failure."""

    def __init__(self, name: str, command: list[str], patience: float = ANSWER_S) -> None:
        self.name = name
        self._patience = patience  # seconds
        self.versions: dict[str, str] = {}
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def ask(self, message: Message) -> Message:
        """Send a message and wait for the answer.

        Raises:
            SystemFailed: There is no answer, or it is an error.
        """
        if self._process is None:
            self._start()
            self.versions = self._answer(START_S)["versions"]
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: its last word says why
        return self._answer(self._patience)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reader.join()  # it ends with the process's stdout
            with contextlib.suppress(BrokenPipeError), self._process, self._log:
                pass  # closes its pipes; what it did not hear is lost
            self._process = None

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, it lives as long as the process
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(
            target=self._read, args=(self._process, self._lines), daemon=True
        )
        self._reader.start()

    @staticmethod
    def _read(process: "subprocess.Popen[str]", lines: "queue.Queue[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")  # it has ended

    def _answer(self, seconds: float) -> Message:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise SystemFailed(f"{self.name} did not answer within {seconds:.0f} s") from None
        if not line:
            assert self._process is not None
            code = self._process.wait()
            self._log.seek(0)
            said = [text.strip() for text in self._log if text.strip()]
            self.close()
            raise SystemFailed(f"{self.name} ended with {code}: {said[-1] if said else 'no word'}")
        answer = json.loads(line)
        if "error" in answer:
            raise SystemFailed(f"{self.name}: {answer['error']}")
        return answer


def peak_gib() -> float:
    """The most resident memory that this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def versions(packages: list[str]) -> dict[str, str]:
    """Which versions of packages this process has."""
    return {name: metadata.version(name) for name in packages}


class Channel:
    """A system's end of the talk: stdin and stdout; whatever else is printed goes to stderr."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def hear(self) -> Message:
        """The next message; the process ends where there is none."""
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        return json.loads(line)

    def say(self, message: Message) -> None:
        """Answer."""
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def serve(self, hello: Message, answer: Callable[[Message], None]) -> None:
        """Answer requests until there are no more; an exception is an answer as well."""
        self.say(hello)
        while True:
            request = self.hear()
            try:
                answer(request)
            except Exception as error:
                text = " ".join(str(error).split())[:300]
                self.say({"error": f"{type(error).__name__}: {text}"})
