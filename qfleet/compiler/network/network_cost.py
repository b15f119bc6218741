"""The cost of contractions, of which the examples of a batch have some in common."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from qfleet.compiler.any_program import Contraction, ProgramCost
from qfleet.compiler.circuit.expressions import used_names
from qfleet.compiler.network.tensor_network import Network

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Sizes of the batches in which different contractions are counted."""

FLOPS_PER_MULTIPLICATION = 8
"""Of two complex numbers, with the addition of the product."""


def network_cost(
    networks: Sequence[Network],
    inputs: Sequence[str],
    contraction: Contraction,
    machine: "Machine",
    angles: np.ndarray,
) -> ProgramCost:
    """Return the cost of an example of a batch.

    Args:
        networks: The networks.
        inputs: Names of the data symbols.
        contraction: Of an example.
        machine: The machine.
        angles: [n, inputs] examples, for the share of equal contractions.
    """
    rows = sorted({min(count, len(angles)) for count in BATCHES})
    work = [_multiplications(networks, inputs, angles[:count], machine.lanes) for count in rows]
    multiplications = work[-1] / rows[-1]
    counts = np.arange(1, rows[-1] + 1)
    # In examples of the largest batch: those of a smaller one have less in common.
    batch_work = np.interp(counts, rows, np.divide(work, multiplications))
    flops = FLOPS_PER_MULTIPLICATION * multiplications
    return ProgramCost(
        flops,
        2 * flops,
        contraction.bytes(machine) // machine.threads,
        lambda threads: [work / threads for work in batch_work.tolist()],
        repeats=multiplications < contraction.operations / 2,
    )


def _multiplications(
    networks: Sequence[Network], inputs: Sequence[str], angles: np.ndarray, lanes: int
) -> int:
    """Return the multiplications of a batch's forward pass, with those of unused SIMD lanes."""
    rows = [_distinct_rows(one, inputs, angles) for one in networks]
    return sum(
        -(-count // lanes) * lanes * network.path.operations
        for count, network in zip(rows, networks, strict=True)
    )


def _distinct_rows(network: Network, inputs: Sequence[str], angles: np.ndarray) -> int:
    """Return the instances of a network that differ, over all examples."""
    column = {name: index for index, name in enumerate(inputs)}
    groups: dict[tuple[str, ...], list[np.ndarray]] = {}
    for instance in network.instances:
        names = used_names(instance.expressions, inputs)
        trained = tuple(str(one) for one in instance.expressions if not used_names([one], inputs))
        groups.setdefault((*trained, str(len(names))), []).append(
            angles[:, [column[name] for name in names]]
        )
    return sum(len(np.unique(np.concatenate(rows), axis=0)) for rows in groups.values())
