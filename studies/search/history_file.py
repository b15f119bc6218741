"""The history of a stage as a local file: in STORAGE itself, or a copy of one in a bucket."""

import contextlib
import time
from pathlib import Path
from typing import Self

from common import storage
from common.storage import StoragePath

UPLOAD_SECONDS = 5.0
"""Interval of uploads to a bucket. What a killed search adds after one is computed again."""


class HistoryFile:
    """A file that a search appends to. A context; its end uploads the copy.

    Args:
        path: Its place in STORAGE.

    Attributes:
        local: Its path on this machine, inside the context.
    """

    def __init__(self, path: StoragePath) -> None:
        self._path = path
        self._folder = contextlib.ExitStack()
        self._uploaded = time.monotonic()

    def __enter__(self) -> Self:
        if isinstance(self._path, Path):
            self.local = self._path
            return self
        self.local = Path(self._folder.enter_context(storage.temporary_folder()), self._path.name)
        with contextlib.suppress(FileNotFoundError):
            self.local.write_bytes(storage.read_bytes(self._path))
        return self

    def __exit__(self, *_: object) -> None:
        with self._folder:
            if self._is_copy and self.local.exists():
                storage.write_atomic(self._path, self.local)

    @property
    def is_due(self) -> bool:
        """If what a generation adds is to be written now, here and for other small files."""
        return not self._is_copy or time.monotonic() - self._uploaded >= UPLOAD_SECONDS

    def save(self) -> None:
        """Upload the copy; a file of this machine has its content already."""
        if self._is_copy:
            storage.write_atomic(self._path, self.local)
            self._uploaded = time.monotonic()

    @property
    def _is_copy(self) -> bool:
        return not isinstance(self._path, Path)
