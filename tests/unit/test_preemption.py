"""SIGTERM: who leaves at once still sends its logs, for so long and no longer."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training.preemption import LOG_UPLOAD_TIMEOUT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, threading, time
from pathlib import Path
from training.preemption import Preemption

preemption = Preemption(is_chief=sys.argv[2] == "chief", patience=0.1)
preemption.watch()
file = Path(sys.argv[1])
if sys.argv[3] == "hangs":
    preemption.farewell = threading.Event().wait
else:
    preemption.farewell = lambda: file.write_text(file.read_text() + "logs ")
if sys.argv[2] == "chief":
    preemption.on_stuck = lambda: file.write_text(file.read_text() + "checkpoint ")
file.write_text("")
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("role", "farewell", "left"),
    [("worker", "sends", "logs "), ("chief", "sends", "checkpoint logs "),
     ("worker", "hangs", ""), ("chief", "hangs", "checkpoint ")],
)  # fmt: skip
def test_a_worker_that_is_stopped_sends_its_logs_if_it_can(tmp_path, role, farewell, left):
    file = tmp_path / "left"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), role, farewell],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert file.read_text() == left
    assert (time.monotonic() - began > LOG_UPLOAD_TIMEOUT_SECONDS) == (farewell == "hangs")
