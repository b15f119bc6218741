"""Training and inference where TensorFlow Quantum is not installed, as far as Python can tell."""

from pathlib import Path

import pytest

from tests.support.training_processes import SMALL, training_processes

start = pytest.fixture(training_processes)

# Loaded by every Python that is started with this folder on its path: nothing finds the package.
ABSENT = """
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
BROKEN = "raise ImportError('libtensorflow has another version')"


def test_training_and_inference_need_no_tensorflow_quantum(start, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ABSENT)
    gang = start(tmp_path / "runs", *SMALL, PYTHONPATH=str(tmp_path))
    assert gang.wait() == 0, gang.output
    asked = start(tmp_path / "runs", module="inference", PYTHONPATH=str(tmp_path))
    assert asked.wait() == 0, asked.output
    settings = (*SMALL, "WORKERS=1", "SIMULATOR=tfq")
    refused = start(tmp_path / "other", *settings, PYTHONPATH=str(tmp_path))
    assert refused.end() == 2
    said = [line for line in refused.output.splitlines() if "TensorFlow Quantum" in line]
    assert said == [
        "qfleet: SIMULATOR=tfq needs TensorFlow Quantum, which is not installed: make training and"
        " make inference install it where they are told SIMULATOR=tfq (on Linux x86_64), or use"
        " SIMULATOR=qfleet"
    ]
    assert "Traceback" not in refused.output


def test_a_tensorflow_quantum_that_fails_to_load_is_one_sentence(start, tmp_path: Path) -> None:
    (tmp_path / "tensorflow_quantum").mkdir()
    (tmp_path / "tensorflow_quantum" / "__init__.py").write_text(BROKEN)
    settings = (*SMALL, "WORKERS=1", "SIMULATOR=tfq")
    refused = start(tmp_path / "runs", *settings, PYTHONPATH=str(tmp_path))
    assert refused.end() == 2
    assert "SIMULATOR=tfq: TensorFlow Quantum can't be loaded: libtensorflow has" in refused.output
    assert "Traceback" not in refused.output
