"""Conditional writes: a writer that was stopped at any line never overwrites a newer content."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from common import storage
from common.errors import StorageError
from common.storage import StoragePath, durable, generations
from tests.support import conditional_storage
from tests.support.stopped_thread import StoppedThread

MODULES = [generations, durable]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out fsync: nothing here loses power, and each call of it may take 10 ms."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_write_if_needs_the_newest_version(root: StoragePath) -> None:
    conditional_storage.check_versions(root / "r" / "lease.json")


def test_deleted_file_is_created_once(root: StoragePath) -> None:
    conditional_storage.check_deletion(root / "r" / "lease.json")


def test_concurrent_increments_are_not_lost(root: StoragePath) -> None:
    conditional_storage.check_counter(root / "counter.json")


@pytest.mark.parametrize(
    ("newer_writes", "deletes", "stride"),
    [(1, False, 1), (1, True, 3), (7, False, 3), (7, True, 5)],
)
def test_stopped_writer_never_replaces_newer_content(
    tmp_path: Path, newer_writes: int, deletes: bool, stride: int
) -> None:
    """Stopped at each line in turn, while others write, also until its generation is deleted."""
    stop, stopped = 0, True
    while stopped:
        file = tmp_path / str(stop) / "lease.json"
        version = storage.write_if(file, b"start", storage.read_versioned(file).version)
        data = generations.DELETED if deletes else b"late"
        writer = StoppedThread(lambda f=file, v=version, d=data: generations.write(f, d, v),
                               MODULES, stop)  # fmt: skip
        stopped = writer.stopped
        current = storage.read_versioned(file)
        won = current.data != b"start"  # the writer had written before it was stopped
        newest = current.version
        for number in range(newer_writes):
            newest = storage.write_if(file, b"newer %d" % number, newest)
        writer.resume()
        assert storage.read_versioned(file) == (b"newer %d" % number, newest), stop
        assert file.read_bytes() == b"newer %d" % number, stop
        assert won or isinstance(writer.error, storage.VersionConflict), stop
        newest = storage.write_if(file, b"last", newest)
        assert file.read_bytes() == b"last", stop
        stop += stride
    assert stop > 20


def test_writer_of_a_deleted_folder_never_writes_to_the_next(tmp_path: Path) -> None:
    stop, stopped = 0, True
    while stopped:
        file = tmp_path / str(stop) / "lease.json"
        version = storage.write_if(file, b"start", storage.read_versioned(file).version)
        writer = StoppedThread(lambda f=file, v=version: generations.write(f, b"late", v),
                               MODULES, stop)  # fmt: skip
        stopped = writer.stopped
        shutil.rmtree(file.parent)
        newest = storage.write_if(file, b"next", storage.read_versioned(file).version)
        writer.resume()
        assert storage.read_versioned(file) == (b"next", newest), stop
        stop += 1


def test_reader_sees_a_content_that_was_current(tmp_path: Path) -> None:
    """While another thread writes, versions only increase, and contents belong to them."""
    file = tmp_path / "lease.json"
    version = storage.write_if(file, b"0", storage.read_versioned(file).version)
    done = threading.Event()

    def write() -> None:
        newest = version
        for number in range(1, 150):
            newest = storage.write_if(file, b"%d" % number, newest)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    last = 0
    while not done.is_set():
        found = storage.read_versioned(file)
        number = int(found.data or b"-1")
        assert number >= last
        assert int(found.version.split(":")[1]) == number + 1
        last = number
    writer.join()


@pytest.mark.parametrize("kind", ["fifo", "link", "huge", "text"])
def test_damaged_chain_is_a_storage_error(tmp_path: Path, kind: str) -> None:
    file = tmp_path / ".lease.json.chain.generation"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(b"x" * (2 << 20) if kind == "huge" else b"not a chain")
    with pytest.raises(StorageError):
        storage.read_versioned(tmp_path / "lease.json")


def test_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    conditional_storage.check_versions(tmp_path / "a" / "lease.json")
    conditional_storage.check_deletion(tmp_path / "b" / "lease.json")
