"""A proxy that simulates distant cloud storage, with a latency and a bandwidth.

    python -m benchmarks.latency_proxy EMULATOR_PORT LATENCY_MS MEGABYTES_PER_SECOND

It prints its port. It supports only GET and caches all responses of the emulator, so that the speed
of the emulator, which is written in Python, has no effect. GET /counted returns the number of
requests and bytes of objects.
"""

import asyncio
import contextlib
import http.client
import json
import sys
import time

Response = tuple[int, dict[str, str], bytes]


class Proxy:
    """A link with a latency, shared by all connections.

    Args:
        emulator_port: Port of the emulator.
        latency_seconds: Time from a request to the first byte of its response.
        bytes_per_second: Bandwidth of all responses together.
    """

    def __init__(self, emulator_port: int, latency_seconds: float, bytes_per_second: float) -> None:
        self._emulator_port = emulator_port
        self._latency_seconds, self._bytes_per_second = latency_seconds, bytes_per_second
        self._cache: dict[str, Response] = {}
        self._free = 0.0  # time when the link has sent all pending bytes
        self.requests = self.bytes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to the requests of a connection, one after another."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                target = head[0].split()[1]
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                await self._send(writer, *await self._respond(target, headers))
        writer.close()

    async def _respond(self, target: str, headers: dict[str, str]) -> Response:
        if target == "/counted":
            counts = {"requests": self.requests, "bytes": self.bytes}
            return 200, {}, json.dumps(counts).encode()
        if target not in self._cache:
            self._cache[target] = await asyncio.to_thread(self._fetch, target)
        status, more, body = self._cache[target]
        if status == 200 and "range" in headers:
            first, last = headers["range"].removeprefix("bytes=").split("-")
            total, body = len(body), body[int(first) : int(last) + 1]
            status, more = 206, {"Content-Range": f"bytes {first}-{last}/{total}"}
        if target.startswith("/download"):
            self.requests += 1
            self.bytes += len(body)
        return status, more, body

    def _fetch(self, target: str) -> Response:
        peer = http.client.HTTPConnection("127.0.0.1", self._emulator_port, timeout=30)
        peer.request("GET", target)
        response = peer.getresponse()
        kept = {
            n: v for n, v in response.getheaders() if n.lower().startswith(("content-t", "x-g"))
        }
        return response.status, kept, response.read()

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, more: dict[str, str], body: bytes
    ) -> None:
        start = max(self._free, time.monotonic() + self._latency_seconds)
        self._free = start + len(body) / self._bytes_per_second
        await asyncio.sleep(self._free - time.monotonic())
        lines = [f"{name}: {value}" for name, value in more.items()]
        head = [f"HTTP/1.1 {status} status", *lines, f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(head).encode("latin-1") + body)
        await writer.drain()


async def main() -> None:
    """Serve until the process is stopped."""
    proxy = Proxy(int(sys.argv[1]), float(sys.argv[2]) / 1e3, float(sys.argv[3]) * 1e6)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
