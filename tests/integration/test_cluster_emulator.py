"""The storage emulator of overlay `local`: when killed, it keeps all acknowledged writes."""

import http.client
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from common import storage
from common.errors import StorageUnavailable
from tests.support.patience import seconds, wait_until

ROOT = Path(__file__).resolve().parents[2]


def start(folder: Path, port: int) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-m", "launch.emulator", str(folder), str(port), "qfleet"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: process.poll() is not None or responds(port), 30)
    assert process.poll() is None, "the emulator did not start"
    return process


def responds(port: int) -> bool:
    peer = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds(5))
    try:
        peer.request("GET", "/storage/v1/b/qfleet")
        return peer.getresponse().status == 200
    except OSError:
        return False
    finally:
        peer.close()


@pytest.fixture
def place(free_port: int, monkeypatch: pytest.MonkeyPatch) -> storage.StoragePath:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_port}")
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", seconds(0.5))
    return storage.path("gs://qfleet/runs")


def kill_after(seconds: float, pid: int) -> subprocess.Popen:
    """Start a process that kills another one."""
    program = "import os, sys, time; time.sleep(float(sys.argv[1])); os.kill(int(sys.argv[2]), 9)"
    return subprocess.Popen([sys.executable, "-c", program, str(seconds), str(pid)])


def test_writes_survive_a_kill(place: storage.StoragePath, tmp_path: Path, free_port: int) -> None:
    generator = random.Random(0)
    written: dict[str, bytes] = {}
    for life in range(5):
        process = start(tmp_path, free_port)
        for name, content in written.items():
            assert storage.read_bytes(place / name) == content
        killer = None
        number = 0
        try:
            while number < 10_000:
                name = f"{life}-{number}"
                content = generator.randbytes(generator.randrange(1, 5000))
                storage.write_atomic(place / name, content)
                written[name] = content
                number += 1
                if number == 2:
                    killer = kill_after(generator.uniform(0.0, 0.4), process.pid)
        except StorageUnavailable:
            pass
        assert killer is not None, "it must be killed while it is written to"
        killer.wait()
        assert process.wait(seconds(10)) == -signal.SIGKILL
        assert number > 1, "it must be killed while it is written to"
    assert len(written) > 10


def test_sigterm_ends_it_quickly(tmp_path: Path, free_port: int) -> None:
    process = start(tmp_path, free_port)
    process.terminate()
    process.wait(seconds(5))


def test_deleted_and_replaced_content_is_freed(
    place: storage.StoragePath, tmp_path: Path, free_port: int
) -> None:
    process = start(tmp_path, free_port)
    for _ in range(20):
        storage.write_atomic(place / "lease.json", b"x" * 10_000)
    storage.write_atomic(place / "other", b"y")
    storage.delete(place / "other")
    process.terminate()
    process.wait(seconds(20))
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 30_000
