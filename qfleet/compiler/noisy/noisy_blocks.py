"""Circuits with noise channels as blocks on one or two qubits, and the programs of such blocks."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

import cirq
import numpy as np

from qfleet.compiler.any_program import AnyProgram, Item, ProgramCost, Source
from qfleet.compiler.circuit import observables
from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.fused_blocks import embed
from qfleet.compiler.circuit.light_cone import light_cone, ordered_qubits
from qfleet.compiler.circuit.sampling import Sampling
from qfleet.compiler.state.initial_state import check_all_listed
from qfleet.errors import CircuitError

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

Channel = TypeVar("Channel")
"""A channel in the form that a kind of program has: Kraus operators, or a matrix."""

Unitary = tuple[Factor, ...]
"""A product of factors on the same qubits, first applied first."""


@dataclass(frozen=True)
class NoisyBlock(Generic[Channel]):
    """Items on one or two qubits, which the engine applies as one matrix.

    Attributes:
        qubits: Positions.
        items: Unitaries and channels, first applied first.
    """

    qubits: tuple[int, ...]
    items: tuple[Unitary | Channel, ...]

    @property
    def channels(self) -> list[Channel]:
        """The items that are channels."""
        return [item for item in self.items if not isinstance(item, tuple)]


@dataclass(frozen=True)
class NoisyProgram(AnyProgram, Generic[Channel]):
    """A circuit with noise, compiled. Abstract.

    Attributes:
        terms: The Pauli strings of the readouts.
        sampling: Trajectories, shots and their seed.
        keys: The inputs that random numbers depend on.
        blocks: First applied first.
        takes_states: As of `AnyProgram`.
        max_qubits: Widest circuit.
        advice: What to do with a wider one.
        memory_advice: What to do without enough memory.
        memory_unit: What `example_bytes` is the memory of.
    """

    terms: observables.PauliTerms
    sampling: Sampling
    keys: tuple[str, ...]
    blocks: tuple[NoisyBlock[Channel], ...]
    takes_states: bool = False

    checks_gradients = True
    has_hvp = False
    max_qubits: ClassVar[int]
    advice: ClassVar[str]
    memory_advice: ClassVar[str]
    memory_unit: ClassVar[str]

    @classmethod
    def compile(cls, source: Source) -> Self:
        """Compile a circuit with at least one observable.

        Args:
            source: The circuit.

        Raises:
            CircuitError: The observables depend on too many qubits, or have a complex coefficient.
        """
        kept, qubits, position = _cone(source)
        placed = [item.on(tuple(position[q] for q in item.qubits)) for item in kept]
        terms = observables.collect(source.readouts, position)
        if source.takes_states:
            terms = terms.with_identity()
        if len(qubits) > cls.max_qubits:
            raise CircuitError(
                f"{cls.kind} have at most {cls.max_qubits} qubits, but the observables depend on"
                f" {len(qubits)}: {cls.advice}"
            )
        names = tuple(source.inputs)
        return cls(
            names,
            tuple(source.parameters),
            qubits,
            (len(source.items), len(kept)),
            terms,
            source.sampling,
            names,
            cls.blocks_of(placed),
            source.takes_states,
        )

    @classmethod
    def blocks_of(cls, placed: Sequence[Item]) -> tuple[NoisyBlock[Channel], ...]:
        """Join items to blocks.

        Args:
            placed: On positions instead of qubits, first applied first.
        """
        return tuple(
            NoisyBlock(block, cls._channels(merge_factors(items, block), block))
            for block, items in _join(placed)
        )

    @staticmethod
    @abc.abstractmethod
    def _channels(
        items: Sequence[Unitary | NoiseChannel], block: tuple[int, ...]
    ) -> tuple[Unitary | Channel, ...]:
        """Return the items of a block with its channels in the form of this kind."""

    @property
    @abc.abstractmethod
    def operations(self) -> int:
        """Real multiplications of a forward pass, per example."""

    @property
    def samples(self) -> str:
        """A description of the numbers of samples."""
        return ""

    @abc.abstractmethod
    def example_bytes(self, real_bytes: int, states: int = 2) -> int:
        """Return the bytes that are in memory at a time, for one example or in one thread.

        Args:
            real_bytes: Bytes per real number, 4 or 8.
            states: 1 for readouts, 2 for gradients.
        """

    @property
    def readouts(self) -> int:
        """K, the number of observables."""
        return len(self.terms.offsets)

    def with_inputs(self) -> Self:
        """Return the program with its parameters as further inputs, after the others."""
        return replace(self, inputs=(*self.inputs, *self.parameters), parameters=())

    def threads(self, machine: "Machine") -> int:
        """Return the threads that have states of their own."""
        return 1

    def require_memory(self, machine: "Machine", states: int, processes: int = 1) -> None:
        """Check that an example fits into the free memory; see `AnyProgram`."""
        task = "differentiating" if states > 1 else "evolving"
        threads = self.threads(machine)
        where = f" on {threads} threads" if self.memory_unit == "thread" else ""
        machine.require_bytes(
            threads * self.example_bytes(machine.real_bytes, states),
            f"{task} {self.kind} of {len(self.qubits)} qubits{where}",
            self.memory_advice,
            processes=processes,
        )

    def describe(self, machine: "Machine", batch: int, spanning: int | None = None) -> str:
        """Describe the program and its memory; see `AnyProgram`."""
        return machine.titled(
            f"{self.kind}, native engine, {machine.instruction_set}, {machine.real}: {self}\n"
            f"memory: {self.example_bytes(machine.real_bytes):,} bytes per {self.memory_unit};"
            f" {machine.free_bytes:,} bytes are free"
        )

    def cost(self, machine: "Machine", angles: np.ndarray) -> ProgramCost:
        """Return the cost of an example; see `AnyProgram`."""
        forward = 2.0 * self.operations
        # A gradient goes forward once more, and has two products.
        return ProgramCost(forward, 3 * forward, self.example_bytes(4), self.batch_work)

    @abc.abstractmethod
    def batch_work(self, threads: int) -> list[float]:
        """Return the work of 1, 2, ... examples; see `ProgramCost`."""

    def __str__(self) -> str:
        channels = sum(len(block.channels) for block in self.blocks)
        return (
            f"{len(self.qubits)} qubits, {len(self.inputs)} inputs, {len(self.parameters)}"
            f" parameters, {self.readouts} readouts\n{len(self.blocks)} blocks with {channels}"
            f" channels, {self.samples}{self.operations:,} multiplications per example"
        )


def cone_width(source: Source) -> int:
    """Return the number of qubits that the observables depend on."""
    return len(_cone(source)[1])


def merge_factors(items: Sequence[Item], block: tuple[int, ...]) -> list[Unitary | NoiseChannel]:
    """Multiply neighbouring factors to unitaries, each on one qubit or on all of the block's."""
    merged: list[list[Factor] | NoiseChannel] = []
    for item in items:
        if isinstance(item, Factor) and merged and isinstance(merged[-1], list):
            merged[-1].append(item)
        else:
            merged.append([item] if isinstance(item, Factor) else item)
    return [one if isinstance(one, NoiseChannel) else _unitary(one, block) for one in merged]


