"""An image registry in this process: the part of the distribution protocol that a push uses."""

import ctypes
import hashlib
import os
import re
import socket
import struct
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


def enter_dockers_network() -> None:
    """Move this thread to the network of docker's daemon: `make cluster` has a separate one."""
    with socket.socket(socket.AF_UNIX) as docker:
        docker.connect("/var/run/docker.sock")
        credentials = docker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    network = f"/proc/{struct.unpack('3i', credentials)[0]}/ns/net"
    if os.geteuid() != 0 or os.stat(network).st_ino == os.stat("/proc/self/ns/net").st_ino:
        return
    with open(network) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")


class Registry:
    """Listens on a free port of docker's own 127.0.0.1.

    Args:
        denies: Answer every request with 401.

    Attributes:
        manifests: Digests of pushed images by repository and tag.
    """

    def __init__(self, denies: bool = False) -> None:
        self.manifests: dict[str, str] = {}
        kept: dict[str, bytes] = {}
        uploads: dict[str, bytes] = {}
        manifests = self.manifests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def _handle(self) -> None:
                body = self._body()
                path, _, query = self.path.partition("?")
                if denies:
                    challenge = {"WWW_Authenticate": 'Basic realm="registry"'}
                    self._answer(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', **challenge)
                elif path == "/v2/":
                    self._answer(200)
                elif self.command == "POST":
                    name = uuid.uuid4().hex
                    uploads[name] = b""
                    self._answer(202, Location=f"{path}{name}", Docker_Upload_UUID=name)
                elif self.command == "PATCH":
                    name = path.rpartition("/")[2]
                    uploads[name] += body
                    last = f"0-{len(uploads[name]) - 1}"
                    self._answer(202, Location=path, Docker_Upload_UUID=name, Range=last)
                elif self.command == "PUT" and "/uploads/" in path:
                    content = uploads.pop(path.rpartition("/")[2]) + body
                    digest = query.replace("%3A", ":").partition("digest=")[2]
                    assert digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
                    kept[digest] = content
                    self._answer(201, Location=path, Docker_Content_Digest=digest)
                elif self.command == "PUT":
                    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
                    kept[digest] = body
                    place = re.fullmatch(r"/v2/(.*)/manifests/(.*)", path)
                    assert place
                    manifests[f"{place[1]}:{place[2]}"] = digest
                    self._answer(201, Location=path, Docker_Content_Digest=digest)
                elif (digest := path.rpartition("/")[2]) in kept:
                    self._answer(200, kept[digest], Docker_Content_Digest=digest)
                else:
                    self._answer(404)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = _handle

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        made: list[ThreadingHTTPServer] = []

        def listen() -> None:
            enter_dockers_network()
            made.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))

        # Only this thread changes its network; its socket stays in that network.
        listening = threading.Thread(target=listen)
        listening.start()
        listening.join()
        self._server = made[0]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """host:port, as in an image's name."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
