"""The cases of the benchmark of GPUs, the most informative ones first, and the time of a step."""

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

QUBITS = (4, 8, 10, 12, 13, 14, 16, 18, 20, 24, 28, 30)
BATCHES = (1, 32, 1024, 4096, 16384)
MOST_AMPLITUDES = 1 << 26
"""Of a batch of several examples: larger ones would take seconds per step."""
CASE_SECONDS, STEPS = 0.2, 5
"""The steps of a case are repeated for this time, and so often. The first two are not counted."""
MAX_CASE_SECONDS = 2.0

SLOWEST = "tensorcircuit"
INSTANT, COMPILED = ("torch graph", "torch eager"), ("jax", "torch compile", SLOWEST)
"""Peers that need no compilation, and those that take seconds or minutes for the one of a case."""

Step = Callable[[], object]


@dataclass(frozen=True, order=True)
class StepCase:
    """A step: the values of a batch, and the gradient by the trained parameters.

    Attributes:
        model: One of benchmarks.circuit_models.MODELS.
        qubits: Of the model.
        batch: Examples.
    """

    model: str
    qubits: int
    batch: int


COMPARED = tuple(
    StepCase(name, qubits, batch)
    for qubits, batch in ((12, 1024), (8, 4096), (16, 1024), (20, 32))
    for name in ("entangling", "qcnn")
)
"""The cases of the CPU's engine and of peers that compile, the most informative ones first."""


def cases(models: Iterable[str], qubits: Iterable[int], batches: Iterable[int]) -> list[StepCase]:
    """Return all cases whose states are few enough, those of COMPARED first and batches of 1 last.

    Args:
        models: Names of models.
        qubits: Their numbers of qubits.
        batches: Numbers of examples.
    """
    found = [StepCase(*one) for one in product(models, qubits, batches)]
    found = [one for one in found if one.batch == 1 or one.batch << one.qubits <= MOST_AMPLITUDES]
    ranks = {one: rank for rank, one in enumerate(COMPARED)}
    return sorted(found, key=lambda one: (ranks.get(one, len(ranks)), one.batch == 1))


def peer_turns(peers: Sequence[str], ranked: Sequence[StepCase]) -> list[tuple[str, StepCase]]:
    """Return the cases of peers in the order in which they are measured until the time ends.

    Peers that need no compilation have all cases, and the others as many as COMPARED has. The most
    informative case comes early, but for the peer that compiles longest.

    Args:
        peers: Names of INSTANT and COMPILED.
        ranked: The cases, the most informative ones first.
    """
    compared, others = ranked[: len(COMPARED)], ranked[len(COMPARED) :]
    instant, compiled = ([one for one in peers if one in kind] for kind in (INSTANT, COMPILED))
    early = [one for one in compiled if one != SLOWEST]
    turns = [*product(instant, compared), *product(early, ranked[:1]), *product(instant, others)]
    turns += [(peer, case) for case in compared for peer in compiled]
    return list(dict.fromkeys(turns))


def time_step(step: Step) -> float:
    """Return the median time of the steps after the first two, in seconds."""
    times: list[float] = []
    end = time.monotonic() + CASE_SECONDS
    while len(times) < STEPS + 2 or time.monotonic() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
        if sum(times) > MAX_CASE_SECONDS:
            break
    return statistics.median(times[2:] or times)
