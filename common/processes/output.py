"""Output of a child process, read from its pipes."""

import os
import selectors
from collections.abc import Callable

from common.events import LineSplitter

MAX_KEPT_BYTES = 1 << 20
"""The end of captured output that is kept."""

_CHUNK_BYTES = 1 << 16


class Tail:
    """The end of a stream."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * MAX_KEPT_BYTES:
            del self._kept[:-MAX_KEPT_BYTES]

    @property
    def text(self) -> str:
        return bytes(self._kept[-MAX_KEPT_BYTES:]).decode("utf-8", "replace")


class Lines:
    """Passes on the lines of a stream."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._splitter, self._take = LineSplitter(), take

    def feed(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._take(line)

    def finish(self) -> None:
        for line in self._splitter.finish():
            self._take(line)


def read_ready(selector: selectors.BaseSelector, timeout_seconds: float) -> bool:
    """Read once from each pipe that holds something; False where none does."""
    ready = selector.select(timeout_seconds) if selector.get_map() else []
    for key, _ in ready:
        data = os.read(key.fd, _CHUNK_BYTES)
        if data:
            key.data(data)
        else:
            selector.unregister(key.fileobj)
    return bool(ready)
