"""Storage in gs:// against a real emulator, also one that answers 503 to every third request."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from common import storage
from common.errors import StorageError, StorageUnavailable
from common.storage import StoragePath
from tests.support.patience import seconds
from tests.support.storage_emulator import BUCKET, Emulator, Proxy, point_to


class Handler(BaseHTTPRequestHandler):
    """Base class of the servers of this module, which log nothing."""

    def log_message(self, *_: object) -> None:
        """Ignore a request."""


@contextlib.contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    """Run a server; its address is http://127.0.0.1:PORT."""
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_read_is_never_cached(root: StoragePath) -> None:
    file = root / "a" / "file.json"
    for content in (b"first", b"second", b"", b"third"):
        storage.write_atomic(file, content)
        assert storage.read_bytes(file) == content
    storage.write_json(file, {"a": 1})
    assert storage.read_json(file) == {"a": 1}


def test_children_files_exists_and_delete_on_any_storage(root: StoragePath) -> None:
    for name in ("a", "b/c", "b/d/e", "bb"):
        storage.write_atomic(root / name, name)
    assert [p.name for p in storage.children(root)] == ["a", "b", "bb"]
    assert [str(p).removeprefix(str(root)) for p in storage.files(root)] == [
        "/a",
        "/b/c",
        "/b/d/e",
        "/bb",
    ]
    assert storage.exists(root / "a")
    assert storage.exists(root / "b")
    assert not storage.exists(root / "c")
    storage.delete(root / "b")
    assert [p.name for p in storage.children(root)] == ["a", "bb"]
    storage.delete(root / "b")


def test_a_missing_file_is_file_not_found(root: StoragePath) -> None:
    storage.write_atomic(root / "there", b"x")
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            storage.read_bytes(root / "not-there")
        with pytest.raises(FileNotFoundError), storage.local_copy(root / "not-there"):
            pass


def test_large_file_is_uploaded_and_copied_back(root: StoragePath, tmp_path: Path) -> None:
    source = tmp_path / "weights.h5"
    source.write_bytes(bytes(range(256)) * 40_000)  # 10 MB: more than one request carries
    storage.write_atomic(root / "model" / "weights.h5", source)
    with storage.local_copy(root / "model" / "weights.h5") as copy:
        assert copy.name == "weights.h5"
        assert copy.read_bytes() == source.read_bytes()


def test_missing_bucket_is_a_storage_error(gs: str) -> None:
    there_is_none = storage.path("gs://no-such-bucket/runs")
    for act in (
        lambda: storage.write_atomic(there_is_none / "run.json", b"x"),
        lambda: storage.read_bytes(there_is_none / "run.json"),
        lambda: storage.children(there_is_none),
        lambda: storage.exists(there_is_none / "run.json"),
        lambda: storage.create_exclusive(there_is_none / "lease.json", b"x"),
        lambda: storage.delete(there_is_none),
    ):
        with pytest.raises(StorageError) as caught:
            act()
        assert str(caught.value) == (
            "bucket gs://no-such-bucket does not exist: create it or change STORAGE"
        )


def test_missing_bucket_exits_with_2(gs: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qfleet", "runs", "STORAGE=gs://no-such-bucket"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "qfleet: bucket gs://no-such-bucket does not exist: create it or change STORAGE\n"
    )


def test_object_with_a_path_in_its_name_leads_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["run.json", "../x", "/other/y", "./z"]
    deleted = []

    class Bucket(Handler):
        def do_GET(self) -> None:
            listed = {"items": [{"name": f"runs/evil/{name}"} for name in names]}
            if "delimiter" in self.path:
                prefixes = [f"runs/evil/{first}/" for first in ("..", "", ".")]
                listed = {"items": listed["items"][:1], "prefixes": prefixes}
            content = json.dumps(listed).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_DELETE(self) -> None:
            deleted.append(unquote(self.path.partition("/o/")[2].partition("?")[0]))
            self.send_response(204)
            self.end_headers()

    with serving(Bucket) as address:
        point_to(monkeypatch, address)
        run = storage.path(f"gs://{BUCKET}/runs/evil")
        assert storage.children(run) == [run / "run.json"]
        assert storage.files(run) == [run / "run.json"]
        storage.delete(run)
    assert deleted == ["runs/evil", *(f"runs/evil/{name}" for name in names)]


def test_object_of_unknown_length_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0

    class Endless(Handler):
        def do_GET(self) -> None:
            nonlocal sent
            self.send_response(200)  # without a length: until the connection ends
            self.send_header("X-Goog-Generation", "1")
            self.end_headers()
            with contextlib.suppress(OSError):
                while sent < 1 << 28:
                    sent += self.wfile.write(bytes(1 << 16))

    with serving(Endless) as address:
        point_to(monkeypatch, address)
        file = storage.path(f"gs://{BUCKET}/file")
        with pytest.raises(storage.FileTooLarge):
            storage.read_bytes(file, max_bytes=1000)
        with pytest.raises(StorageError, match="is damaged"):
            storage.read_versioned(file)
    assert sent < 1 << 26


def test_stopped_storage_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Emulator().start()
    try:
        point_to(monkeypatch, own.address)
        file = storage.path(f"gs://{BUCKET}/file")
        storage.write_atomic(file, b"x")
    finally:
        own.stop()
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", 1.5)
    for act in (
        lambda: storage.write_atomic(file, b"y"),
        lambda: storage.read_bytes(file),
        lambda: storage.children(file.parent),
        lambda: storage.exists(file),
        lambda: storage.delete(file),
    ):
        start = time.monotonic()
        with pytest.raises(StorageUnavailable, match=r"does not respond .*no connection"):
            act()
        assert time.monotonic() - start < seconds(5)


def test_temporary_failures_are_retried(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(emulator, lambda number: 503 if number <= 3 else None) as proxy:
        point_to(monkeypatch, proxy.address)
        file = storage.path(f"gs://{BUCKET}/waited-for")
        storage.write_atomic(file, b"x")
        assert proxy.failed == 3
        assert storage.read_bytes(file) == b"x"


@pytest.mark.parametrize(("status", "told"), [(401, "cannot be refreshed"), (403, "403 Forbidden")])
def test_permission_denied_is_a_storage_error(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, status: int, told: str
) -> None:
    with Proxy(emulator, lambda _: status) as proxy:
        point_to(monkeypatch, proxy.address)
        file = storage.path(f"gs://{BUCKET}/x")
        for act in (lambda: storage.write_atomic(file, b"x"), lambda: storage.read_bytes(file)):
            with pytest.raises(StorageError, match=f"gs://{BUCKET}/x .*{told}"):
                act()


def test_too_many_requests_is_retryable(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", 1.0)
    with Proxy(emulator, lambda _: 429) as proxy:
        point_to(monkeypatch, proxy.address)
        with pytest.raises(StorageUnavailable, match="429"):
            storage.write_atomic(storage.path(f"gs://{BUCKET}/x"), b"x")


def test_emulator_address_without_scheme_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(monkeypatch, "localhost:9023")
    with pytest.raises(StorageError, match="must be http://host:port"):
        storage.path(f"gs://{BUCKET}/x")


def test_missing_credentials_are_a_storage_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(StorageError, match="gcloud auth application-default login"):
        storage.path(f"gs://{BUCKET}/x")


def test_read_uses_the_configured_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Through(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://storage.invalid:4443")
    with serving(Through) as address:
        monkeypatch.setenv("http_proxy", address)
        assert storage.read_bytes(storage.path("gs://bucket/file")) == b"hello"
    assert asked == ["http://storage.invalid:4443/download/storage/v1/b/bucket/o/file?alt=media"]
