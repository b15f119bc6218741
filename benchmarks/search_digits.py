"""Found circuits for digits against hand-made ones, under the noise of devices.

A cell is a choice of classes, a device and a seed. The search is that of `make search` with
METHOD=evolution:8 and NOISE. Of its front, the circuit with the lowest error on the validation
split under noise is kept. The hand-made circuit has gates of the same space in the usual order,
encoders, a line of CNOTs and rotations in each layer: as many angles and CNOTs as the found one,
if the space has them. It is trained from random starts with as many evaluations, and the start
with the lowest error under noise is kept. The test split is read once, at the end of a cell.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path

import cirq
import numpy as np
from pydantic import BaseModel

from common import storage
from common.data import Examples
from qfleet.devices import add_device_noise, map_to_device
from qfleet.devices.calibration import Calibration
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.search import Candidate, Result, SearchMethod, SearchResult, Space, pareto_front, search
from qfleet.search.methods import Task, next_generation
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.space_of import space_of
from studies.search.stages import SeedSearch

CLASSES = {"2": "3,6", "4": "0,1,2,3", "10": "all"}
DEVICES = ("ibm_santiago", "ibm_belem", "ibm_yorktown")
STARTS = 8
TEST_ROWS = 500
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 10: 2.26}  # Student's t by number of seeds


class Cell(BaseModel):
    """A cell of the table: accuracy on the test split under noise.

    Attributes:
        found: Accuracy, CNOTs and angles of the found circuit.
        made: Those of the hand-made circuit.
        seconds: Time of both searches.
    """

    found: tuple[float, int, int]
    made: tuple[float, int, int]
    seconds: float


class HandMade(SearchMethod):
    """Random starts of one circuit.

    Args:
        gates: Its gates.
    """

    name = "hand-made"

    def __init__(self, gates: tuple[int, ...]) -> None:
        self.gates = gates

    @property
    def generation(self) -> int:
        """Most candidates of the first generation."""
        return STARTS

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`."""
        random = task.random(next_generation(history))
        start = Candidate(self.gates, (), origin=self.name)
        count = task.space.angle_count(self.gates)
        return [start.trained(random.normal(0, 0.3, count)) for _ in range(STARTS)]


def digits(cases: Sequence[str], seeds: int, evaluations: int, folder: Path) -> None:
    """Print a row for each choice of classes and device.

    Args:
        cases: Such as 2:ibm_santiago.
        seeds: Number of seeds.
        evaluations: BUDGET of each search.
        folder: Keeps the cells that have ended, and the histories of the others.
    """
    print("classes, device: accuracy under noise, CNOTs, angles: found; hand-made; found better")
    for case in cases:
        classes, device = case.split(":")
        cells = [cell(classes, device, seed, evaluations, folder) for seed in range(seeds)]
        found, made = ([getattr(one, name) for one in cells] for name in ("found", "made"))
        gain = interval([a[0] - b[0] for a, b in zip(found, made, strict=True)])
        print(f"{classes:>2} {device:13} {_text(found)}; {_text(made)}; {gain}", flush=True)


