"""Training and inference in an environment without TensorFlow Quantum."""

import sys
from pathlib import Path

from common.processes import ManagedProcess, clean_environment
from tests.support.training_processes import SMALL

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 240.0

# Python imports sitecustomize at start if its folder is on the path.
HIDE_TFQ = """
import sys

class Finder:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tensorflow_quantum":
            return None
        return self.inner.find_spec(name, path, target)

sys.meta_path[:] = [Finder(inner) for inner in sys.meta_path]
"""
BROKEN_TFQ = "raise ImportError('libtensorflow has another version')"


def run(module: str, python_path: Path, *args: str) -> tuple[int, str]:
    """Run a program; return its exit code and its whole output."""
    with ManagedProcess(
        [sys.executable, "-m", module, *args],
        cwd=ROOT,
        env=clean_environment(PYTHONPATH=str(python_path)),
        stdout="capture",
        stderr="stdout",
        emits=False,
    ) as process:
        code = process.wait(TIMEOUT_SECONDS)
    return code, process.stdout_text


def test_training_and_inference_run_without_tfq(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDE_TFQ)
    storage = f"STORAGE={tmp_path / 'runs'}"
    code, output = run("training", tmp_path, storage, *SMALL)
    assert code == 0, output
    code, output = run("inference", tmp_path, storage)
    assert code == 0, output
    other = f"STORAGE={tmp_path / 'other'}"
    code, output = run("training", tmp_path, other, *SMALL, "WORKERS=1", "SIMULATOR=tfq")
    assert code == 2
    (line,) = [line for line in output.splitlines() if "TensorFlow Quantum" in line]
    assert line.startswith("qfleet: SIMULATOR=tfq: ")
    assert "not installed" in line
    assert "Traceback" not in output


def test_broken_tfq_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tensorflow_quantum").mkdir()
    (tmp_path / "tensorflow_quantum" / "__init__.py").write_text(BROKEN_TFQ)
    storage = f"STORAGE={tmp_path / 'runs'}"
    code, output = run("training", tmp_path, storage, *SMALL, "WORKERS=1", "SIMULATOR=tfq")
    assert code == 2
    (line,) = [line for line in output.splitlines() if "TensorFlow Quantum" in line]
    assert line.startswith("qfleet: SIMULATOR=tfq: ")
    assert "libtensorflow has" in line
    assert "Traceback" not in output
