"""SIMULATOR=tfq in the worker's environment, which holds no TensorFlow Quantum."""

import sys
from pathlib import Path

import pytest

from common.processes import ManagedProcess, clean_environment
from common.settings.sources import last_of_each
from tests.support.patience import seconds
from tests.support.training_processes import SMALL

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 240.0

# Python imports sitecustomize at start if its folder is on the path.
NO_ENVIRONMENT = """
import pathlib
from common.processes import tfq_environment

tfq_environment.FOLDER = pathlib.Path("nowhere")
"""
BROKEN_TFQ = "raise ImportError('libtensorflow has another version')"


def run(python_path: Path, *args: str) -> tuple[int, str]:
    """Run training; return its exit code and its whole output."""
    with ManagedProcess(
        [
            sys.executable,
            "-m",
            "training",
            *last_of_each([*SMALL, "WORKERS=1", "SIMULATOR=tfq", *args]),
        ],
        cwd=ROOT,
        env=clean_environment(PYTHONPATH=f"{python_path}:{ROOT}"),
        stdout="capture",
        stderr="stdout",
        emits=False,
    ) as process:
        code = process.wait(seconds(TIMEOUT_SECONDS))
    return code, process.stdout_text


def test_missing_environment_of_tfq_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_ENVIRONMENT)
    code, output = run(tmp_path, f"STORAGE={tmp_path / 'runs'}")
    assert code == 2
    (line,) = [line for line in output.splitlines() if "TensorFlow Quantum" in line]
    assert line.startswith("qfleet: SIMULATOR=tfq: ")
    assert "not installed" in line
    assert "Traceback" not in output


def test_broken_tfq_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tensorflow_quantum").mkdir()
    (tmp_path / "tensorflow_quantum" / "__init__.py").write_text(BROKEN_TFQ)
    code, output = run(tmp_path, f"STORAGE={tmp_path / 'runs'}")
    assert code == 2
    (line,) = [line for line in output.splitlines() if "TensorFlow Quantum" in line]
    assert line.startswith("qfleet: SIMULATOR=tfq: ")
    assert "libtensorflow has" in line
    assert "Traceback" not in output
