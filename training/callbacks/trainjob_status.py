"""The progress of a training in the status of its TrainJob, where `kubectl get` shows it.

Kubeflow Trainer 2.2 and later give the pods of a TrainJob an address for it, if its feature gate
TrainJobStatus is on (its proposal 2779). The chief posts there, from a thread of its own. Failures
never reach the training: the first is a warning, and later posts are still tried.
"""

import contextlib
import http.client
import json
import logging
import math
import os
import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

log = logging.getLogger("qfleet")

PREFIXES = ("KUBEFLOW_TRAINER_SERVER", "KUBEFLOW_TRAINER_STATUS")
"""Of the variables: of releases, and of the proposal's first form."""
VARIABLES = ("URL", "CA_CERT", "TOKEN")
"""After a prefix: the address, the path of the certificates that the server's is checked by, and
that of the token, which the kubelet replaces before it expires."""

INTERVAL_SECONDS = 5.0
"""Shortest interval between two posts; Kubeflow's own client has the same."""

TIMEOUT_SECONDS = 5.0
"""Longest time to connect, and to wait for each part of the response."""

LAST_SECONDS = 2.0
"""Longest time in which the end of a training waits for the last post."""

MAX_METRICS = 256
MAX_CHARACTERS = 64
"""Limits of the TrainJob's status: metrics, and characters of a name or a value."""

MAX_SECONDS = 2**31 - 1
MAX_RESPONSE_BYTES = 1 << 16

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class StatusServer:
    """The address that Trainer has given to this pod.

    Args:
        url: The address, of the scheme https.
        authority: The file with the certificates that the server's is checked by.
        token: The file with the token.
    """

    url: SplitResult
    authority: Path
    token: Path

    @classmethod
    def from_environment(cls) -> "StatusServer | None":
        """Return the address; None without one, or with one that is not safe to use."""
        found = (prefix for prefix in PREFIXES if os.environ.get(f"{prefix}_URL"))
        prefix = next(found, None)
        if prefix is None:
            return None
        address, *others = (f"{prefix}_{name}" for name in VARIABLES)
        url, files = urlsplit(os.environ[address]), [os.environ.get(name, "") for name in others]
        if url.scheme != "https" or not url.hostname or "@" in url.netloc:
            log.warning(
                f"the TrainJob's status is not updated: {address} is not an https:// address"
            )
            return None
        if not all(files):
            log.warning(
                f"the TrainJob's status is not updated: {address} needs {' and '.join(others)}"
            )
            return None
        return cls(url, *map(Path, files))

    def __str__(self) -> str:
        return f"{self.url.hostname}:{self.url.port or 443}"

    def post(self, body: Mapping[str, object]) -> None:
        """Send a status. Neither a proxy nor a redirect is followed.

        Args:
            body: The request's JSON.

        Raises:
            OSError, http.client.HTTPException, ValueError: It was not accepted; no text of these
                errors has the token.
        """
        token = self.token.read_text(encoding="ascii").strip()
        if not re.fullmatch(r"[\w.~+/=-]+", token, re.ASCII):
            raise ValueError("the file of the token has no token")
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = http.client.HTTPSConnection(
            str(self.url.hostname), self.url.port, timeout=TIMEOUT_SECONDS, context=context
        )
        target = self.url._replace(scheme="", netloc="", fragment="").geturl()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request("POST", target or "/", json.dumps(body), headers)
            response = connection.getresponse()
            response.read(MAX_RESPONSE_BYTES)
        if not 200 <= response.status < 300:
            raise ValueError(f"the answer is {response.status}")


class TrainJobStatus:
    """Posts the newest progress, at most every INTERVAL_SECONDS.

    Args:
        server: Where to post; None posts nothing.
        interval_seconds: Another interval.
    """

    def __init__(
        self, server: StatusServer | None, interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        self._server, self._interval = server, interval_seconds
        self._changed = threading.Condition()
        self._latest: dict[str, object] | None = None  # older ones are replaced
        self._metrics: Metrics = {}
        self._first: tuple[float, int] | None = None  # time and steps of the first report
        self._ends = self._fails = self._has_warned = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, if there is a server."""
        if self._server is not None:
            self._thread = threading.Thread(target=self._run, name="TrainJob status", daemon=True)
            self._thread.start()

    def report(self, done: int, steps: int, metrics: Metrics | None = None) -> None:
        """Take the progress of the run. Returns at once.

        Args:
            done: Steps of the whole run that are done.
            steps: Steps of the whole run.
            metrics: New metrics; None keeps the last ones.
        """
        if self._thread is None:
            return
        now = time.monotonic()
        self._first = self._first or (now, done)
        self._metrics = self._metrics if metrics is None else metrics
        status: dict[str, object] = {
            "progressPercentage": min(100 * done // max(steps, 1), 100),
            "metrics": _listed(self._metrics),
            "lastUpdatedTime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        since, before = self._first
        if done > before:
            remaining = (now - since) / (done - before) * max(steps - done, 0)
            status["estimatedRemainingSeconds"] = min(math.ceil(remaining), MAX_SECONDS)
        with self._changed:
            self._latest = {"trainerStatus": status}
            self._changed.notify()

    def close(self, wait_seconds: float = LAST_SECONDS) -> None:
        """End the thread, after it has posted what is left, unless the server has failed.

        Args:
            wait_seconds: Longest time to wait.
        """
        with self._changed:
            self._ends = True
            if self._fails:
                self._latest = None
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(wait_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ends or self._latest is not None)
                latest, self._latest = self._latest, None
            if latest is None:
                return
            self._post(latest)
            with self._changed:
                self._changed.wait_for(lambda: self._ends, self._interval)

    def _post(self, body: Mapping[str, object]) -> None:
        assert self._server is not None
        try:
            self._server.post(body)
            self._fails = False
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._fails = True
            if not self._has_warned:
                self._has_warned = True
                log.warning(
                    f"the TrainJob's status is not updated by {self._server}, and training"
                    f" continues: {_cause(error)}"
                )


@contextlib.contextmanager
def open_status(*, is_chief: bool) -> Iterator[TrainJobStatus]:
    """Provide the status of this pod's TrainJob; without one, reports have no effect.

    Args:
        is_chief: False for the workers that post nothing.
    """
    status = TrainJobStatus(StatusServer.from_environment() if is_chief else None)
    status.start()
    try:
        yield status
    except BaseException:
        status.close(0)  # an error ends the worker without a delay
        raise
    status.close()


def _listed(metrics: Metrics) -> list[dict[str, str]]:
    """Return metrics as the status has them; those that are not finite are left out."""
    found = [
        {"name": name[:MAX_CHARACTERS], "value": f"{value:.6g}"}
        for name, value in metrics.items()
        if name and math.isfinite(value)
    ]
    return found[:MAX_METRICS]


def _cause(error: Exception) -> str:
    """Return a cause without text of the server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return f"no response within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, UnicodeDecodeError):
        return "the file of the token has no token"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) if type(error) is ValueError else type(error).__name__
