"""PennyLane's own suite for devices."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TIME_LIMIT_SECONDS = 550


@pytest.mark.parametrize("shots", [None, 20_000])
def test_device_suite_passes(plugin_folder: Path, shots: int | None) -> None:
    result = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("pl-device-test")), "--device", "qfleet.qubit"),
            *("-q", "--tb=line"),
            *(("--shots", str(shots)) if shots else ()),
        ],
        env=os.environ
        | {
            "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{plugin_folder}",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed is not None
    assert int(passed[1]) > 100
