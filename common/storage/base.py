"""The interface of storage backends, and names that all of them share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from common.errors import QfleetError

if TYPE_CHECKING:
    from cloudpathlib import GSPath

StoragePath: TypeAlias = "Path | GSPath"
"""A path of any backend: all have `/`, `name` and `parent`."""

RETRY_SECONDS = 60.0
"""Longest time for which a request to cloud storage is retried before StorageUnavailable."""

PARTIAL_SUFFIX = ".part"
"""Suffix of a file that is being written; such files are never listed."""

ErrorTranslator = Callable[[BaseException, object], QfleetError | None]
"""Converts an exception of a backend's library, which concerns a path; None for any other."""

_P = TypeVar("_P")


class StorageBackend(Protocol[_P]):
    """Reads and writes files of one kind of storage.

    Methods raise the exceptions of the backend's library, which `ErrorTranslator` converts, and
    FileNotFoundError.
    """

    def read(self, path: _P) -> bytes:
        """Return the current content of a file."""

    def write(self, path: _P, data: bytes | Path) -> None:
        """Replace a file atomically by bytes, or by the content of a local file."""

    def create_exclusive(self, path: _P, data: bytes) -> bool:
        """Write a file unless one exists; return True if it was written."""

    def is_file(self, path: _P) -> bool:
        """Return True if a file exists."""

    def exists(self, path: _P) -> bool:
        """Return True if a file or folder exists."""

    def children(self, path: _P) -> list[_P]:
        """Return the files and folders directly in a folder."""

    def files(self, path: _P) -> list[_P]:
        """Return all files below a folder."""

    def sizes(self, path: _P) -> dict[str, int]:
        """Return the names and bytes of the files directly in a folder."""

    def delete(self, path: _P) -> None:
        """Delete a file or a folder, if it exists."""
