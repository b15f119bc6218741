"""A real emulator of Google Cloud Storage for tests, and a proxy that fails before it.

tests/conftest.py gives the fixtures `emulator`, `gs`, `flaky_gs` and `root` to every test.
Each starts real processes or sockets on free ports of 127.0.0.1.
"""

import http.client
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest

from common import storage
from tests.support.patience import seconds, wait_until
from tests.support.ports import own_port

BUCKET = "qfleet-test"
ROOT = Path(__file__).resolve().parents[2]


class Emulator:
    """A process of launch/emulator.py with one bucket.

    Args:
        port: Its port; any free one by default.
        folder: Where it keeps its objects; in memory by default.
    """

    def __init__(self, port: int | None = None, folder: Path | str = "") -> None:
        self.port, self.folder = port or own_port(), str(folder)
        self._process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        """The value for STORAGE_EMULATOR_HOST."""
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """Return the command of the server."""
        command = [sys.executable, "-m", "launch.emulator", self.folder, str(self.port)]
        return [*command, BUCKET, "127.0.0.1"]

    def create_bucket(self) -> None:
        """Create the bucket, where the command does not."""

    def start(self) -> Self:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(
            self.command(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: self._process.poll() is not None or _answers(self.port), 30)
        assert self._process.poll() is None, "the emulator did not start"
        self.create_bucket()
        return self

    def request(self, method: str, path: str, body: str) -> None:
        """Send a request of JSON."""
        peer = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds(30))
        peer.request(method, path, body, {"Content-Type": "application/json"})
        assert peer.getresponse().status == 200
        peer.close()

    def stop(self) -> None:
        """Kill the process; objects in memory are lost."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


class Proxy:
    """An HTTP proxy before an emulator.

    Args:
        emulator: Where requests go.
        fails: Number of the request, counted from 1 -> the status that it is answered with
            instead, or None to hand it on.
    """

    def __init__(self, emulator: Emulator, fails: Callable[[int], int | None]) -> None:
        self._fails = fails
        self._count = 0
        self._lock = threading.Lock()
        self.failed = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = proxy._next()
                if status is not None:
                    self._answer(status, {}, b'{"error": {"message": "made to fail"}}')
                    return
                peer = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=seconds(30))
                try:
                    peer.request(self.command, self.path, body, dict(self.headers))
                    answer = peer.getresponse()
                    self._answer(answer.status, dict(answer.getheaders()), answer.read())
                finally:
                    peer.close()

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _handle

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() != "content-length":
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def _next(self) -> int | None:
        with self._lock:
            self._count += 1
            status = self._fails(self._count)
            self.failed += status is not None
            return status

    @property
    def address(self) -> str:
        """The value for STORAGE_EMULATOR_HOST."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def every_third(number: int) -> int | None:
    """503 for each third request."""
    return 503 if number % 3 == 0 else None


def _answers(port: int) -> bool:
    peer = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds(5))
    try:
        peer.request("GET", "/storage/v1/b")
        return peer.getresponse().read() is not None
    except OSError:
        return False
    finally:
        peer.close()


def point_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Make this process and those it starts use the emulator or proxy at this address."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    """One emulator for all tests of the session."""
    running = Emulator().start()
    yield running
    running.stop()


@pytest.fixture
def gs(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty STORAGE in the emulator, gs://..., for this test alone."""
    point_to(monkeypatch, emulator.address)
    return f"gs://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture
def flaky_gs(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same, but 503 is the answer to every third request."""
    with Proxy(emulator, every_third) as proxy:
        point_to(monkeypatch, proxy.address)
        yield f"gs://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "gs", "flaky_gs"])
def root(request: pytest.FixtureRequest) -> storage.StoragePath:
    """An empty STORAGE: a folder, the emulator, and the emulator that often fails."""
    if request.param == "local":
        folder: Path = request.getfixturevalue("tmp_path")
        return folder / "runs"
    return storage.path(request.getfixturevalue(request.param))


__all__ = ["BUCKET", "Emulator", "Proxy", "emulator", "every_third", "flaky_gs", "gs", "root"]
