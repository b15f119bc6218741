"""The interface of storage backends, and names that all of them share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from common.errors import QfleetError

if TYPE_CHECKING:
    from cloudpathlib import GSPath

StoragePath: TypeAlias = "Path | GSPath"
"""A path of any backend: all have `/`, `name` and `parent`."""

RETRY_SECONDS = 60.0
"""Longest time for which a request to cloud storage is retried before StorageUnavailable."""

EMULATOR = "STORAGE_EMULATOR_HOST"
"""Variable with the address of a storage emulator, as in Google's client library."""

PARTIAL_SUFFIX = ".part"
"""Suffix of a file that is being written."""

GENERATION_SUFFIX = ".generation"
"""Suffix of the files behind a local file with versions (generations.py)."""

INTERNAL_SUFFIXES = (PARTIAL_SUFFIX, GENERATION_SUFFIX)
"""Suffixes of files that are never listed."""

MAX_VERSIONED_BYTES = 1 << 20
"""Most bytes of a file with versions: those of `write_if` are small."""

ErrorTranslator = Callable[[BaseException, object], QfleetError | None]
"""Converts an exception of a backend's library, which concerns a path; None for any other."""

_P = TypeVar("_P")


class FileTooLarge(ValueError):
    """A file has more bytes than the caller accepts. Its content was not read."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"it has more than {max_bytes / 2**20:g} MiB")


class VersionConflict(Exception):
    """A conditional write or delete found another version than the expected one."""


class Versioned(NamedTuple):
    """Content of a file, and the version to give to `write_if` or `delete_if`.

    Attributes:
        data: The content; None if the file does not exist.
        version: Identifies this content, or the absence of the file.
    """

    data: bytes | None
    version: str


class StorageBackend(Protocol[_P]):
    """Reads and writes files of one kind of storage.

    Methods raise the exceptions of the backend's library, which `ErrorTranslator` converts, and
    FileNotFoundError.
    """

    def read(self, path: _P, max_bytes: int | None = None) -> bytes:
        """Return the current content of a file; raises FileTooLarge above `max_bytes`."""

    def write(self, path: _P, data: bytes | Path) -> None:
        """Replace a file atomically by bytes, or by the content of a local file."""

    def create_exclusive(self, path: _P, data: bytes) -> bool:
        """Write a file unless one exists; return True if it was written."""

    def read_versioned(self, path: _P, retry_seconds: float | None) -> Versioned:
        """Return the current content of a file with its version.

        Raises:
            StorageError: It has more than MAX_VERSIONED_BYTES.
        """

    def write_if(self, path: _P, data: bytes, version: str, retry_seconds: float | None) -> str:
        """Write a file if it has this version, and return the new one.

        Raises:
            VersionConflict: It has another version.
        """

    def delete_if(self, path: _P, version: str, retry_seconds: float | None) -> None:
        """Delete a file if it has this version; else raise VersionConflict."""

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
