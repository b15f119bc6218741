"""An HTTPS server with a certificate authority of its own, which records what it is sent."""

import datetime
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass
class Received:
    """A request.

    Attributes:
        method: Its method.
        path: Its path.
        headers: Its headers.
        body: Its JSON.
        time: When it came, in seconds of the monotonic clock.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    time: float


@dataclass
class TlsServer:
    """A running server.

    Attributes:
        url: Its address.
        authority: The file of the certificate that its own is checked by.
        requests: What it has received.
        code: The code of its answers.
        location: A header of them; empty for none.
        delay_seconds: The time before each answer.
    """

    url: str
    authority: Path
    requests: list[Received] = field(default_factory=list)
    code: int = 200
    location: str = ""
    delay_seconds: float = 0.0


def _certificate(
    name: str, issuer: str, key: Any, signer: Any, *, is_authority: bool
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def write_certificates(folder: Path, name: str = "ca") -> tuple[Path, Path]:
    """Write a new authority's certificate, and a server's with its key; return both files."""
    pem = serialization.Encoding.PEM
    root, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate(name, name, root, root, is_authority=True)
    server = _certificate("server", name, key, root, is_authority=False)
    folder.joinpath(f"{name}.crt").write_bytes(authority.public_bytes(pem))
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    folder.joinpath(f"{name}-server.pem").write_bytes(server.public_bytes(pem) + private)
    return folder / f"{name}.crt", folder / f"{name}-server.pem"


@contextmanager
def tls_server(folder: Path) -> Iterator[TlsServer]:
    """Run a server whose certificates are in a folder."""
    authority, certificate = write_certificates(folder)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(data) if data else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            it.requests.append(Received(self.command, self.path, headers, body, time.monotonic()))
            time.sleep(it.delay_seconds)
            self.send_response(it.code)
            if it.location:
                self.send_header("Location", it.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_CONNECT = do_POST

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that refuses the certificate

    http = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    it = TlsServer(f"https://127.0.0.1:{http.server_port}", authority)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield it
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
