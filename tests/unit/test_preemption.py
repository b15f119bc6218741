"""SIGTERM: a worker that exits at once still uploads its logs, for a limited time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import seconds, wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, threading, time
from pathlib import Path
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog

watchdog = Watchdog()
preemption = Preemption(watchdog, is_chief=sys.argv[2] == "chief", boundary_timeout_seconds=0.1)
preemption.watch()
watchdog.start()
file = Path(sys.argv[1])
if sys.argv[3] == "hangs":
    watchdog.at_end(upload=threading.Event().wait)
else:
    watchdog.at_end(upload=lambda: file.write_text(file.read_text() + "logs "))
if sys.argv[2] == "chief":
    watchdog.at_end(commit=lambda: file.write_text(file.read_text() + "checkpoint "))
file.write_text("")
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("role", "upload", "written"),
    [("worker", "sends", "logs "), ("chief", "sends", "checkpoint logs "),
     ("worker", "hangs", ""), ("chief", "hangs", "checkpoint ")],
)  # fmt: skip
def test_stopped_worker_uploads_its_logs_for_limited_time(tmp_path, role, upload, written):
    file = tmp_path / "left"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), role, upload],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=seconds(30))
    assert process.returncode == 143
    assert file.read_text() == written


ORPHAN = """
import ctypes, os, subprocess, sys, time
if sys.argv[1] == "child":
    from common.processes import parent
    def without_prctl(name):
        raise AttributeError(name)
    parent.ctypes.CDLL = without_prctl
    parent.PARENT_POLL_SECONDS = 0.05
    parent.exit_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(60)
else:
    child = subprocess.Popen([sys.executable, sys.argv[2], "child"], stdout=subprocess.PIPE)
    print(child.stdout.readline().decode().strip(), flush=True)
"""


def test_orphan_exits_where_the_kernel_sends_no_signal(tmp_path):
    """As on macOS, which has no prctl."""
    import psutil

    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    done = subprocess.run(
        [sys.executable, str(script), "parent", str(script)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=seconds(30),
    )  # fmt: skip
    pid = int(done.stdout)

    def has_ended() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(has_ended)
