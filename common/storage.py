"""Where files live: a local folder or gs://bucket/path, by the same functions.

A path is a pathlib.Path or a cloudpathlib.GSPath: both know `/`, `name` and `parent`. All reading
and writing goes through the functions here, which write whole or not at all, always read anew,
try again when storage is busy, and turn what goes wrong into one sentence:

    FileNotFoundError      there is no such file (for the caller to say what that means)
    StorageError           exit 2: no such bucket, permission denied, disk full, a file in the way
    StorageUnavailable     exit 145: no answer after RETRY_SECONDS

google.cloud is imported only once a gs:// path is met: it takes a second that a local run need not
pay.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from common.errors import QfleetError, StorageError, StorageUnavailable

if TYPE_CHECKING:
    from cloudpathlib import GSPath

StoragePath: TypeAlias = "Path | GSPath"

RETRY_SECONDS = 60.0
"""How long a call to cloud storage is tried again before StorageUnavailable."""

DATASETS = "datasets"
"""Name of the folder of data sets below STORAGE, beside the runs; no run may take it."""

PARTIAL_SUFFIX = ".part"
"""Ending of a file that is being written; such files are never listed."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_AWAY = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH)
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def path(text: str) -> StoragePath:
    """A path from what a person wrote.

    Args:
        text: A local path (`~` is the home folder) or gs://bucket or gs://bucket/path.

    Raises:
        StorageError: Another scheme, no bucket, or no credentials for Google Cloud.
    """
    scheme = re.match(r"([A-Za-z][\w+.-]*):/", text)
    if not scheme:
        if not text or "\0" in text:
            raise StorageError(f"{text!r} is not a place: give a folder or gs://bucket/path")
        try:
            return Path(text).expanduser()
        except RuntimeError:
            raise StorageError(f"{text} names no home folder: give a folder's full path") from None
    bucket, _, key = text.removeprefix("gs://").partition("/")
    if not text.startswith("gs://"):
        raise StorageError(
            f"{text} is on {scheme[1]}:, which is not supported: give a folder or gs://bucket/path"
        )
    if not _BUCKET.fullmatch(bucket):
        raise StorageError(f"{text} names no bucket: write it as gs://bucket or gs://bucket/path")
    with errors(text):
        from common import cloud

        return cloud.path(bucket, "/".join(filter(None, key.split("/"))))


def is_local(path: StoragePath) -> bool:
    """Whether the path is on a disk of this machine."""
    return isinstance(path, Path)


@contextlib.contextmanager
def errors(path: object) -> Iterator[None]:
    """Turn what the disk's and the cloud's libraries raise into StorageError or StorageUnavailable.

    Args:
        path: What is being read or written, for the sentence.

    Raises:
        StorageError, StorageUnavailable: See the top of this file. FileNotFoundError passes.
    """
    try:
        yield
    except (QfleetError, FileNotFoundError):
        raise
    except Exception as error:
        told = None
        if (cloud := sys.modules.get("common.cloud")) is not None:
            told = cloud.translate_errors(error, path)
        if told is None and isinstance(error, OSError):
            told = _told(error, path)
        if told is None:
            raise
        raise told from error


def _told(error: OSError, path: object) -> QfleetError | None:
    """The operating system's refusal as one of our errors."""
    reason = (error.strerror or str(error)).lower()
    if error.errno in _FULL:
        return StorageError(f"no room to write {path} ({reason}): make room or change STORAGE")
    if error.errno in _DENIED:
        return StorageError(
            f"{path} can't be read or written ({reason}): change its permissions or STORAGE"
        )
    if error.errno in _IN_THE_WAY:
        blocking = error.filename or path
        return StorageError(
            f"{path} can't be used: at {blocking} there is a file where a folder belongs, or the"
            " other way round; move it away or change STORAGE"
        )
    if error.errno in _AWAY or isinstance(error, ConnectionError | TimeoutError):
        return StorageUnavailable(
            f"storage does not answer for {path} ({reason}): the same command goes on once it is"
            " back"
        )
    if error.errno is None:
        return None
    return StorageError(f"{path} can't be read or written ({reason}): change STORAGE")


def read_bytes(path: StoragePath) -> bytes:
    """The file's content now; nothing is cached.

    Raises:
        FileNotFoundError: There is no such file.
    """
    with errors(path):
        if isinstance(path, Path):
            return path.read_bytes()
        from common import cloud

        return cloud.read(path)


def read_json(path: StoragePath) -> Any:
    """The file's content as JSON.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not JSON in UTF-8.
    """
    return json.loads(read_bytes(path).decode("utf-8"))


