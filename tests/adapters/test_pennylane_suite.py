"""PennyLane's own suite for devices."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import seconds

CHECKOUT = Path(__file__).parents[2]
TIME_LIMIT_SECONDS = 550
SHOTS = (None, 20_000)

Suites = dict[int | None, subprocess.Popen[str]]


@pytest.fixture(scope="module")
def suites(plugin_folder: Path) -> Iterator[Suites]:
    """The suite with each number of shots; each process uses one CPU, and they run side by side."""
    environment = os.environ | {
        "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{plugin_folder}",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    program = str(Path(sys.executable).with_name("pl-device-test"))
    command = [program, "--device", "qfleet.qubit", "-q", "--tb=line"]
    started = {
        shots: subprocess.Popen(
            [*command, *(("--shots", str(shots)) if shots else ())],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for shots in SHOTS
    }  # fmt: skip
    yield started
    for suite in started.values():
        suite.kill()
        suite.communicate()


@pytest.mark.parametrize("shots", SHOTS)
def test_device_suite_passes(suites: Suites, shots: int | None) -> None:
    output, errors = suites[shots].communicate(timeout=seconds(TIME_LIMIT_SECONDS))
    assert suites[shots].returncode == 0, output[-3000:] + errors[-1000:]
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None
    assert int(passed[1]) > 100
