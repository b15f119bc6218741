"""Files in a local folder or in gs://bucket/path, through the same functions.

A path is a pathlib.Path or a cloudpathlib.GSPath. All reading and writing goes through these
functions. Writes are atomic, reads are never cached, busy storage is retried, and errors of the
operating system and of Google's libraries become:

    FileNotFoundError      the file does not exist (the caller decides what that means)
    StorageError           exit 2: no such bucket, permission denied, disk full, blocked path
    StorageUnavailable     exit 145: no response within RETRY_SECONDS

google.cloud takes a second to import, so it is imported for the first gs:// path only.
"""

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import QfleetError, StorageError
from common.storage import base, local
from common.storage.base import PARTIAL_SUFFIX, ErrorTranslator, StorageBackend, StoragePath

__all__ = [
    "DATASETS", "PARTIAL_SUFFIX", "StorageBackend", "StoragePath", "children", "create_exclusive",
    "delete", "exists", "files", "is_file", "is_local", "limit_retries", "local_copy", "path",
    "read_bytes", "read_json", "remove_partial_files", "sizes", "translate_errors", "write_atomic",
    "write_json",
]  # fmt: skip

DATASETS = "datasets"
"""Name of the folder of data sets in STORAGE, next to the runs; no run may have this name."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_LOCAL = local.LocalStorage()
_translators: list[ErrorTranslator] = [local.translate_error]


def path(text: str) -> StoragePath:
    """Return the path for text from the user.

    Args:
        text: A local path (`~` is the home folder) or gs://bucket or gs://bucket/path.

    Raises:
        StorageError: Another scheme, no bucket, or no credentials for Google Cloud.
    """
    scheme = re.match(r"([A-Za-z][\w+.-]*):/", text)
    if not scheme:
        if not text or "\0" in text:
            raise StorageError(f"{text!r} is not a path: give a folder or gs://bucket/path")
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


def read_bytes(path: StoragePath) -> bytes:
    """Return the current content of a file.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    with translate_errors(path):
        return _backend(path).read(path)


def read_json(path: StoragePath) -> Any:
    """Return the parsed content of a JSON file.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The content is not JSON in UTF-8.
    """
    return json.loads(read_bytes(path).decode("utf-8"))


def write_atomic(path: StoragePath, data: bytes | str | Path) -> None:
    """Write a file completely or not at all; an existing file is replaced.

    Args:
        path: The file; missing parent folders are created.
        data: The content (text as UTF-8), or a local file with the content.
    """
    content = data.encode() if isinstance(data, str) else data
    with translate_errors(path):
        _backend(path).write(path, content)


def write_json(path: StoragePath, value: Any) -> None:
    """Write a JSON file atomically. NaN and infinity are refused: they are not JSON."""
    write_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def create_exclusive(path: StoragePath, data: bytes) -> bool:
    """Write a file unless it exists; of several writers, one succeeds.

    The emulator of cloud storage ignores the precondition that ensures this. Callers that rely on
    it read the file again after a pause.

    Returns:
        True if the file was written.
    """
    with translate_errors(path):
        return _backend(path).create_exclusive(path, data)


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


def delete(path: StoragePath) -> None:
    """Delete a file, or a folder with its content; nothing happens if it does not exist."""
    with translate_errors(path):
        _backend(path).delete(path)


def remove_partial_files(path: StoragePath) -> None:
    """Delete incomplete files that killed processes left below a folder (never in the cloud)."""
    if isinstance(path, Path):
        with translate_errors(path):
            local.remove_partial_files(path)


@contextlib.contextmanager
def local_copy(path: StoragePath) -> Iterator[Path]:
    """Provide a file on a local disk, for libraries that open files themselves; read only.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    if isinstance(path, Path):
        with translate_errors(path):
            path.stat()
        yield path
        return
    data = read_bytes(path)
    with tempfile.TemporaryDirectory(prefix="qfleet-") as folder:
        copy = Path(folder, path.name)
        with translate_errors(copy):
            copy.write_bytes(data)
        yield copy
