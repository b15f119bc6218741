"""The benchmark cases, their bounds, and the choice of cases that are skipped for time."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.circuit_models import model
from benchmarks.machine import total_gib
from benchmarks.systems import SYSTEMS, of_task
from common.text import plural

Row = Mapping[str, Any]  # of results.json: system, task, model, qubits, batch, ms_per_circuit, ...

_LEAST_GIB = 0.2
"""Less memory than this above the idle process is not extrapolated: it is not that of states."""

_MOST_STATES = 32
"""More states per gate and example than these are not extrapolated: they are the memory of a
compiler."""

MAX_CASE_SECONDS = 60.0
"""Predicted time above which a case of another system is skipped."""

MAX_COMPILATION_SECONDS = 90.0
"""Predicted time of compilation and first step above which a case of another system is skipped."""

MAX_PEER_SECONDS = 2_400.0
"""Elapsed time after which other systems are skipped, so that a run ends within 45 minutes."""

MAX_MEMORY_SHARE = 0.8
"""Predicted memory, as a share of the machine's, above which a case is skipped."""

OUT_OF_TIME = "out of time"
"""Begins the reason to skip a case that RESUME=1 measures."""

PREPARATION_ROUNDS = 4
"""Time of the preparation, in rounds."""

ROUND_SECONDS = 0.4
"""Time of a round, if a batch is not longer."""


@dataclass(frozen=True)
class SpeedCase:
    """A model, its width and a batch size.

    Attributes:
        model: One of MODELS.
        qubits: Its width.
        batch: Examples per batch.
        nonzero_angles: Angles of each example that are not 0; None for all.
    """

    model: str
    qubits: int
    batch: int
    nonzero_angles: int | None = None

    def __str__(self) -> str:
        angles = ""
        if self.nonzero_angles is not None:
            angles = f", {plural(self.nonzero_angles, 'nonzero angle')}"
        return f"{self.model}, {self.qubits} qubits, batch {self.batch}{angles}"


@dataclass(frozen=True)
class SpeedBound:
    """The minimum speed of qfleet, as a multiple of another system's speed.

    Attributes:
        task: `train` or `forward`.
        peer: The other system.
        qubits: Width of the circuit.
        batch: Examples per batch.
        least: Minimum ratio.
        aim: Goal for the ratio.
        peer_batch: Batch of the other system, if it is different.
        floor: Ratio below which the quick form fails; None if it does not measure the case. It is
            lower than `least`: on a shared machine, other load slows the two threads of qfleet
            more than the one thread of another system. Six runs had ratios of 59 to 210 there.
        model: One of MODELS.
    """

    task: str
    peer: str
    qubits: int
    batch: int
    least: float
    aim: float | None = None
    peer_batch: int | None = None
    floor: float | None = None
    model: str = "qcnn"


BOUNDS = (
    SpeedBound("train", "tfq", 8, 32, least=200, aim=500, floor=130),
    SpeedBound("train", "tfq", 12, 32, least=160, aim=200, floor=50),
    SpeedBound("train", "tfq", 16, 16, least=60, aim=110, floor=22),
    SpeedBound("train", "tfq", 20, 16, least=35, aim=80, peer_batch=2),
    SpeedBound("train", "tfq", 20, 2, least=15, aim=40),
    SpeedBound("train", "tfq", 16, 16, least=25, model="entangling"),
    SpeedBound("train", "tfq", 20, 2, least=30, model="entangling"),
    SpeedBound("forward", "qsim", 8, 32, least=100, floor=100),
    SpeedBound("forward", "qsim", 20, 16, least=2),
)

QUICK_NARROW = SpeedCase("entangling", 4, 32)

# Narrow circuits come first, because the times of wide ones are predicted from them.
_OTHERS = ((4, 32), (8, 32), (12, 32), (16, 16), (20, 2))
_FULL = (
    ("qcnn", ((4, 32), (8, 32), (12, 32), (16, 16), (20, 2), (20, 16), (23, 2), (23, 32))),
    ("hybrid", _OTHERS),
    ("entangling", _OTHERS),
)
# Last, because systems that compile spend the most time on them.
_BATCHES = ("qcnn", ((8, 1), (8, 8), (8, 128), (16, 1), (16, 4), (16, 32)))


def quick() -> dict[tuple[SpeedCase, str], tuple[str, ...]]:
    """Return the cases and systems of the quick form.

    Peers without bounds run in a narrow case. Those that compile or need PyTorch are left out, so
    that CI waits neither for a compilation nor for an installation.
    """
    needed: dict[tuple[SpeedCase, str], tuple[str, ...]] = {}
    for bound in BOUNDS:
        if bound.floor is not None:
            needed[SpeedCase(bound.model, bound.qubits, bound.batch), bound.task] = (
                "qfleet",
                bound.peer,
            )
    needed[QUICK_NARROW, "train"] = ("qfleet", "lightning", "qulacs")
    return needed


def full() -> dict[tuple[SpeedCase, str], tuple[str, ...]]:
    """Return all cases with all systems: training, the forward pass, and training with batches."""
    table = [(task, *models) for task in ("train", "forward") for models in _FULL]
    return {
        (SpeedCase(name, *size), task): of_task(task)
        for task, name, sizes in [*table, ("train", *_BATCHES)]
        for size in sizes
    }


