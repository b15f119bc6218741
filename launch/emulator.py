"""The storage of overlay `local`: gcp-storage-emulator on a volume, with what jobs rely on.

    python -m launch.emulator FOLDER PORT BUCKET [HOST]

FOLDER "" keeps objects in memory. The emulator lacks four properties of Google Cloud Storage, which
are added here:

- Conditional requests: `ifGenerationMatch` of uploads and deletions, and the generation in the
  response of a download. Leases of runs need them.
- Writes survive SIGKILL: the emulator overwrites its list of objects in place. Here each file is
  replaced atomically.
- A client that stops in the middle of a request does not block the others.
- Deleted objects are freed: buckets retain them for a week, so the list would grow without limit.
  Here retention is off.
"""

import io
import os
import signal
import sys
import threading
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import NoReturn
from urllib.parse import parse_qs, urlparse

from gcp_storage_emulator import storage
from gcp_storage_emulator.handlers import buckets
from gcp_storage_emulator.server import RequestHandler

REQUEST_TIMEOUT_SECONDS = 30.0
"""Longest pause of a client in a request; then its connection is closed."""

CONDITION = "ifGenerationMatch"

_lock = threading.Lock()  # held while a request is carried out, and never while a client is awaited


class AtomicFileStore(storage._FileStore):
    """A file store that replaces files atomically."""

    def write_bytes(self, rel: str, content: bytes) -> None:
        """Write a temporary file, then rename it."""
        if self._use_memory:
            super().write_bytes(rel, content)
            return
        part = f"{rel}.part"
        super().write_bytes(part, content)
        os.replace(self._disk_path(part), self._disk_path(rel))


class PreconditionFailed(Exception):
    """The object has another generation than the request expects."""


class ConditionalStorage(storage.Storage):
    """A storage that checks the condition of the current request.

    Attributes:
        expected: Generation that the request expects of the object it changes; None for any.
        generation: Generation of the object that the request has read; None for none.
    """

    expected: int | None = None
    generation: str | None = None

    def create_file(
        self, bucket_name: str, file_name: str, *args: object, **kwargs: object
    ) -> None:
        """Write an object on the request's condition."""
        self._check(bucket_name, file_name)
        super().create_file(bucket_name, file_name, *args, **kwargs)

    def create_resumable_upload(self, bucket_name: str, file_name: str, *args: object) -> str:
        """Begin an upload on the request's condition."""
        self._check(bucket_name, file_name)
        return super().create_resumable_upload(bucket_name, file_name, *args)

    def delete_file(self, bucket_name: str, file_name: str) -> None:
        """Delete an object on the request's condition."""
        self._check(bucket_name, file_name)
        super().delete_file(bucket_name, file_name)

    def get_file_obj(self, bucket_name: str, file_name: str) -> dict[str, object]:
        """Return the metadata of an object and note its generation."""
        found = super().get_file_obj(bucket_name, file_name)
        self.generation = str(found["generation"])
        return found

    def _check(self, bucket_name: str, file_name: str) -> None:
        current = self.objects.get(bucket_name, {}).get(file_name, {}).get("generation", 0)
        if self.expected not in (None, int(current)):
            raise PreconditionFailed


class ConditionalHandler(RequestHandler):
    """Carries out one request at a time, each between reading its body and sending its response."""

    timeout = REQUEST_TIMEOUT_SECONDS
    storage: ConditionalStorage
    rfile: io.BufferedIOBase
    wfile: io.BufferedIOBase

    def handle_one_request(self) -> None:
        """Receive a request, carry it out under the lock, and send the response."""
        self.raw_requestline = self.rfile.readline(65_537)
        if len(self.raw_requestline) > 65_536 or not self.parse_request():
            self.close_connection = True
            return
        chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        reader, writer = self.rfile, self.wfile
        if not chunked:
            self.rfile = io.BytesIO(reader.read(int(self.headers.get("Content-Length") or 0)))
        try:
            self.wfile = io.BytesIO()
            with _lock:
                self._carry_out()
            writer.write(self.wfile.getvalue())
        finally:
            self.rfile, self.wfile = reader, writer
            self.close_connection = True

    def _carry_out(self) -> None:
        condition = parse_qs(urlparse(self.path).query).get(CONDITION)
        self.storage.expected = int(condition[0]) if condition else None
        self.storage.generation = None
        try:
            method = getattr(self, f"do_{self.command}", None)
            if method is None:
                self.send_error(HTTPStatus.NOT_IMPLEMENTED)
            else:
                method()
        except PreconditionFailed:
            body = b'{"error": {"code": 412, "message": "conditionNotMet"}}'
            self.send_response(HTTPStatus.PRECONDITION_FAILED)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the generation of the object that was read."""
        if self.storage.generation is not None:
            self.send_header("X-Goog-Generation", self.storage.generation)
        super().end_headers()


class Server(ThreadingHTTPServer):
    """Serves each connection in a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: a client that disconnects is not an error of the server."""


def interrupt(number: int, frame: object) -> NoReturn:
    """End the server."""
    raise KeyboardInterrupt


def main(folder: str, port: str, bucket: str, host: str = "0.0.0.0") -> None:  # noqa: S104 - a pod
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, interrupt)
    storage._FileStore = AtomicFileStore
    content = ConditionalStorage(use_memory_fs=not folder, data_dir=folder or None)
    buckets.create_bucket(bucket, content)
    content.buckets[bucket]["softDeletePolicy"]["retentionDurationSeconds"] = "0"
    server = Server((host, int(port)), partial(ConditionalHandler, content))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        _lock.acquire()  # no file is partially written
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
