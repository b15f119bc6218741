"""The Python environment of TensorFlow Quantum, which needs another TensorFlow than the worker."""

import importlib.util
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".venv-tfq"
"""Created by `make TARGET SIMULATOR=tfq`."""


def is_missing(simulator: str) -> bool:
    """Return True if a simulator needs TensorFlow Quantum, which no environment has."""
    needs = simulator == "tfq" and importlib.util.find_spec("tensorflow_quantum") is None
    return needs and not _python().is_file()


def enter_if_needed(simulator: str, module: str) -> None:
    """Start this program again in the environment of TensorFlow Quantum, if it needs that.

    Without that environment this does nothing: the first use of TensorFlow Quantum raises.

    Args:
        simulator: SIMULATOR, or that of the run which the program reads.
        module: The program, as in `python -m module`. It gets the same arguments.
    """
    python = _python()
    if (
        simulator != "tfq"
        or importlib.util.find_spec("tensorflow_quantum") is not None
        or Path(sys.prefix) == FOLDER
        or not python.is_file()
    ):
        return
    sys.stdout.flush()
    os.execv(python, [str(python), "-m", module, *sys.argv[1:]])  # noqa: S606


def _python() -> Path:
    return FOLDER / "bin" / "python"
