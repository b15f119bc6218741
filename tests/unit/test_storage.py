"""Local storage: whole or not at all, and one sentence for what a disk refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from common import storage
from common.errors import StorageError, StorageUnavailable


def test_what_is_written_is_read(tmp_path: Path) -> None:
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


def test_json_that_is_not_json_is_refused_before_writing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.write_json(tmp_path / "x.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(tmp_path / "nothing")
    assert storage.children(tmp_path / "nothing") == []
    assert storage.files(tmp_path / "nothing") == []
    storage.delete(tmp_path / "nothing")


def test_children_files_and_delete(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d/e"):
        storage.write_atomic(tmp_path / name, name)
    assert [p.name for p in storage.children(tmp_path)] == ["a", "b"]
    assert [str(p.relative_to(tmp_path)) for p in storage.files(tmp_path)] == ["a", "b/c", "b/d/e"]
    storage.delete(tmp_path / "b")
    storage.delete(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_file_half_written_by_a_killed_process_is_never_seen(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from common import storage\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"storage.write_atomic(Path({str(tmp_path / 'file')!r}), b'new')"
    )
    (tmp_path / "file").write_bytes(b"old")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [p.name for p in storage.children(tmp_path)] == ["file"]


def test_create_is_won_by_one(tmp_path: Path) -> None:
    assert storage.create_exclusive(tmp_path / "x", b"first")
    assert not storage.create_exclusive(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3://bucket/x", "s3:, which is not supported"),
        ("GS://bucket/x", "GS:, which is not supported"),
        ("gs:/bucket/x", "gs:, which is not supported"),
        ("file:///tmp/x", "file:, which is not supported"),
        ("gs://", "names no bucket"),
        ("gs:///path", "names no bucket"),
        ("gs://UPPER/x", "names no bucket"),
        ("", "is not a place"),
        ("a\0b", "is not a place"),
        ("~nobody-of-this-name/x", "names no home folder"),
    ],
)
def test_a_place_that_is_none_is_refused(text: str, told: str) -> None:
    with pytest.raises(StorageError, match=told) as caught:
        storage.path(text)
    assert "gs://bucket" in str(caught.value) or "folder" in str(caught.value)


def test_a_home_folder_is_understood() -> None:
    assert storage.path("~/runs") == Path.home() / "runs"


def test_a_file_where_a_folder_belongs_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    for act in (
        lambda: storage.write_atomic(tmp_path / "runs" / "r" / "run.json", b"x"),
        lambda: storage.children(tmp_path / "runs"),
        lambda: storage.read_bytes(tmp_path / "runs" / "r"),
        lambda: storage.read_bytes(tmp_path),
    ):
        with pytest.raises(StorageError, match="there is a file where a folder belongs"):
            act()
    assert not storage.exists(tmp_path / "runs" / "r")


def test_a_file_in_the_place_of_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(StorageError):
        storage.write_atomic(tmp_path / "folder", b"x")
    assert (tmp_path / "folder" / "inside").is_dir()
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_no_room_is_told_and_leaves_nothing(tmp_path: Path) -> None:
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
    assert "no room to write" in done.stderr
    assert "make room or change STORAGE" in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["small"]


def test_a_full_device_is_told() -> None:
    with (
        pytest.raises(StorageError, match="no room to write"),
        storage.errors("runs"),
        Path("/dev/full").open("wb", buffering=0) as device,
    ):
        device.write(b"x")


def test_a_place_where_no_folder_can_be_made_is_told() -> None:
    """/proc refuses even root."""
    with pytest.raises(StorageError, match=r"/proc/qfleet can't be made, .*change STORAGE"):
        storage.write_atomic(Path("/proc/qfleet/run.json"), b"x")


def test_a_permission_denied_is_told(tmp_path: Path) -> None:
    """As a user that may not write there; root drops to nobody for it."""
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


def test_a_disk_that_is_away_is_worth_another_try() -> None:
    with pytest.raises(StorageUnavailable, match="does not answer"), storage.errors("runs"):
        raise OSError(5, "Input/output error")


def test_a_bug_stays_a_bug() -> None:
    with pytest.raises(ZeroDivisionError), storage.errors("runs"):
        raise ZeroDivisionError


def test_a_local_run_does_not_import_google_cloud(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from common import storage, checkpoints, runs\n"
        "storage.write_atomic(storage.path(sys.argv[1]) / 'x', b'x')\n"
        "assert not {'google.cloud', 'cloudpathlib', 'tensorflow', 'cirq'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
