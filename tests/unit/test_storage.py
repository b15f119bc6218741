"""Local storage: atomic writes, and one sentence per error of the operating system."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from common import storage
from common.data.formats import read_bytes
from common.errors import (
    NO_SPACE,
    QfleetError,
    RetryableError,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from common.settings import Settings
from common.storage.probe import usable_root


def test_write_atomic_then_read_returns_the_content(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    storage.write_atomic(file, b"bytes")
    assert storage.read_bytes(file) == b"bytes"
    storage.write_atomic(file, "täxt")
    assert storage.read_bytes(file).decode() == "täxt"
    source = tmp_path / "source"
    source.write_bytes(b"from a file")
    storage.write_atomic(file, source)
    assert file.read_bytes() == b"from a file"
    storage.write_json(file, {"a": [1, None]})
    assert storage.read_json(file) == {"a": [1, None]}
    assert [p.name for p in file.parent.iterdir()] == ["file"]


def test_write_json_nan_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.write_json(tmp_path / "x.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_read_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(tmp_path / "nothing")
    assert storage.children(tmp_path / "nothing") == []
    assert storage.files(tmp_path / "nothing") == []
    storage.delete(tmp_path / "nothing")


def test_partial_files_of_other_writers_are_kept(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in (".a.part", "model/x/.w.part", "attempts/.b.part")]
    for part in parts:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
    storage.remove_partial_files(tmp_path, kept=("attempts",))
    assert [part.exists() for part in parts] == [False, False, True]


def test_missing_temporary_folder_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageError, match="TMPDIR"):
        storage.temporary_folder()


@pytest.mark.parametrize("setting", ["CONFIG", "NOISE", "DATA"])
def test_impossible_file_name_is_a_mistake_of_the_user(setting: str) -> None:
    name = f"{'x' * 300}.{'csv' if setting == 'DATA' else 'yaml'}"
    with pytest.raises(QfleetError) as caught:
        read_bytes(Settings.from_args([f"{setting}={name}"]).data.data, 1)
    assert caught.value.exit_code == 2


def test_children_files_and_delete_on_a_tree(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d/e"):
        storage.write_atomic(tmp_path / name, name)
    assert [p.name for p in storage.children(tmp_path)] == ["a", "b"]
    assert [str(p.relative_to(tmp_path)) for p in storage.files(tmp_path)] == ["a", "b/c", "b/d/e"]
    storage.delete(tmp_path / "b")
    storage.delete(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_write_atomic_killed_leaves_the_old_file(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from common import storage\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"storage.write_atomic(Path({str(tmp_path / 'file')!r}), b'new')"
    )
    (tmp_path / "file").write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [p.name for p in storage.children(tmp_path)] == ["file"]


def test_create_exclusive_second_writer_fails(tmp_path: Path) -> None:
    assert storage.create_exclusive(tmp_path / "x", b"first")
    assert not storage.create_exclusive(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3://bucket/x", "s3:, which is not supported"),
        ("GS://bucket/x", "GS:, which is not supported"),
        ("gs:/bucket/x", "gs:, which is not supported"),
        ("file:///tmp/x", "file:, which is not supported"),
        ("gs://", "no valid bucket name"),
        ("gs:///path", "no valid bucket name"),
        ("gs://UPPER/x", "no valid bucket name"),
        ("", "is not a path"),
        ("a\0b", "is not a path"),
        (f"runs/{'é' * 128}/x", "255 bytes"),
        ("~unknown-user/x", "not in a known home folder"),
    ],
)
def test_path_invalid_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        storage.path(text)
    assert "gs://bucket" in str(caught.value) or "folder" in str(caught.value)


def test_path_home_folder_is_expanded() -> None:
    assert storage.path("~/runs") == Path.home() / "runs"


def test_file_in_place_of_a_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    for act in (
        lambda: storage.write_atomic(tmp_path / "runs" / "r" / "run.json", b"x"),
        lambda: storage.children(tmp_path / "runs"),
        lambda: storage.read_bytes(tmp_path / "runs" / "r"),
        lambda: storage.read_bytes(tmp_path),
    ):
        with pytest.raises(StorageError, match="is a file and must be a folder"):
            act()
    assert not storage.exists(tmp_path / "runs" / "r")


def test_write_atomic_existing_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(StorageError):
        storage.write_atomic(tmp_path / "folder", b"x")
    assert (tmp_path / "folder" / "inside").is_dir()
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_write_atomic_disk_full_leaves_nothing(tmp_path: Path) -> None:
    """The kernel refuses to let this process write more than 4 KiB into a file."""
    code = (
        "import resource, sys; from pathlib import Path; from common import storage, errors\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "folder = Path(sys.argv[1])\n"
        "storage.write_atomic(folder / 'small', b'x' * 4096)\n"
        "sys.exit(errors.run_main(lambda: storage.write_atomic(folder / 'big', b'x' * 4097)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no space left to write" in done.stderr
    assert "change STORAGE" in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["small"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS])
def test_refused_write_is_final(number: int) -> None:
    """A restart neither makes room nor gives a permission."""
    with pytest.raises(StorageError) as caught, storage.translate_errors("runs"):
        raise OSError(number, os.strerror(number))
    assert 0 < caught.value.exit_code < RetryableError.exit_code
    assert isinstance(caught.value, StorageFull) == (number in (errno.ENOSPC, errno.EDQUOT))


def test_full_device_is_full_storage() -> None:
    with (
        pytest.raises(StorageFull, match=NO_SPACE),
        storage.translate_errors("runs"),
        Path("/dev/full").open("wb", buffering=0) as device,
    ):
        device.write(b"x")


def test_write_atomic_impossible_folder_is_a_storage_error() -> None:
    """/proc refuses even root."""
    with pytest.raises(StorageError, match=r"/proc/qfleet can't be created: .*STORAGE"):
        storage.write_atomic(Path("/proc/qfleet/run.json"), b"x")


def test_write_atomic_permission_denied_exits_with_2(tmp_path: Path) -> None:
    """The child runs without write permission; root switches to another user for it."""
    code = (
        "import os, sys; from pathlib import Path; from common import storage, errors\n"
        "folder = Path(sys.argv[1]); folder.chmod(0o555)\n"
        "os.getuid() or (os.setgid(65534), os.setuid(65534))\n"
        "sys.exit(errors.run_main(lambda: storage.write_atomic(folder / 'file', b'x')))"
    )
    folder = tmp_path / "closed"
    folder.mkdir()
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_unreachable_disk_is_retryable() -> None:
    with (
        pytest.raises(StorageUnavailable, match="does not respond"),
        storage.translate_errors("runs"),
    ):
        raise OSError(5, "Input/output error")


def test_translate_errors_passes_bugs_on() -> None:
    with pytest.raises(ZeroDivisionError), storage.translate_errors("runs"):
        raise ZeroDivisionError


def test_local_storage_imports_no_google_cloud(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from common import storage, checkpoints, runs\n"
        "storage.write_atomic(storage.path(sys.argv[1]) / 'x', b'x')\n"
        "assert not {'google.cloud', 'cloudpathlib', 'tensorflow', 'cirq'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_usable_bucket_is_left_as_it_was(gs: str) -> None:
    assert storage.files(usable_root(gs)) == []
    with pytest.raises(StorageError, match=r"^STORAGE=gs://missing-bucket/x"):
        usable_root("gs://missing-bucket/x")


def test_usable_folder_is_left_as_it_was(tmp_path: Path) -> None:
    assert usable_root(f"{tmp_path}/a/b") == tmp_path / "a" / "b"
    assert not list(tmp_path.iterdir())