def write_atomic(path: StoragePath, data: bytes | str | Path) -> None:
    """Write a file that appears whole or not at all, in place of one that may be there.

    Args:
        path: Where; folders above it are made.
        data: The content (text as UTF-8), or the local file that holds it.
    """
    if isinstance(data, str):
        data = data.encode()
    with errors(path):
        if isinstance(path, Path):
            with _beside(path, data) as part:
                part.replace(path)
        else:
            from common import cloud

            cloud.write(path, data)


def write_json(path: StoragePath, value: Any) -> None:
    """Write JSON, whole or not at all. NaN and infinity are refused: they are not JSON."""
    write_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def create_exclusive(path: StoragePath, data: bytes) -> bool:
    """Write a file unless there is one already: of several writers one wins.

    (The emulator of cloud storage ignores the precondition that makes this so; who relies on it
    reads again after a pause.)

    Returns:
        Whether it was written.
    """
    with errors(path):
        if not isinstance(path, Path):
            from common import cloud

            return cloud.create_exclusive(path, data)
        with _beside(path, data) as part:
            try:
                os.link(part, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                try:
                    with path.open("xb") as file:
                        file.write(data)
                except FileExistsError:
                    return False
        return True


@contextlib.contextmanager
def _beside(path: Path, data: bytes | Path) -> Iterator[Path]:
    """A complete copy of the data, on disk for good, in the folder of `path`."""
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}{PARTIAL_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("xb")
    except FileNotFoundError:
        raise StorageError(
            f"{path.parent} can't be made, or went away while {path.name} was written there:"
            " change STORAGE"
        ) from None
    try:
        with file:
            if isinstance(data, Path):
                with data.open("rb") as source:
                    shutil.copyfileobj(source, file)
            else:
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, must outlive a power cut
    finally:
        os.close(folder)


def is_file(path: StoragePath) -> bool:
    """Whether there is a file of this name; in the cloud one request."""
    with errors(path):
        if isinstance(path, Path):
            return path.is_file()
        from common import cloud

        return cloud.is_file(path)


def exists(path: StoragePath) -> bool:
    """Whether there is a file or a folder of this name."""
    with errors(path):
        if isinstance(path, Path):
            try:
                path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True
        from common import cloud

        return cloud.exists(path)


def children(path: StoragePath) -> list[StoragePath]:
    """What lies directly in a folder, files and folders, by name; nothing where there is none."""
    with errors(path):
        if not isinstance(path, Path):
            from common import cloud

            return sorted(cloud.files(path, deep=False), key=str)
        try:
            return sorted(p for p in path.iterdir() if not p.name.endswith(PARTIAL_SUFFIX))
        except FileNotFoundError:
            return []


def files(path: StoragePath) -> list[StoragePath]:
    """All files below a folder, at any depth; nothing where there is none."""
    with errors(path):
        if not isinstance(path, Path):
            from common import cloud

            return sorted(cloud.files(path, deep=True), key=str)
        return sorted(
            p for p in path.rglob("*") if p.is_file() and not p.name.endswith(PARTIAL_SUFFIX)
        )


def sizes(path: StoragePath) -> dict[str, int]:
    """Names and bytes of the files directly in a folder, by one look at it."""
    with errors(path):
        if not isinstance(path, Path):
            from common import cloud

            return cloud.sizes(path)
        try:
            found = [entry for entry in os.scandir(path) if entry.is_file()]
        except FileNotFoundError:
            return {}
        return {e.name: e.stat().st_size for e in found if not e.name.endswith(PARTIAL_SUFFIX)}


def delete(path: StoragePath) -> None:
    """Delete a file, or a folder with all below it; nothing happens where there is none."""
    with errors(path):
        if not isinstance(path, Path):
            from common import cloud

            cloud.delete(path)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remove_partial_files(path: StoragePath) -> None:
    """Delete what killed processes left half-written below a folder (a cloud keeps no such)."""
    if isinstance(path, Path):
        with errors(path):
            for part in path.rglob(f".*{PARTIAL_SUFFIX}"):
                part.unlink(missing_ok=True)


@contextlib.contextmanager
def local(path: StoragePath) -> Iterator[Path]:
    """The file on a local disk, for libraries that open files themselves; read only.

    Raises:
        FileNotFoundError: There is no such file.
    """
    if isinstance(path, Path):
        with errors(path):
            path.stat()
        yield path
        return
    data = read_bytes(path)
    with tempfile.TemporaryDirectory(prefix="qfleet-") as folder:
        copy = Path(folder, path.name)
        with errors(copy):
            copy.write_bytes(data)
        yield copy
