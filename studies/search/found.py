"""The circuits that all seeds of a search found, and their Pareto front."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cirq

from common.commands import command
from common.environments import code_version
from common.settings import Settings, circuit_file
from qfleet.circuits.circuit_json import to_json
from qfleet.search import Result, SearchResult, pareto_front
from qfleet.search.methods import objective
from qfleet.search.simplify import simplified
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.stages import SeedSearch, rounded

DATA_SETTINGS = (
    *("qubits", "encoder", "classes", "label_column", "id_column"),
    *("train_examples", "validation_examples", "test_examples"),
)
"""Settings of the data that a training must have in common with a search."""

Results = Sequence[SeedSearch]
"""The searches of all seeds, which have ended."""


@dataclass(frozen=True)
class FoundCircuit:
    """A circuit of the front.

    Attributes:
        number: Its number, from 0, the smallest error first.
        seed: The seed that found it.
        result: Its energy, error and price.
        stage: The stage that found it.
    """

    number: int
    seed: int
    result: Result
    stage: SearchResult

    @property
    def circuit(self) -> cirq.Circuit:
        """The circuit with its angles, without gates that cancel; data are symbols."""
        circuit, angles = self.free
        return cirq.resolve_parameters(circuit, angles)

    @cached_property
    def free(self) -> tuple[cirq.Circuit, dict[str, float]]:
        """The circuit with a symbol for each angle, and their values."""
        return simplified(*self.stage.free_circuit(self.result))

    def model(self, definition: SearchDefinition) -> str:
        """Return the content of a file for MODEL."""
        circuit, angles = self.free
        content: dict[str, Any] = {
            "format": circuit_file.FORMAT,
            "name": f"{definition.name}-{self.number}",
            "circuit": json.loads(to_json(circuit)),
            "angles": angles,
            "origin": {
                "search": definition.name,
                "seed": self.seed,
                "data": definition.settings.data.data,
                "space": definition.space,
                "method": definition.method,
                "energy": self.result.energy,
                "error": self.result.error,
                "two_qubit_gates": self.result.two_qubit_gates,
                "code": code_version(),
            },
        }
        if definition.has_data:
            content |= {"inputs": definition.rows.inputs, "head": self.result.head}
        return json.dumps(content) + "\n"

    def qasm(self) -> str | None:
        """Return the circuit as OpenQASM 2; None if a gate has no form in it, or encodes data."""
        circuit = self.circuit
        if cirq.is_parameterized(circuit):
            return None
        try:
            return cirq.qasm(circuit, args=cirq.QasmArgs(version="2.0"))
        except ValueError:
            return None

    def to_json(self) -> dict[str, Any]:
        """Return its row of front.json."""
        one = self.result
        return {
            "number": self.number,
            "seed": self.seed,
            "error": one.error,
            "energy": one.energy,
            "two_qubit_gates": one.two_qubit_gates,
            "depth": one.depth,
            "fidelity": one.fidelity,
            "duration_ns": one.duration,
            "angles": len(self.free[1]),
        }


def front(definition: SearchDefinition, searches: Results) -> list[FoundCircuit]:
    """Return the circuits that no other of any seed beats in all objectives.

    Errors that are equal in three digits, or are rounding, count as equal. Of equal circuits, the
    one with the lowest loss is kept.

    Args:
        definition: The search.
        searches: All seeds.
    """
    every = [
        (search.seed, stage, one)
        for search in searches
        for stage in search.stages.values()
        for one in stage.history
    ]
    every.sort(key=lambda one: rounded(one[2].energy))
    points = [[_shown(one, name) for name in definition.objectives] for _, _, one in every]
    kept = [every[at] for at in pareto_front(points)] if points else []
    return [FoundCircuit(at, seed, one, stage) for at, (seed, stage, one) in enumerate(kept)]


def _shown(result: Result, name: str) -> float:
    return rounded(result.error) if name == "error" else objective(result, name)


def training_command(
    definition: SearchDefinition, folder: SearchFolder, circuit: FoundCircuit
) -> str:
    """Return the command that trains a circuit.

    Args:
        definition: The search.
        folder: Its folder.
        circuit: The circuit.
    """
    model = folder.models / f"{circuit.number}.model.json"
    job, data = definition.settings.job, definition.settings.data
    words = [f"TASK={data.task} DATA={shlex.quote(data.data)} MODEL={shlex.quote(str(model))}"]
    fields = Settings.fields()
    names = DATA_SETTINGS if definition.has_data else ("qubits",) if definition.is_state else ()
    words += [
        f"{name.upper()}={shlex.quote(str(value))}"
        for name in names
        if (value := definition.settings.get(name)) != fields[name].default
    ]
    if job.target == "k8s":
        words.append("TARGET=k8s")
    if job.storage != Settings.fields()["storage"].default:
        words.append(f"STORAGE={shlex.quote(job.storage)}")
    return " ".join([command("train"), *words, f"RUN={folder.name}-{circuit.number}"])
