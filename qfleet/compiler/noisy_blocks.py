"""Circuits with noise channels as blocks on one or two qubits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import cirq

from qfleet.compiler import observables
from qfleet.compiler.channel import NoiseChannel
from qfleet.compiler.dense_fusion import embed
from qfleet.compiler.factor import Factor
from qfleet.compiler.program import light_cone, ordered_qubits
from qfleet.compiler.sampling import Sampling

Item = Factor | NoiseChannel


@dataclass(frozen=True)
class NoisyProgram:
    """A circuit with noise, compiled; a subclass adds its blocks.

    Attributes:
        inputs: As of `Program`.
        parameters: As of `Program`.
        qubits: The qubits that an observable depends on, in Cirq's order.
        terms: The Pauli strings of the readouts.
        gates: As of `Program`.
        sampling: Trajectories, shots and their seed.
        keys: The inputs that random numbers depend on.
    """

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    qubits: tuple[cirq.Qid, ...]
    terms: observables.PauliTerms
    gates: tuple[int, int]
    sampling: Sampling
    keys: tuple[str, ...]

    @property
    def readouts(self) -> int:
        """K, the number of observables."""
        return len(self.terms.offsets)

    def with_inputs(self) -> Self:
        """Return the program with its parameters as further inputs, after the others."""
        return replace(self, inputs=(*self.inputs, *self.parameters), parameters=())


def join_blocks(
    items: Sequence[Item],
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    qubits: Sequence[cirq.Qid],
    sampling: Sampling,
) -> tuple[NoisyProgram, list[tuple[tuple[int, ...], list[Item]]]]:
    """Find the light cone of observables, and join its items to blocks.

    Args:
        items: First applied first.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.
        readouts: At least one observable.
        qubits: All qubits, in order.
        sampling: Trajectories, shots and their seed.

    Returns:
        The program without blocks; positions of one or two qubits, and items on them, first applied
        first.

    Raises:
        CircuitError: The observables have a complex coefficient.
    """
    kept, ordered, position = _cone(items, readouts, qubits)
    placed = [item.on(tuple(position[q] for q in item.qubits)) for item in kept]
    terms, gates = observables.collect(readouts, position), (len(items), len(kept))
    names = tuple(inputs)
    program = NoisyProgram(names, tuple(parameters), ordered, terms, gates, sampling, names)
    return program, _join(placed)


def cone_width(
    items: Sequence[Item], readouts: Sequence[cirq.PauliSum], qubits: Sequence[cirq.Qid]
) -> int:
    """Return the number of qubits that observables depend on."""
    return len(_cone(items, readouts, qubits)[1])


def merge_factors(
    items: Sequence[Item], block: tuple[int, ...]
) -> list[tuple[Factor, ...] | NoiseChannel]:
    """Multiply neighbouring factors to unitaries, each on one qubit or on all of the block's."""
    merged: list[list[Factor] | NoiseChannel] = []
    for item in items:
        if isinstance(item, Factor) and merged and isinstance(merged[-1], list):
            merged[-1].append(item)
        else:
            merged.append([item] if isinstance(item, Factor) else item)
    return [one if isinstance(one, NoiseChannel) else _unitary(one, block) for one in merged]


def _cone(
    items: Sequence[Item], readouts: Sequence[cirq.PauliSum], qubits: Sequence[cirq.Qid]
) -> tuple[list[Item], tuple[cirq.Qid, ...], Mapping[cirq.Qid, int]]:
    measured = {qubit for observable in readouts for qubit in observable.qubits}
    kept = [item for item in light_cone(items, measured) if item.qubits]
    ordered = ordered_qubits(kept, measured, qubits)
    return kept, ordered, {qubit: at for at, qubit in enumerate(ordered)}


def _join(items: Sequence[Item]) -> list[tuple[tuple[int, ...], list[Item]]]:
    """Join items to blocks: a pair of qubits has all items until one of them meets another."""
    blocks: list[tuple[tuple[int, ...], list[Item]]] = []
    newest: dict[int, int] = {}  # the newest block of each qubit
    waiting: dict[int, list[Item]] = {}  # items on one qubit without a block
    for item in items:
        first, *second = item.qubits
        if not second and first not in newest:
            waiting.setdefault(first, []).append(item)
        elif len({newest.get(qubit) for qubit in item.qubits}) == 1 and first in newest:
            blocks[newest[first]][1].append(item)
        else:
            before = [one for qubit in item.qubits for one in waiting.pop(qubit, [])]
            blocks.append((item.qubits, [*before, item]))
            newest.update(dict.fromkeys(item.qubits, len(blocks) - 1))
    return blocks + [((qubit,), alone) for qubit, alone in waiting.items()]


def _unitary(factors: Sequence[Factor], block: tuple[int, ...]) -> tuple[Factor, ...]:
    """Return factors on the same qubits: one of the block's, or all of them."""
    if len({factor.qubits for factor in factors}) == 1 and len(factors[0].qubits) == 1:
        return tuple(factors)
    where = {position: at for at, position in enumerate(block)}
    return tuple(
        embed(factor, tuple(where[q] for q in factor.qubits), len(block)).on(block)
        for factor in factors
    )