def _cone(
    source: Source,
) -> tuple[list[Item], tuple[cirq.Qid, ...], Mapping[cirq.Qid, int]]:
    """Return the items and the qubits that the observables depend on, and their positions."""
    measured = {qubit for observable in source.readouts for qubit in observable.qubits}
    kept = [item for item in light_cone(source.items, measured) if item.qubits]
    ordered = ordered_qubits(kept, measured, source.qubits)
    if source.takes_states:  # for all qubits of the circuit
        check_all_listed(frozenset(ordered).difference(source.qubits))
        ordered = tuple(source.qubits)
    return kept, ordered, {qubit: at for at, qubit in enumerate(ordered)}


def _join(items: Sequence[Item]) -> list[tuple[tuple[int, ...], list[Item]]]:
    """Join items to blocks: a pair of qubits has all items until one of them meets another.

    A measurement begins a block of its qubit, whose state is read at less cost than that of a pair.
    An item that depends on a record is in the block of the measurement or in a later one.
    """
    blocks: list[tuple[tuple[int, ...], list[Item]]] = []
    newest: dict[int, int] = {}  # the newest block of each qubit
    waiting: dict[int, list[Item]] = {}  # items on one qubit without a block
    recorded: dict[int, int] = {}  # the block of each record
    for item in items:
        first, *second = item.qubits
        record, needed = -1, tuple[int, ...]()
        if isinstance(item, NoiseChannel):
            record, needed = item.record, item.condition.records
        earliest = max((recorded[one] for one in needed), default=0)
        is_together = len({newest.get(qubit) for qubit in item.qubits}) == 1
        if not second and first not in newest and record < 0 and not needed:
            waiting.setdefault(first, []).append(item)
        elif is_together and newest.get(first, -1) >= earliest and record < 0:
            blocks[newest[first]][1].append(item)
        else:
            before = [one for qubit in item.qubits for one in waiting.pop(qubit, [])]
            blocks.append((item.qubits, [*before, item]))
            newest.update(dict.fromkeys(item.qubits, len(blocks) - 1))
        if record >= 0:
            recorded[record] = newest[first]
    return blocks + [((qubit,), alone) for qubit, alone in waiting.items()]


def _unitary(factors: Sequence[Factor], block: tuple[int, ...]) -> Unitary:
    """Return factors on the same qubits: one of the block's, or all of them."""
    if len({factor.qubits for factor in factors}) == 1 and len(factors[0].qubits) == 1:
        return tuple(factors)
    where = {position: at for at, position in enumerate(block)}
    return tuple(
        embed(factor, tuple(where[q] for q in factor.qubits), len(block)).on(block)
        for factor in factors
    )
