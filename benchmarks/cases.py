"""What is measured, what it must reach, and what is left out because it would take too long."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.circuit_models import model

Row = Mapping[str, Any]  # of results.json: system, task, model, qubits, batch, ms_per_circuit, ...

SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "train": ("qfleet", "tfq", "lightning"),
    "forward": ("qfleet", "tfq", "lightning", "qsim"),
}
LONGEST_S = 60.0  # a peer's cell that is predicted to take longer is left out
PEERS_S = 1_050.0  # when the run has taken so long, peers are left out: it ends within 20 minutes
BESIDE = 3  # what getting ready costs, in rounds
ROUND_S = 0.4  # a round takes this or one batch, whichever is longer


@dataclass(frozen=True)
class BenchmarkCell:
    """A model, its width and a batch; `turned` angles of each example differ from 0, or all."""

    model: str
    qubits: int
    batch: int
    turned: int | None = None

    def __str__(self) -> str:
        turned = "" if self.turned is None else f", {self.turned} angle turned"
        return f"{self.model}, {self.qubits} qubits, batch {self.batch}{turned}"


@dataclass(frozen=True)
class SpeedBound:
    """How many times a peer qfleet must be at least, on the QCNN, and what it aims at.

    Attributes:
        peer_batch: The peer's batch where it is another one.
        floor: What the quick form fails below, None where it does not measure it. It is lower than
            `least`, since a neighbour on a shared machine takes more from our two threads than from
            a peer's one: 12 qubits were 59 to 210 times in six runs there.
    """

    task: str
    peer: str
    qubits: int
    batch: int
    least: float
    aim: float | None = None
    peer_batch: int | None = None
    floor: float | None = None


BOUNDS = (
    SpeedBound("train", "tfq", 8, 32, least=200, aim=500, floor=130),
    SpeedBound("train", "tfq", 12, 32, least=110, aim=200, floor=50),
    SpeedBound("train", "tfq", 16, 16, least=50, aim=110, floor=22),
    SpeedBound("train", "tfq", 20, 16, least=35, aim=80, peer_batch=2),
    SpeedBound("train", "tfq", 20, 2, least=15, aim=40),
    SpeedBound("forward", "qsim", 8, 32, least=100, floor=100),
    SpeedBound("forward", "qsim", 20, 16, least=2),
)

# Of each model the narrow ones come first: the wide ones are predicted from them.
_BOTH, _TRAIN = ("train", "forward"), ("train",)
_OTHERS = ((4, 32), (8, 32), (12, 32), (16, 16), (20, 2))
_FULL = (
    ("qcnn", _BOTH, ((4, 32), (8, 32), (12, 32), (16, 16), (20, 2), (20, 16), (23, 2), (23, 32))),
    ("qcnn", _TRAIN, ((8, 1), (8, 8), (8, 128), (16, 1), (16, 4), (16, 32))),
    ("hybrid", _BOTH, _OTHERS),
    ("entangling", _BOTH, _OTHERS),
)


def quick() -> dict[tuple[BenchmarkCell, str], tuple[str, ...]]:
    """The cells and systems that the bounds of the quick form need; lightning in the first."""
    needed: dict[tuple[BenchmarkCell, str], tuple[str, ...]] = {}
    for bound in BOUNDS:
        if bound.floor is not None:
            needed[BenchmarkCell("qcnn", bound.qubits, bound.batch), bound.task] = (
                "qfleet",
                bound.peer,
            )
    first = next(iter(needed))
    needed[first] = (*needed[first], "lightning")
    return needed


def full() -> dict[tuple[BenchmarkCell, str], tuple[str, ...]]:
    """All cells, with all systems."""
    return {
        (BenchmarkCell(name, *size), task): SYSTEMS[task]
        for name, tasks, sizes in _FULL
        for size in sizes
        for task in tasks
    }


def find(rows: Iterable[Row], system: str, task: str, cell: BenchmarkCell) -> Row | None:
    """The row of a system in a cell."""
    wanted = (system, task, cell.model, cell.qubits, cell.batch)
    for row in rows:
        if wanted == (row["system"], row["task"], row["model"], row["qubits"], row["batch"]):
            return row
    return None


def why_left_out(
    rows: Iterable[Row], system: str, task: str, cell: BenchmarkCell, rounds: int, elapsed: float
) -> str | None:
    """Why a peer takes no part in a cell; None where it does, as qfleet always."""
    if system == "qfleet":
        return None
    if elapsed > PEERS_S:
        return f"the run had taken {elapsed:.0f} s already"
    seconds = predicted_seconds(rows, system, task, cell, rounds)
    if seconds is not None and seconds > LONGEST_S:
        return f"predicted to take {seconds:.0f} s"
    return None


def predicted_seconds(
    rows: Iterable[Row], system: str, task: str, cell: BenchmarkCell, rounds: int
) -> float | None:
    """How long a cell will take; None where nothing smaller was measured.

    A circuit of G gates and N qubits takes G (a + b 2**N), with a and b from the two widest
    measured below N (b = 0 where there is one only); the same at any batch.
    """
    known: dict[int, float] = {}
    for row in rows:
        if (row["system"], row["task"], row["model"]) == (system, task, cell.model):
            known[row["qubits"]] = row["ms_per_circuit"]  # of several batches the largest
    known = {qubits: ms for qubits, ms in known.items() if qubits <= cell.qubits}
    if not known:
        return None
    if cell.qubits in known:
        ms = known[cell.qubits]
    else:
        gates = model(cell.model, cell.qubits).gates
        per_gate = [(n, known[n] / model(cell.model, n).gates) for n in sorted(known)[-2:]]
        ms = gates * _extrapolated(per_gate, cell.qubits)
    return (rounds + BESIDE) * max(ROUND_S, cell.batch * ms / 1e3)


def _extrapolated(points: Sequence[tuple[int, float]], qubits: int) -> float:
    """a + b 2**qubits through the points, b at least 0."""
    (narrow, low), (wide, high) = points[0], points[-1]
    slope = max(0.0, (high - low) / (2**wide - 2**narrow)) if wide > narrow else 0.0
    return high + slope * (2**qubits - 2**wide)


def ratio(rows: Iterable[Row], bound: SpeedBound) -> float | None:
    """How many times the peer qfleet is; None where one of the two is not there."""
    rows = list(rows)
    ours = find(rows, "qfleet", bound.task, BenchmarkCell("qcnn", bound.qubits, bound.batch))
    batch = bound.peer_batch or bound.batch
    theirs = find(rows, bound.peer, bound.task, BenchmarkCell("qcnn", bound.qubits, batch))
    if ours is None or theirs is None:
        return None
    return theirs["ms_per_circuit"] / ours["ms_per_circuit"]
