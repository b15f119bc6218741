"""Fleets that are not at hand: what an epoch takes there, from what was measured here.

One vCPU is taken for one core of the machine of benchmarks/results.json; a node's vCPUs are taken
to share its work without loss, which circuits bound by memory (20 qubits and more) will miss.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planning.step_model import MESSAGE, ONE_HOP

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results.json"
CORES = 2  # of the machine that RESULTS were measured on

AMPLITUDE = 8  # bytes, complex64
STATES = 2  # of an example at work in training, psi and lambda
USABLE = 0.8  # of a node's memory; the rest is the system's and TensorFlow's
BUFFERS = 1.2  # a split state with its exchange in pieces, over the state alone
# A hop of TensorFlow's ring on one machine. One of training/allreduce.py takes 0.1 ms there, to
# which a data centre's network adds one to three tenths.
HOP = 0.3e-3
VECTOR = 4 * 68  # bytes: a QCNN's slopes, the loss and the sums, float32
GIB = 2**30


@dataclass(frozen=True)
class Fleet:
    """Equal nodes, a worker on each.

    Attributes:
        name: What a plot calls it.
        nodes: How many.
        vcpus: Of a node.
        memory: Of a node, bytes.
        network: Bytes a second out of a node.
    """

    name: str
    nodes: int
    vcpus: int
    memory: float
    network: float = 2e9


LAPTOP = Fleet("laptop: 4 cores, 16 GiB", 1, 4, 16 * GIB)
NODE = Fleet("one node: 16 vCPU, 64 GiB", 1, 16, 64 * GIB)
CLUSTER = Fleet("32 nodes: 512 vCPU, 2 TiB", 32, 16, 64 * GIB)
LARGE = Fleet("625 nodes: 10,000 vCPU, 39 TiB", 625, 16, 64 * GIB)
FLEETS = (LAPTOP, NODE, CLUSTER, LARGE)


@cache
def _measured(system: str, task: str) -> dict[int, float]:
    """Qubits -> vCPU-seconds of a QCNN's circuit, at its best batch."""
    found: dict[int, float] = {}
    for row in json.loads(RESULTS.read_text(encoding="utf-8")):
        if (row["system"], row["task"], row["model"]) == (system, task, "qcnn"):
            seconds = row["ms_per_circuit"] / 1e3 * CORES
            found[row["qubits"]] = min(seconds, found.get(row["qubits"], seconds))
    return found


def circuit_seconds(qubits: int, task: str = "train", system: str = "qfleet") -> float:
    """vCPU-seconds of one QCNN circuit whose every qubit has an angle of its own.

    Between two measured widths, amplitudes times gates (N 2**N) take a time that changes
    geometrically; beyond the widest they take what they took there.
    """
    known = {n: seconds / (n * 2.0**n) for n, seconds in _measured(system, task).items()}
    below = max((n for n in known if n <= qubits), default=min(known))
    above = min((n for n in known if n >= qubits), default=max(known))
    share = (qubits - below) / (above - below) if above > below else 0.0
    each = known[below] ** (1 - share) * known[above] ** share
    return each * qubits * 2.0**qubits


def exchange_seconds(workers: int, hop: float = HOP, vector: int = VECTOR) -> float:
    """One exchange of a small vector, as training/allreduce.py makes it.

    From each to all at once while that is little; beyond it around a ring, in 2 (W - 1) hops.
    """
    if workers == 1:
        return 0.0
    if workers * vector <= ONE_HOP:
        return hop + (workers - 2) * MESSAGE
    return 2 * (workers - 1) * hop


@dataclass(frozen=True)
class EpochCost:
    """An epoch on a fleet, at the best number of workers to a state.

    Attributes:
        seconds: Of the whole epoch.
        compute: Of them, simulating.
        exchange: Of them, exchanging halves of states and gradients.
        split: Workers that hold one state; 1 where it fits into one.
        memory: Bytes a worker needs for its part of the states of one example.
    """

    seconds: float
    compute: float
    exchange: float
    split: int
    memory: float


def state_bytes(qubits: int, split: int = 1) -> float:
    """Bytes of an example's states in each of the workers that hold it together."""
    return STATES * AMPLITUDE * 2.0**qubits / split * (BUFFERS if split > 1 else 1)


def epoch(fleet: Fleet, qubits: int, examples: int, batch: int) -> EpochCost | None:
    """The fastest epoch of a QCNN on a fleet; None where no split makes the states fit."""
    return min(_epochs(fleet, qubits, examples, batch), key=lambda e: e.seconds, default=None)


def _epochs(fleet: Fleet, qubits: int, examples: int, batch: int) -> Iterable[EpochCost]:
    split = 1
    while split <= fleet.nodes:
        memory = state_bytes(qubits, split)
        if memory <= USABLE * fleet.memory:
            groups = min(fleet.nodes // split, batch)
            steps = -(-examples // batch)
            rows = steps * -(-batch // groups)  # one after another in each group
            compute = rows * circuit_seconds(qubits) / (split * fleet.vcpus)
            # A QCNN: all to all once forward (psi), once back (psi and lambda), in both directions
            # at once; a worker keeps one part in `split`.
            sent = 3 * AMPLITUDE * 2.0**qubits / split * (1 - 1 / split)
            crossing = sent / fleet.network + (2 * exchange_seconds(split) if split > 1 else 0.0)
            exchange = rows * crossing + steps * exchange_seconds(groups * split)
            yield EpochCost(compute + exchange, compute, exchange, split, memory)
        split *= 2


def reach(fleet: Fleet, seconds: float, examples: int, batch: int, most: int = 50) -> int:
    """The most qubits whose epoch takes at most so long."""
    fits = 1
    for qubits in range(2, most + 1):
        taken = epoch(fleet, qubits, examples, batch)
        if taken is None or taken.seconds > seconds:
            break
        fits = qubits
    return fits
