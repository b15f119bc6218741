"""Durable writes to a local folder: complete or absent, also after a power failure."""

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from common.errors import StorageError, StorageUnavailable
from common.storage.base import PARTIAL_SUFFIX

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class PartialFileDeleted(StorageUnavailable):
    """Another process has cleaned up the folder, as the new owner of a run does."""


@contextlib.contextmanager
def partial_file(path: Path, data: bytes | Path) -> Iterator[Path]:
    """Provide a durable copy of the data in the folder of `path`.

    Args:
        path: The file that the body of the context creates or replaces.
        data: The content, or a local file with the content.
    """
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}{PARTIAL_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:
        raise StorageError(
            f"the folder {path.parent} can't be created: set STORAGE to a folder in which you can"
            " create others"
        ) from None
    try:
        file = part.open("xb")
    except FileNotFoundError:
        raise StorageError(
            f"the folder {path.parent} was deleted while a file in it was written: run the same"
            " command again"
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
    except FileNotFoundError:
        # This process was stopped meanwhile, and another one has cleaned up.
        raise PartialFileDeleted(
            f"{path} was not written, since another process has deleted its partial file: run the"
            " same command again"
        ) from None
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name must survive a power failure as well
    finally:
        os.close(folder)


def link_exclusive(part: Path, path: Path) -> bool:
    """Give a complete file its name, unless another file has it.

    Returns:
        True if `path` is this file now.
    """
    try:
        os.link(part, path)
    except FileExistsError:
        # NFS reports this also where its first try succeeded and only the response was lost.
        return _is_same_file(part, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _create_in_place(path, part.read_bytes())
    return True


def _is_same_file(part: Path, path: Path) -> bool:
    try:
        return part.samefile(path)
    except FileNotFoundError:
        return False


def _create_in_place(path: Path, data: bytes) -> bool:
    """Create a file on a file system without hard links; a crash can leave it incomplete."""
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return False
    return True
