"""Programs that need TensorFlow Quantum go on in its environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.processes import tfq_environment
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from common.processes import tfq_environment

tfq_environment.enter_if_needed(sys.argv[1], "tests.support.print_arguments")
print("stayed")
"""


def start(simulator: str, python: Path) -> list[str]:
    """Return the lines of a program that starts with an interpreter."""
    command = [str(python), "-c", PROGRAM, simulator, "A=1 2"]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=seconds(60)
    ).stdout.splitlines()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The interpreter of an environment without packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    return tmp_path / "bin" / "python"


def test_program_starts_again_where_tfq_is(bare: Path) -> None:
    assert start("tfq", bare) == [str(tfq_environment.FOLDER), "tfq", "A=1 2"]


def test_other_simulator_stays_in_its_environment(bare: Path) -> None:
    assert start("qfleet", bare) == ["stayed"]


def test_environment_of_tfq_is_not_entered_twice() -> None:
    assert start("tfq", Path(sys.executable)) == ["stayed"]
