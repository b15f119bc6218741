"""The examples of the PyTorch, JAX and PennyLane adapters run, in a short form."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]


def run_example(name: str, *arguments: str, folder: Path = ROOT) -> str:
    """Run an example in a process of its own; return its standard output.

    Args:
        name: File in examples/.
        arguments: Of the command line.
        folder: A further folder to import from.
    """
    command = [sys.executable, f"examples/{name}", *arguments]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds(300),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_jax_training_learns() -> None:
    printed = run_example("jax_training.py", "--steps=150")
    (accuracy,) = re.findall(r"accuracy ([\d.]+)", printed)
    assert float(accuracy) > 0.7


def test_pennylane_qnode_trains(plugin_folder: Path) -> None:
    arguments = ("--device=qfleet.qubit", "--steps=40")
    printed = run_example("pennylane_qnode.py", *arguments, folder=plugin_folder)
    (accuracy,) = re.findall(r"accuracy ([\d.]+)", printed)
    assert float(accuracy) > 0.7


def test_quantum_convolution_learns_digits() -> None:
    printed = run_example("quantum_convolution.py", "--steps=150")
    (accuracy,) = re.findall(r"accuracy ([\d.]+)", printed)
    assert float(accuracy) > 0.8


def test_lightning_ddp_trains() -> None:
    # Processes, examples per step, timed steps; prints milliseconds per circuit.
    printed = run_example("pytorch_lightning_ddp.py", "2", "8", "5")
    assert float(printed.split()[-1]) > 0
