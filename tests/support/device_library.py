"""The library of the device of tests, which QFLEET_TEST_DEVICE names: "host" unless set."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEVICE = os.environ.get("QFLEET_TEST_DEVICE", "host")


def build_device_library() -> None:
    """Build the library unless it exists. It needs no framework, as `make gpu-check` has none."""
    option = ["--host"] if DEVICE == "host" else []
    command = [sys.executable, "-m", "qfleet.native.cuda", *option]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
