"""Files in a local folder or in gs://bucket/path, through the same functions.

A path is a pathlib.Path or a cloudpathlib.GSPath. All reading and writing goes through these
functions. Writes are atomic, reads are never cached, busy storage is retried, and errors of the
operating system and of Google's libraries become:

    FileNotFoundError      the file does not exist (the caller decides what that means)
    StorageError           exit 2: no such bucket, permission denied, blocked path
    StorageUnavailable     exit 145: no response within RETRY_SECONDS

`read_versioned`, `write_if` and `delete_if` exclude concurrent writers of a file: a process that
was stopped between its read and its write can't overwrite what another one has written since.

google.cloud takes a second to import, so it is imported for the first gs:// path only.
"""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from common import safe_json
from common.errors import QfleetError, StorageError
from common.storage import base, local
from common.storage.base import (
    EMULATOR,
    PARTIAL_SUFFIX,
    ErrorTranslator,
    FileTooLarge,
    StorageBackend,
    StoragePath,
    VersionConflict,
    Versioned,
)
from common.storage.durable import PartialFileDeleted

__all__ = [
    "DATASETS",
    "EMULATOR",
    "PARTIAL_SUFFIX",
    "SEARCHES",
    "STUDIES",
    "FileTooLarge",
    "PartialFileDeleted",
    "StorageBackend",
    "StoragePath",
    "VersionConflict",
    "Versioned",
    "children",
    "create_exclusive",
    "delete",
    "delete_if",
    "exists",
    "files",
    "foreign_entry",
    "is_file",
    "is_local",
    "limit_retries",
    "local_copy",
    "path",
    "read_bytes",
    "read_json",
    "read_versioned",
    "remove_partial_files",
    "retry_seconds",
    "sizes",
    "temporary_folder",
    "translate_errors",
    "write_atomic",
    "write_if",
    "write_json",
]  # fmt: skip

DATASETS = "datasets"
"""Name of the folder of data sets in STORAGE, next to the runs; no run may have this name."""

STUDIES, SEARCHES = "studies", "searches"
"""Names of the folders of studies and searches in STORAGE; no run may have these names either."""

