"""Cloud storage at a distance: a proxy before an emulator, with a delay and a bandwidth.

`python -m benchmarks.latency_proxy EMULATOR_PORT DELAY_MS MEGABYTES_PER_SECOND` prints its port. It answers
GET alone, from what it has asked the emulator for once, so that the emulator's own speed (it is
written in Python) is not what is measured. GET /counted gives the requests and the bytes of objects
that went through.
"""

import asyncio
import contextlib
import http.client
import json
import sys
import time

Answer = tuple[int, dict[str, str], bytes]


class Proxy:
    """One link with a delay, shared by all connections.

    Args:
        emulator: The emulator's port.
        delay: Seconds from a request to its answer's first byte.
        rate: Bytes a second, of all answers together.
    """

    def __init__(self, emulator: int, delay: float, rate: float) -> None:
        self._emulator, self._delay, self._rate = emulator, delay, rate
        self._known: dict[str, Answer] = {}
        self._free = 0.0  # when the link has sent all that it was given
        self.requests = self.bytes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection's requests, one after another."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                target = head[0].split()[1]
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                await self._send(writer, *await self._answer(target, headers))
        writer.close()

    async def _answer(self, target: str, headers: dict[str, str]) -> Answer:
        if target == "/counted":
            told = {"requests": self.requests, "bytes": self.bytes}
            return 200, {}, json.dumps(told).encode()
        if target not in self._known:
            self._known[target] = await asyncio.to_thread(self._ask, target)
        status, more, body = self._known[target]
        if status == 200 and "range" in headers:
            first, last = headers["range"].removeprefix("bytes=").split("-")
            total, body = len(body), body[int(first) : int(last) + 1]
            status, more = 206, {"Content-Range": f"bytes {first}-{last}/{total}"}
        if target.startswith("/download"):
            self.requests += 1
            self.bytes += len(body)
        return status, more, body

    def _ask(self, target: str) -> Answer:
        peer = http.client.HTTPConnection("127.0.0.1", self._emulator, timeout=30)
        peer.request("GET", target)
        answer = peer.getresponse()
        kept = {n: v for n, v in answer.getheaders() if n.lower().startswith(("content-t", "x-g"))}
        return answer.status, kept, answer.read()

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, more: dict[str, str], body: bytes
    ) -> None:
        start = max(self._free, time.monotonic() + self._delay)
        self._free = start + len(body) / self._rate
        await asyncio.sleep(self._free - time.monotonic())
        lines = [f"{name}: {value}" for name, value in more.items()]
        head = [f"HTTP/1.1 {status} said", *lines, f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(head).encode("latin-1") + body)
        await writer.drain()


async def main() -> None:
    """Serve until the process is ended."""
    emulator, delay, rate = int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) * 1e6
    server = await asyncio.start_server(Proxy(emulator, delay, rate).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