def cell(classes: str, device: str, seed: int, evaluations: int, folder: Path) -> Cell:
    """Return a cell, from its file if there is one."""
    name = f"{classes}-{device.replace('_', '-')}-{seed}-{evaluations}"
    file = folder / f"{name}.json"
    if file.exists():
        return Cell.model_validate_json(file.read_text())
    definition = SearchDefinition.from_args(
        [
            *(f"NAME={name}", "TASK=classification", "DATA=digits", f"CLASSES={CLASSES[classes]}"),
            *("QUBITS=4", f"NOISE={device}", "METHOD=evolution:8", f"SEED={seed}"),
            *(f"BUDGET={evaluations}evaluations", f"STORAGE={folder}"),
        ]
    )
    space, files = space_of(definition), SearchFolder(folder, name)
    files.open(definition)
    one = SeedSearch(definition, files, seed, lambda _: None)
    one.run(space)
    (stage,) = one.stages.values()
    validation = Examples(definition.rows.validation, definition.rows.validation_labels)
    found = best_under_noise(definition, stage, validation)
    gates = hand_made(space, len(found.candidate.angles), found.two_qubit_gates)
    trained = search(
        definition.rows, space, HandMade(gates), evaluations=evaluations, seed=seed,
        calibration=definition.calibration, steps=60, tolerance=1e-4,
        file=str(files.history(seed, "hand-made")),
    )  # fmt: skip
    made = best_under_noise(definition, trained, validation)
    tested = Examples(*(part[:TEST_ROWS] for part in definition.dataset.sample("test", TEST_ROWS)))
    scores = [
        (1 - error_under_noise(definition, of, result, tested), result.two_qubit_gates,
         len(result.candidate.angles))
        for of, result in ((stage, found), (trained, made))
    ]  # fmt: skip
    whole = Cell(found=scores[0], made=scores[1], seconds=one.seconds)
    storage.write_atomic(file, whole.model_dump_json())
    return whole


def hand_made(space: Space, angles: int, cnots: int) -> tuple[int, ...]:
    """Return gates of a space of layers, in order: the first CNOTs and the first angles.

    CNOTs point down the line, unless there are more than the line has. Angles are those of
    encoders and of rotations about Y, and then of other rotations.
    """
    gates = range(len(space.gates))
    turns = [one for one in gates if space.gates[one].angles]
    wires = [one for one in gates if not space.gates[one].angles]

    def is_late(gate: int) -> bool:
        (one,) = space.gates[gate].operations
        return not space.gates[gate].feature and not isinstance(one.gate, cirq.YPowGate)

    def is_up(gate: int) -> bool:
        (one,) = space.gates[gate].operations
        return one.qubits[0] > one.qubits[1]

    chosen = [*sorted(turns, key=is_late)[:angles], *sorted(wires, key=is_up)[:cnots]]
    return tuple(sorted(chosen))


def best_under_noise(definition: SearchDefinition, stage: SearchResult, rows: Examples) -> Result:
    """Return the result of the front with the lowest error of rows under noise."""
    every = stage.history
    points = [(one.error, 1 - (one.fidelity or 0.0), one.two_qubit_gates) for one in every]
    return min(
        (every[at] for at in pareto_front(points)),
        key=lambda one: (error_under_noise(definition, stage, one, rows), one.energy),
    )


def error_under_noise(
    definition: SearchDefinition, stage: SearchResult, result: Result, rows: Examples
) -> float:
    """Return the part of rows that a circuit classifies wrong on the device, without shots."""
    calibration, task = definition.calibration, definition.rows
    assert isinstance(calibration, Calibration)
    circuit, angles = stage.free_circuit(result)
    qubits = stage.space.qubits
    mapped = map_to_device(
        cirq.resolve_parameters(circuit, angles),
        calibration,
        [cirq.Z(one) for one in qubits],
        qubits,
    )
    noisy = add_device_noise(mapped.circuit, calibration, mapped.observables)
    compiled = compile_circuit(noisy, task.inputs, (), mapped.observables, method="density_matrix")
    values = np.asarray(compiled.expectation(np.asarray(rows.angles, np.float64)))
    outputs = task.predictions(values[np.newaxis], np.array([result.head]))
    return float(task.loss(outputs, np.asarray(rows.labels, np.float64)).errors[0])


def interval(values: Sequence[float]) -> str:
    """Return the mean with its 95 % interval; without one for a single value, or other counts."""
    mean = statistics.fmean(values)
    factor = T_95.get(len(values))
    if factor is None:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {factor * statistics.stdev(values) / len(values) ** 0.5:.3f}"


def _text(rows: Sequence[tuple[float, int, int]]) -> str:
    cnots, angles = (statistics.fmean(one[at] for one in rows) for at in (1, 2))
    return f"{interval([one[0] for one in rows])}, {cnots:.1f}, {angles:.1f}"
