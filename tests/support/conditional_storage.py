"""Checks of conditional writes, on any storage."""

import threading
import uuid

import pytest

from common import storage
from common.storage import StoragePath

THREADS, INCREMENTS = 4, 8


def check_versions(file: StoragePath) -> None:
    """Each write and delete needs the newest version, whatever happened in between."""
    absent = storage.read_versioned(file)
    assert absent.data is None
    first = storage.write_if(file, b"first", absent.version)
    assert storage.read_versioned(file) == (b"first", first)
    assert storage.read_bytes(file) == b"first"
    with pytest.raises(storage.VersionConflict):
        storage.write_if(file, b"late", absent.version)
    versions = [first]
    for number in range(8):
        versions.append(storage.write_if(file, b"%d" % number, versions[-1]))
    assert len(set(versions)) == len(versions)
    for old in (absent.version, *versions[:-1]):
        with pytest.raises(storage.VersionConflict):
            storage.write_if(file, b"late", old)
    assert storage.read_versioned(file) == (b"7", versions[-1])
    assert [path.name for path in storage.children(file.parent)] == [file.name]


def check_deletion(file: StoragePath) -> None:
    """A deleted file can be created again, by one process."""
    version = storage.write_if(file, b"first", storage.read_versioned(file).version)
    newer = storage.write_if(file, b"second", version)
    storage.delete_if(file, newer)
    assert not storage.exists(file)
    absent = storage.read_versioned(file)
    assert absent.data is None
    for old in (version, newer):
        with pytest.raises(storage.VersionConflict):
            storage.write_if(file, b"late", old)
    storage.write_if(file, b"third", absent.version)
    assert storage.read_bytes(file) == b"third"


def check_counter(file: StoragePath) -> None:
    """No increment of concurrent writers is lost."""

    def count() -> None:
        done = 0
        while done < INCREMENTS:
            found = storage.read_versioned(file)
            number = int((found.data or b"0").split()[0])
            # Unlike that of any other writer, as `write_if` requires.
            data = f"{number + 1} {uuid.uuid4().hex}".encode()
            try:
                storage.write_if(file, data, found.version)
            except storage.VersionConflict:
                continue
            done += 1

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # More only where the response to a write was lost, and others have replaced it since.
    assert int(storage.read_bytes(file).split()[0]) >= THREADS * INCREMENTS
