"""Local folders as a storage backend."""

import errno
import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

from common.errors import NO_SPACE, QfleetError, StorageError, StorageFull, StorageUnavailable
from common.storage import generations
from common.storage.base import INTERNAL_SUFFIXES, PARTIAL_SUFFIX, FileTooLarge, Versioned
from common.storage.durable import link_exclusive, partial_file

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_BLOCKED = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_UNREACHABLE = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH)


class LocalStorage:
    """Implements `StorageBackend` for folders of this machine."""

    def read(self, path: Path, max_bytes: int | None = None) -> bytes:
        with open_regular(path) as file:
            if max_bytes is None:
                return file.read()
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise FileTooLarge(max_bytes)
            return file.read(size)  # `read` allocates as much as it is given

    def write(self, path: Path, data: bytes | Path) -> None:
        with partial_file(path, data) as part:
            part.replace(path)

    def create_exclusive(self, path: Path, data: bytes) -> bool:
        with partial_file(path, data) as part:
            return link_exclusive(part, path)

    def read_versioned(self, path: Path, retry_seconds: float | None) -> Versioned:
        return generations.read(path)

    def write_if(self, path: Path, data: bytes, version: str, retry_seconds: float | None) -> str:
        return generations.write(path, data, version)

    def delete_if(self, path: Path, version: str, retry_seconds: float | None) -> None:
        generations.write(path, generations.DELETED, version)

    def is_file(self, path: Path) -> bool:
        return path.is_file()

    def exists(self, path: Path) -> bool:
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def children(self, path: Path) -> list[Path]:
        try:
            return [p for p in path.iterdir() if not p.name.endswith(INTERNAL_SUFFIXES)]
        except FileNotFoundError:
            return []

    def files(self, path: Path) -> list[Path]:
        found = path.rglob("*")
        return [p for p in found if p.is_file() and not p.name.endswith(INTERNAL_SUFFIXES)]

    def sizes(self, path: Path) -> dict[str, int]:
        try:
            found = [entry for entry in os.scandir(path) if entry.is_file()]
        except FileNotFoundError:
            return {}
        return {e.name: e.stat().st_size for e in found if not e.name.endswith(INTERNAL_SUFFIXES)}

    def delete(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, if it is one.

    Opening a FIFO would wait for a writer for ever, and reading a device may never end.

    Raises:
        StorageError: It is a FIFO, a socket or a device.
    """
    special = StorageError(
        f"{path} is not a file but a FIFO, a socket or a device: delete it or change STORAGE"
    )
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise special from None
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise special
    return os.fdopen(fd, "rb")


def require_regular(path: Path, max_bytes: int | None) -> None:
    """Check that a path is a file; raises like `open_regular`, and FileTooLarge."""
    with open_regular(path) as file:
        if max_bytes is not None and os.fstat(file.fileno()).st_size > max_bytes:
            raise FileTooLarge(max_bytes)


def foreign_entry(path: Path) -> str:
    """Describe a folder that is a link, or the first entry below it other than plain files."""
    if path.is_symlink():
        return f"{path} is a symbolic link"
    for folder, folders, names in os.walk(path):
        for name in sorted([*folders, *names]):
            found = os.lstat(os.path.join(folder, name)).st_mode
            if stat.S_ISLNK(found):
                return f"{os.path.join(folder, name)} is a symbolic link"
            if not stat.S_ISREG(found) and not stat.S_ISDIR(found):
                return f"{os.path.join(folder, name)} is a FIFO, a socket or a device"
    return ""


def remove_partial_files(path: Path, kept: Collection[str]) -> None:
    """Delete incomplete files below a folder, but not those in its folders `kept`."""
    for part in path.rglob(f".*{PARTIAL_SUFFIX}"):
        if part.relative_to(path).parts[0] not in kept:
            part.unlink(missing_ok=True)


def translate_error(error: BaseException, path: object) -> QfleetError | None:
    """Return an error of the operating system as a QfleetError; None for any other exception."""
    if not isinstance(error, OSError):
        return None
    reason = (error.strerror or str(error)).lower()
    if error.errno in _FULL or error.errno == errno.EFBIG:
        kind = StorageFull if error.errno in _FULL else StorageError
        return kind(f"{NO_SPACE} to write {path} ({reason}): free some or change STORAGE")
    if error.errno in _DENIED:
        return StorageError(
            f"{path} can't be read or written ({reason}): change its permissions or STORAGE"
        )
    if error.errno in _BLOCKED:
        return StorageError(
            f"{path} can't be used: {error.filename or path} is a file and must be a folder, or the"
            " other way round; move it away or change STORAGE"
        )
    if error.errno in _UNREACHABLE or isinstance(error, ConnectionError | TimeoutError):
        return StorageUnavailable(
            f"storage does not respond for {path} ({reason}): run the same command again to resume"
        )
    if error.errno is None:
        return None
    return StorageError(f"{path} can't be read or written ({reason}): change STORAGE")
