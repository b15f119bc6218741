"""Runs tests/keras in a process of its own: Keras has one backend per process."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]


def run(
    backend: str, *command: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run Python with a backend of Keras.

    Args:
        backend: KERAS_BACKEND.
        command: Arguments of Python.
        python: That of the environment of the backend.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    others = {key: os.environ[key] for key in os.environ if key != "TF_USE_LEGACY_KERAS"}
    environment = others | {
        "KERAS_BACKEND": backend,
        "JAX_ENABLE_X64": "true",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return subprocess.run(
        [python, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds(300),
        check=False,
    )


def require_success(backend: str, python: str = sys.executable) -> None:
    """Run the tests of Keras 3 on a backend, and fail with their output."""
    options = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--confcutdir=tests/keras")
    done = run(backend, "-m", "pytest", *options, "tests/keras", python=python)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
