"""Fleets that are not available here: predicted time of an epoch, from measurements on one machine.

One vCPU counts as one core of the machine of benchmarks/results.json. The vCPUs of a node share its
work without loss, which is too optimistic for circuits that are limited by memory bandwidth (20
qubits and more).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planning.costs import SHARDED_STATE_FACTOR
from planning.step_model import MESSAGE_SECONDS
from training.step.constants import hops

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results.json"
RESULT_CORES = 2
"""Cores of the machine of RESULTS."""

AMPLITUDE_BYTES = 8
"""Bytes of an amplitude, complex64."""

TRAINING_STATES = 2
"""States of one example in training: psi and lambda."""

USABLE_MEMORY_FRACTION = 0.8
"""Memory of a node that is not used by its system and TensorFlow."""

HOP_SECONDS = 0.3e-3
"""One hop of TensorFlow's ring on one machine. A hop of training/step/allreduce.py takes 0.1 ms
there, and a data center's network adds 0.1 to 0.3 ms."""

ALL_REDUCE_BYTES = 4 * 68
"""The gradients of a QCNN, its loss and sums, float32."""

GIB = 2**30


@dataclass(frozen=True)
class Fleet:
    """Equal nodes with one worker each.

    Attributes:
        name: Name in plots.
        nodes: Number of nodes.
        vcpus: vCPUs per node.
        memory: Bytes per node.
        network: Bytes per second that a node sends.
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
def _measured_seconds(system: str, task: str) -> dict[int, float]:
    """Return qubits -> vCPU-seconds of a QCNN circuit at its best batch."""
    measured: dict[int, float] = {}
    for row in json.loads(RESULTS.read_text(encoding="utf-8")):
        if (row["system"], row["task"], row["model"]) == (system, task, "qcnn"):
            seconds = row["ms_per_circuit"] / 1e3 * RESULT_CORES
            measured[row["qubits"]] = min(seconds, measured.get(row["qubits"], seconds))
    return measured


def circuit_seconds(qubits: int, task: str = "train", system: str = "qfleet") -> float:
    """Return the vCPU-seconds of one QCNN circuit in which every qubit has an angle of its own.

    The time per amplitude and gate (N 2**N of them) is interpolated geometrically between measured
    widths. For wider circuits it is that of the widest measured one.
    """
    known = {n: s / (n * 2.0**n) for n, s in _measured_seconds(system, task).items()}
    below = max((n for n in known if n <= qubits), default=min(known))
    above = min((n for n in known if n >= qubits), default=max(known))
    share = (qubits - below) / (above - below) if above > below else 0.0
    each = known[below] ** (1 - share) * known[above] ** share
    return each * qubits * 2.0**qubits


def all_reduce_seconds(
    workers: int, hop_seconds: float = HOP_SECONDS, vector_bytes: int = ALL_REDUCE_BYTES
) -> float:
    """Return the seconds of one all-reduce of a small vector (training/step/allreduce.py).

    It is one hop from each worker to all others while that is small; otherwise it is two.
    """
    if workers == 1:
        return 0.0
    return hops(workers, vector_bytes) * (hop_seconds + (workers - 2) * MESSAGE_SECONDS)


@dataclass(frozen=True)
class EpochCost:
    """An epoch on a fleet, at the best number of state shards.

    Attributes:
        seconds: Seconds of the epoch.
        compute: Seconds of simulation.
        exchange: Seconds of communication: state shards and gradients.
        state_shards: Workers that share one state.
        memory: Bytes per worker for its shards of the states of one example.
    """

    seconds: float
    compute: float
    exchange: float
    state_shards: int
    memory: float


def state_bytes(qubits: int, state_shards: int = 1) -> float:
    """Return the bytes of one example's states in each of the workers that share them."""
    factor = SHARDED_STATE_FACTOR if state_shards > 1 else 1
    return TRAINING_STATES * AMPLITUDE_BYTES * 2.0**qubits / state_shards * factor


def epoch(fleet: Fleet, qubits: int, examples: int, batch: int) -> EpochCost | None:
    """Return the fastest epoch of a QCNN on a fleet; None if its states do not fit."""
    return min(_epochs(fleet, qubits, examples, batch), key=lambda e: e.seconds, default=None)


def _epochs(fleet: Fleet, qubits: int, examples: int, batch: int) -> Iterable[EpochCost]:
    shards = 1
    while shards <= fleet.nodes:
        memory = state_bytes(qubits, shards)
        if memory <= USABLE_MEMORY_FRACTION * fleet.memory:
            groups = min(fleet.nodes // shards, batch)
            steps = -(-examples // batch)
            rows = steps * -(-batch // groups)  # sequential in each group
            compute = rows * circuit_seconds(qubits) / (shards * fleet.vcpus)
            # A QCNN: one all-to-all forward (psi) and one backward (psi and lambda), in both
            # directions at once; a worker keeps 1/shards of its data.
            sent = 3 * AMPLITUDE_BYTES * 2.0**qubits / shards * (1 - 1 / shards)
            transfer = sent / fleet.network
            transfer += 2 * all_reduce_seconds(shards) if shards > 1 else 0.0
            exchange = rows * transfer + steps * all_reduce_seconds(groups * shards)
            yield EpochCost(compute + exchange, compute, exchange, shards, memory)
        shards *= 2


def reach(fleet: Fleet, seconds: float, examples: int, batch: int, most: int = 50) -> int:
    """Return the largest number of qubits whose epoch takes at most `seconds`."""
    fits = 1
    for qubits in range(2, most + 1):
        cost = epoch(fleet, qubits, examples, batch)
        if cost is None or cost.seconds > seconds:
            break
        fits = qubits
    return fits