MAX_NAME_BYTES = 255
"""Of a file or a folder, in Linux."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_LOCAL = local.LocalStorage()
_translators: list[ErrorTranslator] = [local.translate_error]


def path(text: str) -> StoragePath:
    """Return the path for text from the user.

    Args:
        text: A local path (`~` is the home folder) or gs://bucket or gs://bucket/path.

    Raises:
        StorageError: Another scheme, no bucket, a name that is too long, or no credentials for
            Google Cloud.
    """
    scheme = re.match(r"([A-Za-z][\w+.-]*):/", text)
    if not scheme:
        if not text or "\0" in text:
            raise StorageError(f"{text!r} is not a path: give a folder or gs://bucket/path")
        longest = max(text.split("/"), key=lambda name: len(os.fsencode(name)))
        if len(os.fsencode(longest)) > MAX_NAME_BYTES:
            raise StorageError(
                f"{longest[:40]}... is longer than the name of a folder, {MAX_NAME_BYTES} bytes:"
                " give a shorter path"
            )
        try:
            return Path(text).expanduser()
        except RuntimeError:
            raise StorageError(
                f"{text} is not in a known home folder: give the full path of a folder"
            ) from None
    bucket, _, key = text.removeprefix("gs://").partition("/")
    if not text.startswith("gs://"):
        raise StorageError(
            f"{text} is on {scheme[1]}:, which is not supported: give a folder or gs://bucket/path"
        )
    if not _BUCKET.fullmatch(bucket):
        raise StorageError(
            f"{text} has no valid bucket name: write it as gs://bucket or gs://bucket/path"
        )
    from common.storage import gcs

    if gcs.translate_error not in _translators:
        _translators.insert(0, gcs.translate_error)
    with translate_errors(text):
        return gcs.path(bucket, "/".join(filter(None, key.split("/"))))


def is_local(path: StoragePath) -> bool:
    """Return True if the path is on a disk of this machine."""
    return isinstance(path, Path)


def limit_retries(seconds: float) -> None:
    """Set the time for which this process retries a request to cloud storage."""
    base.RETRY_SECONDS = seconds


def retry_seconds() -> float:
    """Return the time for which this process retries a request to cloud storage."""
    return base.RETRY_SECONDS


@contextlib.contextmanager
def translate_errors(path: object) -> Iterator[None]:
    """Convert exceptions of the backends to StorageError or StorageUnavailable.

    Args:
        path: The path that is read or written, for the message.

    Raises:
        StorageError, StorageUnavailable: See the module. FileNotFoundError is passed on.
    """
    try:
        yield
    except (QfleetError, FileNotFoundError):
        raise
    except Exception as error:
        for translate in _translators:
            if (translated := translate(error, path)) is not None:
                raise translated from error
        raise


def _backend(path: StoragePath) -> StorageBackend[Any]:
    if isinstance(path, Path):
        return _LOCAL
    from common.storage import gcs

    return gcs.BACKEND


def read_bytes(path: StoragePath, max_bytes: int | None = None) -> bytes:
    """Return the current content of a file.

    Args:
        path: The file.
        max_bytes: Most bytes to read; by default there is no limit.

    Raises:
        FileNotFoundError: The file does not exist.
        FileTooLarge: It has more than `max_bytes`.
        StorageError: It is a FIFO, a socket or a device.
    """
    with translate_errors(path):
        return _backend(path).read(path, max_bytes)


def read_json(path: StoragePath) -> Any:
    """Return the parsed content of a JSON file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The content is not JSON in UTF-8, or beyond the limits of `safe_json`. The
            message is the end of a sentence: "it is not JSON".
    """
    return safe_json.parse(read_bytes(path, safe_json.MAX_BYTES))


def write_atomic(path: StoragePath, data: bytes | str | Path) -> None:
    """Write a file completely or not at all; an existing file is replaced.

    Args:
        path: The file; missing parent folders are created.
        data: The content (text as UTF-8), or a local file with the content.
    """
    content = data.encode() if isinstance(data, str) else data
    with translate_errors(path):
        _backend(path).write(path, content)


def write_json(path: StoragePath, value: object) -> None:
    """Write a JSON file atomically. NaN and infinity are refused: they are not JSON."""
    write_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def create_exclusive(path: StoragePath, data: bytes) -> bool:
    """Write a file unless it exists; of several writers, one succeeds.

    Returns:
        True if the file was written.
    """
    with translate_errors(path):
        return _backend(path).create_exclusive(path, data)


def read_versioned(path: StoragePath, retry_seconds: float | None = None) -> Versioned:
    """Return the current content of a file with its version; no content if it does not exist.

    Only files that `write_if` writes have versions. In a local folder, the file itself is a copy
    for people: its generations are in hidden files next to it.

    Args:
        path: The file.
        retry_seconds: Time for retries and for a response, instead of RETRY_SECONDS.
    """
    with translate_errors(path):
        return _backend(path).read_versioned(path, retry_seconds)


def write_if(
    path: StoragePath, data: bytes, version: str, retry_seconds: float | None = None
) -> str:
    """Write a file completely, if it still has a version; of several writers, one succeeds.

    Args:
        path: The file; missing parent folders are created.
        data: The content: not empty, and unlike that of any other writer, since a retry recognizes
            its own first try by it.
        version: The expected version, from `read_versioned` or an earlier write.
        retry_seconds: See `read_versioned`.

    Returns:
        The new version.

    Raises:
        VersionConflict: The file has another version. Either nothing was written, or others have
            replaced it before this was known.
    """
    with translate_errors(path):
        return _backend(path).write_if(path, data, version, retry_seconds)


def delete_if(path: StoragePath, version: str, retry_seconds: float | None = None) -> None:
    """Delete a file if it still has a version.

    Raises:
        VersionConflict: The file has another version.
    """
    with translate_errors(path):
        _backend(path).delete_if(path, version, retry_seconds)


def is_file(path: StoragePath) -> bool:
    """Return True if a file exists; one request in the cloud."""
    with translate_errors(path):
        return _backend(path).is_file(path)


def exists(path: StoragePath) -> bool:
    """Return True if a file or folder exists."""
    with translate_errors(path):
        return _backend(path).exists(path)


def children(path: StoragePath) -> list[StoragePath]:
    """Return the files and folders directly in a folder, sorted; none if it does not exist."""
    with translate_errors(path):
        return sorted(_backend(path).children(path), key=str)


def files(path: StoragePath) -> list[StoragePath]:
    """Return all files below a folder, sorted; none if it does not exist."""
    with translate_errors(path):
        return sorted(_backend(path).files(path), key=str)


def sizes(path: StoragePath) -> dict[str, int]:
    """Return the names and bytes of the files directly in a folder, in one request."""
    with translate_errors(path):
        return _backend(path).sizes(path)


def foreign_entry(path: StoragePath) -> str:
    """Describe the first entry of a folder that is neither a plain file nor a folder.

    Args:
        path: The folder, all of whose content is looked at; it must not be a link itself.

    Returns:
        For example "runs/x/model is a symbolic link"; empty if there is none, or in the cloud.
    """
    if not isinstance(path, Path):
        return ""
    with translate_errors(path):
        return local.foreign_entry(path)


def delete(path: StoragePath) -> None:
    """Delete a file, or a folder with its content; nothing happens if it does not exist."""
    with translate_errors(path):
        _backend(path).delete(path)


def remove_partial_files(path: StoragePath, kept: Collection[str] = ()) -> None:
    """Delete incomplete files that killed processes left below a folder (never in the cloud).

    Args:
        path: The folder.
        kept: Names of folders directly in it that other processes may be writing to.
    """
    if isinstance(path, Path):
        with translate_errors(path):
            local.remove_partial_files(path, kept)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Create an empty folder on a local disk, which is deleted with the returned object.

    Raises:
        StorageError, StorageUnavailable: It can't be created.
    """
    title = "the folder for temporary files (TMPDIR)"
    try:
        with translate_errors(title):
            return tempfile.TemporaryDirectory(prefix="qfleet-", ignore_cleanup_errors=True)
    except FileNotFoundError as error:
        raise StorageError(f"{title} can't be used: {error.strerror}") from None


@contextlib.contextmanager
def local_copy(path: StoragePath, max_bytes: int | None = None) -> Iterator[Path]:
    """Provide a file on a local disk, for libraries that open files themselves; read only.

    Args:
        path: The file.
        max_bytes: Most bytes of the file; by default there is no limit.

    Raises:
        FileNotFoundError: The file does not exist.
        FileTooLarge: It has more than `max_bytes`.
        StorageError: It is a FIFO, a socket or a device.
    """
    if isinstance(path, Path):
        with translate_errors(path):
            local.require_regular(path, max_bytes)
        yield path
        return
    data = read_bytes(path, max_bytes)
    with temporary_folder() as folder:
        copy = Path(folder, path.name)
        with translate_errors(copy):
            copy.write_bytes(data)
        yield copy
