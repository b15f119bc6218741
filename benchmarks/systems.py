"""The compared systems: for each a name, an environment and a module that serves it.

A new system is an entry here and a class that `python -m MODULE NAME` serves, as in
benchmarks/peers/.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOTH = ("train", "forward")


@dataclass(frozen=True)
class System:
    """A simulator in an environment of its own.

    Attributes:
        name: Its name in results.json and in the tables.
        title: Its name in plots and in the documentation.
        module: The module that serves it.
        environment: Folder of its virtual environment; None for this interpreter's.
        tasks: What it computes.
        compiles: True if it compiles each case, so that the first step can take minutes.
        how: How it is used, for the conditions of the benchmark.
    """

    name: str
    title: str
    module: str
    environment: str | None
    how: str
    tasks: tuple[str, ...] = BOTH
    compiles: bool = False

    @property
    def command(self) -> list[str]:
        """The command of its process."""
        python = sys.executable
        if self.environment is not None:
            python = str(ROOT / self.environment / "bin" / "python")
        return [python, "-m", self.module, self.name]


SYSTEMS = {
    system.name: system
    for system in (
        System(
            "qfleet",
            "qfleet",
            "benchmarks.run_keras",
            None,
            "Keras `fit` on tensors in memory, Adam, complex64",
        ),
        System(
            "tfq",
            "TensorFlow Quantum",
            "benchmarks.run_keras",
            ".venv-tfq",
            "as qfleet, with its PQC layer and the Adjoint differentiator",
        ),
        System(
            "tensorcircuit",
            "TensorCircuit-NG (JAX)",
            "benchmarks.peers",
            ".venv-peers",
            "`jax.jit`, `jax.vmap` and `jax.value_and_grad`, Adam, complex64",
            compiles=True,
        ),
        System(
            "default.qubit",
            "PennyLane default.qubit (JAX)",
            "benchmarks.peers",
            ".venv-peers",
            "a QNode with backpropagation under `jax.jit` and `jax.vmap`, Adam, complex64",
            compiles=True,
        ),
        System(
            "lightning",
            "PennyLane lightning.qubit",
            "benchmarks.peers",
            ".venv-peers",
            "adjoint gradients, Adam, complex64; its examples in a loop or broadcast,"
            " the faster one counts",
        ),
        System(
            "qulacs",
            "Qulacs",
            "benchmarks.peers",
            ".venv-peers",
            "`backprop` circuit by circuit, Adam, complex128; with one thread or all,"
            " the faster one counts",
        ),
        System(
            "torchquantum",
            "TorchQuantum-NG",
            "benchmarks.peers",
            ".venv-peers",
            "a batched device with autograd, Adam, complex64",
        ),
        System(
            "qsim",
            "qsim",
            "benchmarks.peers",
            ".venv-peers",
            "forward only, in a loop, with parameters bound in advance; one thread or all, and"
            " gates fused to 2, 3 or 4 qubits: the fastest combination counts",
            tasks=("forward",),
        ),
    )
}


def of_task(task: str) -> tuple[str, ...]:
    """Return the names of the systems that compute a task."""
    return tuple(name for name, system in SYSTEMS.items() if task in system.tasks)
