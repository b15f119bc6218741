"""Defaults that follow TASK, DATA and MODEL."""

from collections.abc import Mapping
from pathlib import Path

from common.settings.circuit_file import is_circuit
from common.settings.gate_file import local_gate
from common.settings.groups.experiment import GATE, PROBLEM_FILES, PULSE, VARIATIONAL_TASKS

ANSATZ = "hardware-efficient"
"""MODEL of a task without labelled examples: it fits every Hamiltonian and state."""

FOUND_LEARNING_RATE = 0.01
"""LEARNING_RATE of a circuit that a search found: steps of 0.1 leave its minimum."""

MAX_FILE_BYTES = 1 << 26


def task_defaults(given: Mapping[str, object]) -> dict[str, object]:
    """Return the defaults that differ from those of the groups.

    Args:
        given: Given values by name, not validated.
    """
    task, found = given.get("task"), dict[str, object]()
    if task in VARIATIONAL_TASKS and "model" not in given:
        found["model"] = ANSATZ
    if task == GATE and "model" not in given:
        found["model"] = PULSE
    if task == GATE and "qubits" not in given:
        gate = local_gate(str(given.get("data", "")))
        found["qubits"] = gate.width if gate else 1
    if task == "energy" and "qubits" not in given:
        qubits = _width(str(given.get("data", "")))
        if qubits is not None:
            found["qubits"] = qubits
    if is_circuit(str(given.get("model", ""))):
        found["learning_rate"] = FOUND_LEARNING_RATE
        if "initialization_epochs" not in given:
            found["initializations"] = 1
    return {name: value for name, value in found.items() if name not in given}


def _width(name: str) -> int | None:
    """Return the qubits of a Hamiltonian; None if it can't be read, which is reported later.

    The client of clusters has no Cirq: its pods compute them.
    """
    try:
        from qfleet.errors import LibraryError  # only here: Cirq takes a second to import
        from qfleet.problems import parse
        from qfleet.problems.names import width_of
    except ImportError:
        return None

    if not name.lower().endswith(PROBLEM_FILES["energy"]):
        return width_of(name)
    path = Path(name)
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return None
        return parse(path.read_text(encoding="utf-8", errors="replace"), name).qubits
    except (OSError, LibraryError):
        return None
