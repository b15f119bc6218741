"""Local files with versions: writes that succeed only if no other process has written.

POSIX can't replace a file on a condition, and a lock would be held by a stopped process for ever.
But of several processes that create the same name, exactly one succeeds. So the content of
`lease.json` is the newest file of a chain next to it, and generation N + 1 is created exclusively:

    .lease.json.chain.generation           random identity of the chain, created once
    .lease.json.3f2a9c1b.17.generation     generation 17 in chain 3f2a9c1b
    lease.json                             the newest generation again, for people

The newest generation is never deleted: an empty one means that the file does not exist. A process
that was stopped before its write, for whatever time, creates a name that exists already, or one
that is not the newest in the current chain. Either way it finds that out and raises
VersionConflict. The identity of the chain distinguishes a recreated folder from the deleted one.
"""

import os
import re
import stat
import uuid
from pathlib import Path

from common.errors import StorageError
from common.storage.base import (
    GENERATION_SUFFIX,
    MAX_VERSIONED_BYTES,
    PARTIAL_SUFFIX,
    VersionConflict,
    Versioned,
)
from common.storage.durable import link_exclusive, partial_file

DELETED = b""
"""Content of a generation without a file."""

KEPT_GENERATIONS = 4
"""Generations before the newest that are kept, so that one that is being read rarely vanishes."""

_CHAIN = re.compile(rb"[0-9a-f]{16}")


def read(path: Path) -> Versioned:
    """Return the newest content and its version.

    Raises:
        StorageError: A file of the chain is damaged.
    """
    while True:
        chain, number = _newest(path)
        version = f"{chain}:{number}"
        if not number:
            return Versioned(None, version)
        try:
            data = _read_file(_generation(path, chain, number))
        except FileNotFoundError:
            continue  # newer ones were written since
        # Older generations are deleted first. So if this one still existed, and the next one does
        # not exist, this is the newest.
        if not _generation(path, chain, number + 1).exists():
            return Versioned(data or None, version)


def write(path: Path, data: bytes, version: str) -> str:
    """Write the next generation, if `version` is the newest one, and return its version.

    Args:
        path: The file; missing parent folders are created.
        data: The content; DELETED deletes the file.
        version: The expected version.

    Raises:
        VersionConflict: Other processes have written meanwhile, or the folder was deleted.
    """
    chain, _, text = version.partition(":")
    number = int(text) + 1
    chain = chain or _create_chain(path)
    target = _generation(path, chain, number)
    with partial_file(target, data) as part:
        if not link_exclusive(part, target):
            raise VersionConflict(f"{path} has a newer generation than {version}")
    newest_chain, newest = _newest(path)
    # The name was free either because this is the next generation, or because others have used
    # and deleted it. Then there are more newer ones than are kept.
    if newest_chain != chain or newest - number > KEPT_GENERATIONS:
        target.unlink(missing_ok=True)
        raise VersionConflict(f"{path} has a newer generation than {version}")
    _copy_for_people(path)
    _delete_old(path, chain, number)
    return f"{chain}:{number}"


def _newest(path: Path) -> tuple[str, int]:
    """Return the chain and the number of its newest generation: 0 for none, "" for no chain."""
    chain = _read_chain(path)
    return (chain, max(_numbers(path, chain), default=0)) if chain else ("", 0)


def _chain_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.chain{GENERATION_SUFFIX}")


def _generation(path: Path, chain: str, number: int) -> Path:
    return path.with_name(f".{path.name}.{chain}.{number}{GENERATION_SUFFIX}")


def _read_chain(path: Path) -> str:
    file = _chain_file(path)
    try:
        content = _read_file(file)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if not _CHAIN.fullmatch(content):
        raise StorageError(f"{file} is damaged: delete it once no job uses {path.parent}")
    return content.decode()


def _create_chain(path: Path) -> str:
    file = _chain_file(path)
    with partial_file(file, uuid.uuid4().hex[:16].encode()) as part:
        link_exclusive(part, file)
    return _read_chain(path)


def _numbers(path: Path, chain: str) -> list[int]:
    start = f".{path.name}.{chain}."
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return []
    texts = [
        name.removeprefix(start).removesuffix(GENERATION_SUFFIX)
        for name in names
        if name.startswith(start) and name.endswith(GENERATION_SUFFIX)
    ]
    return [int(text) for text in texts if text.isdecimal() and len(text) < 19]


def _read_file(file: Path) -> bytes:
    """Read a small file; anything else in its place could block or be endless."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_VERSIONED_BYTES:
            raise StorageError(f"{file} is damaged: delete it once no job uses {file.parent}")
        return opened.read(MAX_VERSIONED_BYTES)


def _copy_for_people(path: Path) -> None:
    """Make `path` the newest generation, also where this process was stopped in between."""
    while True:
        chain, number = _newest(path)
        newest = _generation(path, chain, number)
        copy = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{PARTIAL_SUFFIX}")
        try:
            if newest.stat().st_size:
                if not link_exclusive(newest, copy):
                    continue
                copy.replace(path)
            else:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            if not number:
                return  # the folder was deleted
            continue
        finally:
            copy.unlink(missing_ok=True)  # `replace` leaves it where it is `path` already
        if _newest(path) == (chain, number):
            return


def _delete_old(path: Path, chain: str, newest: int) -> None:
    """Delete generations of this chain, which has a newer one for ever."""
    for number in sorted(_numbers(path, chain)):
        if number < newest - KEPT_GENERATIONS:
            _generation(path, chain, number).unlink(missing_ok=True)
