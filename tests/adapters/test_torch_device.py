"""Tensors on a device: their results are there, too."""

import subprocess
import sys

from tests.support.patience import seconds


def test_results_are_on_the_device_of_the_tensors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.far_torch_device"],
        capture_output=True, text=True, timeout=seconds(60), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