def find(rows: Iterable[Row], system: str, task: str, case: SpeedCase) -> Row | None:
    """Return the row of a system in a case; None if it was not measured."""
    wanted = (system, task, case.model, case.qubits, case.batch)
    for row in rows:
        if wanted == (row["system"], row["task"], row["model"], row["qubits"], row["batch"]):
            return row
    return None


def skip_reason(
    rows: Iterable[Row], system: str, task: str, case: SpeedCase, rounds: int, elapsed: float
) -> str | None:
    """Return the reason to skip a system in a case; None for qfleet, which is never skipped."""
    if system == "qfleet":
        return None
    if elapsed > MAX_PEER_SECONDS:
        return f"{OUT_OF_TIME}: {elapsed:.0f} s have passed"
    rows = list(rows)
    seconds = predicted_seconds(rows, system, task, case, rounds)
    if seconds is not None and seconds > MAX_CASE_SECONDS:
        return f"predicted to take {seconds:.0f} s"
    gib = predicted_gib(rows, system, task, case)
    if gib is not None and gib > MAX_MEMORY_SHARE * total_gib():
        return f"predicted to need {gib:.0f} GiB of memory"
    if SYSTEMS[system].compiles:
        seconds = predicted_compilation(rows, system, task, case)
        if seconds is not None and seconds > MAX_COMPILATION_SECONDS:
            return f"compilation predicted to take {seconds / 60:.0f} min"
    return None


def predicted_seconds(
    rows: Iterable[Row], system: str, task: str, case: SpeedCase, rounds: int
) -> float | None:
    """Predict the time of a case; None if no narrower circuit was measured.

    A circuit of G gates and N qubits takes G (a + b 2**N). The coefficients come from the two
    widest circuits measured below N (b = 0 if there is only one). The batch has no effect.
    """
    known: dict[int, float] = {}
    for row in _narrower(rows, system, task, case):
        known[row["qubits"]] = row["ms_per_circuit"]  # the last batch counts
    if not known:
        return None
    if case.qubits in known:
        ms = known[case.qubits]
    else:
        gates = model(case.model, case.qubits).gates
        per_gate = [(n, known[n] / model(case.model, n).gates) for n in sorted(known)[-2:]]
        ms = gates * _extrapolated(per_gate, case.qubits)
    return (rounds + PREPARATION_ROUNDS) * max(ROUND_SECONDS, case.batch * ms / 1e3)


def predicted_gib(rows: Iterable[Row], system: str, task: str, case: SpeedCase) -> float | None:
    """Predict the peak memory of a case from the widest narrower circuit; None if there is none.

    Memory above that of the idle process is proportional to the batch and to 2**N. A system that
    keeps every state needs more for more gates, so it is also proportional to their number.
    """
    known = [row for row in _narrower(rows, system, task, case) if "idle_gib" in row]
    if not known:
        return None
    row = max(known, key=lambda row: (row["qubits"], row["batch"]))
    measured = SpeedCase(case.model, row["qubits"], row["batch"])
    own = row["peak_gib"] - row["idle_gib"]
    states = own / _gib_of_states(measured)  # of each gate
    if own < _LEAST_GIB or states > _MOST_STATES:
        return None
    return row["idle_gib"] + states * _gib_of_states(case)


def _gib_of_states(case: SpeedCase) -> float:
    """Return the memory of a complex64 state per gate and example."""
    return model(case.model, case.qubits).gates * case.batch * 2.0 ** (case.qubits + 3 - 30)


def predicted_compilation(
    rows: Iterable[Row], system: str, task: str, case: SpeedCase
) -> float | None:
    """Predict compilation and first step, in s, as a power of the number of gates.

    Returns:
        The time at this width with another batch if it is known, an extrapolation from the two
        widest narrower circuits, or None.
    """
    known = {row["qubits"]: row["first_step_s"] for row in _narrower(rows, system, task, case)}
    if case.qubits in known:
        return known[case.qubits]
    if len(known) < 2:
        return None
    (narrow, low), (wide, high) = [
        (model(case.model, qubits).gates, known[qubits]) for qubits in sorted(known)[-2:]
    ]
    power = max(1.0, math.log(high / low) / math.log(wide / narrow))
    return high * (model(case.model, case.qubits).gates / wide) ** power


def _narrower(rows: Iterable[Row], system: str, task: str, case: SpeedCase) -> list[Row]:
    """Return a system's rows of circuits of the same model that are not wider."""
    return [
        row
        for row in rows
        if (row["system"], row["task"], row["model"]) == (system, task, case.model)
        and row["qubits"] <= case.qubits
    ]


def _extrapolated(points: Sequence[tuple[int, float]], qubits: int) -> float:
    """Extrapolate a + b 2**qubits from the points, with b >= 0."""
    (narrow, low), (wide, high) = points[0], points[-1]
    b = max(0.0, (high - low) / (2**wide - 2**narrow)) if wide > narrow else 0.0
    return high + b * (2**qubits - 2**wide)


def ratio(rows: Iterable[Row], bound: SpeedBound) -> float | None:
    """Return the time of the other system over that of qfleet; None if one is missing."""
    rows = list(rows)
    own = find(rows, "qfleet", bound.task, SpeedCase(bound.model, bound.qubits, bound.batch))
    batch = bound.peer_batch or bound.batch
    other = find(rows, bound.peer, bound.task, SpeedCase(bound.model, bound.qubits, batch))
    if own is None or other is None:
        return None
    return other["ms_per_circuit"] / own["ms_per_circuit"]
