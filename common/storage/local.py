"""Local folders as a storage backend."""

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from common.errors import QfleetError, StorageError, StorageUnavailable
from common.storage.base import PARTIAL_SUFFIX

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_BLOCKED = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_UNREACHABLE = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH)
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalStorage:
    """Implements `StorageBackend` for folders of this machine."""

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def write(self, path: Path, data: bytes | Path) -> None:
        with _partial_file(path, data) as part:
            part.replace(path)

    def create_exclusive(self, path: Path, data: bytes) -> bool:
        with _partial_file(path, data) as part:
            try:
                os.link(part, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                return _create_in_place(path, data)
        return True

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
            return [p for p in path.iterdir() if not p.name.endswith(PARTIAL_SUFFIX)]
        except FileNotFoundError:
            return []

    def files(self, path: Path) -> list[Path]:
        found = path.rglob("*")
        return [p for p in found if p.is_file() and not p.name.endswith(PARTIAL_SUFFIX)]

    def sizes(self, path: Path) -> dict[str, int]:
        try:
            found = [entry for entry in os.scandir(path) if entry.is_file()]
        except FileNotFoundError:
            return {}
        return {e.name: e.stat().st_size for e in found if not e.name.endswith(PARTIAL_SUFFIX)}

    def delete(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remove_partial_files(path: Path) -> None:
    """Delete incomplete files that killed processes left below a folder."""
    for part in path.rglob(f".*{PARTIAL_SUFFIX}"):
        part.unlink(missing_ok=True)


def translate_error(error: BaseException, path: object) -> QfleetError | None:
    """Return an error of the operating system as a QfleetError; None for any other exception."""
    if not isinstance(error, OSError):
        return None
    reason = (error.strerror or str(error)).lower()
    if error.errno in _FULL:
        return StorageError(
            f"no space left to write {path} ({reason}): free some or change STORAGE"
        )
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


def _create_in_place(path: Path, data: bytes) -> bool:
    """Create a file on a file system without hard links; a crash can leave it incomplete."""
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def _partial_file(path: Path, data: bytes | Path) -> Iterator[Path]:
    """Provide a durable copy of the data in the folder of `path`."""
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}{PARTIAL_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("xb")
    except FileNotFoundError:
        raise StorageError(
            f"{path.parent} can't be created, or was deleted while {path.name} was written:"
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
        os.fsync(folder)  # the new name must survive a power failure as well
    finally:
        os.close(folder)
