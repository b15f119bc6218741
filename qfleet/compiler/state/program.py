"""The compiler: a Cirq circuit becomes a short list of blocks that every engine can run.

`compile_program` takes a Cirq circuit. It lowers the circuit to factors and calls
`compile_factors`, the entry point of front ends that produce factors by themselves. An engine needs
three things of a Program: the matrices of its blocks, the evolution of the state through them, and
the Pauli strings that are read. No framework is imported here.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import cirq
import numpy as np

from qfleet.compiler.any_program import AnyProgram, ProgramCost, SerializedProgram
from qfleet.compiler.circuit import lowering, observables
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.circuit.light_cone import light_cone, ordered_qubits
from qfleet.compiler.circuit.observables import PauliTerms
from qfleet.compiler.circuit.symbols import check_factor_symbols, check_symbols
from qfleet.compiler.state import cache_blocking, heisenberg, kernel_fusion
from qfleet.compiler.state.cache_blocking import BlockingPlan
from qfleet.compiler.state.cost import pass_costs, tile_work
from qfleet.compiler.state.initial_state import (
    check_all_listed,
    checked_initial_state,
    simulate_prefix,
)
from qfleet.compiler.state.program_writer import ProgramWriter
from qfleet.errors import CircuitError

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

Target = Literal["native", "sharded"]

# The widest initial state that is precomputed. The native engine evolves wider ones quickly.
PREFIX_QUBITS: dict[Target, int] = {"native": 12, "sharded": 0}
_LISTED_SYMBOLS = 4  # symbols of a block that a description lists


@dataclass(frozen=True)
class SerializedStateProgram(SerializedProgram):
    """A program of state vectors in the form that the native engine takes.

    Attributes:
        plan: The order of its qubits, its blocks and its cache blocks.
        prefix: Number of blocks before the first symbol.
    """

    plan: BlockingPlan
    prefix: int


@dataclass(frozen=True)
class Program(AnyProgram):
    """A circuit whose state is evolved, compiled.

    Attributes:
        qubits: The simulated qubits in Cirq's order; the first is the most significant bit. Qubits
            that no readout depends on are left out.
        initial: [2**N] complex128 state after all gates before the first symbol; None is |0...0>.
        blocks: First applied first.
        terms: The Pauli strings of the readouts.
        takes_states: If each example starts at a state that the caller passes; then `initial` is
            None.
    """

    initial: np.ndarray | None
    blocks: tuple[FusedBlock, ...]
    terms: PauliTerms
    subspace: bool = True
    takes_states: bool = False

    method = "state_vector"
    kind = "state vectors"
    has_states = True
    has_kernels = True

    @property
    def readouts(self) -> int:
        """K, the number of observables; 0 if the result is the state."""
        return len(self.terms.offsets)

    def with_inputs(self) -> "Program":
        """Return the program with its parameters as further inputs, after the others."""
        return replace(self, inputs=(*self.inputs, *self.parameters), parameters=())

    def serialized(self, dtype: str) -> SerializedStateProgram:
        """Return the program in the form that the engine takes; see `AnyProgram`."""
        plan, prefix = self.plan_blocks(dtype)
        width = len(self.qubits)
        writer = ProgramWriter(
            *(self.inputs, self.terms, plan),
            prefix=prefix,
            initial=self.initial,
            takes_states=self.takes_states,
            # Gradients by the caller's states need all of them uncomputed.
            gradient_before=(self.takes_states, self.takes_states),
        )
        written = writer.program([width - 1 - position for position in plan.order])
        return SerializedStateProgram(**vars(written), plan=plan, prefix=prefix)

    def plan_blocks(self, dtype: str) -> tuple[BlockingPlan, int]:
        """Return the plan of the cache blocks, and the number of blocks before the first symbol.

        Args:
            dtype: Of the states, "complex64" or "complex128".
        """
        prefix = 0 if self.initial is None else _count_prefix(self.blocks)
        plan = cache_blocking.plan_cache_blocks(
            [self.blocks[:prefix], self.blocks[prefix:]],
            len(self.qubits),
            cache_blocking.CACHE_BLOCK_QUBITS[dtype],
            from_zero=self.initial is None and not self.takes_states,
        )
        return plan, prefix

    def step_operations(self, dtype: str) -> float:
        """Return the floating-point operations of both passes of an example."""
        plan, prefix = self.plan_blocks(dtype)
        size = np.dtype(dtype).itemsize
        forward, backward = pass_costs(plan, prefix, size, frozenset(self.inputs))
        return forward.operations + backward.operations

    def require_memory(self, machine: "Machine", states: int, processes: int = 1) -> None:
        """Check that states fit into the free memory; see `AnyProgram`."""
        machine.require_states(len(self.qubits), states, processes)

    def describe(self, machine: "Machine", batch: int, spanning: int | None = None) -> str:
        """Describe the program, its plan and its memory; see `AnyProgram`."""
        return machine.describe_states(self, batch, spanning)

    def cost(self, machine: "Machine", angles: np.ndarray) -> ProgramCost:
        """Return the cost of an example; see `AnyProgram`."""
        width = len(self.qubits)
        operations = kernel_fusion.count_operations(self.blocks, width)
        return ProgramCost(
            *operations, 8 << width, lambda threads: tile_work(machine, width, threads)
        )

    @property
    def key(self) -> Hashable:
        """A value that is equal for programs of equal cost; see `AnyProgram`."""
        width = len(self.qubits)
        shapes = tuple((block.qubits, len(block.factors)) for block in self.blocks)
        return width, self.readouts, kernel_fusion.count_operations(self.blocks, width), shapes

    def __str__(self) -> str:
        lines = [
            f"{len(self.qubits)} qubits, {len(self.inputs)} inputs, {len(self.parameters)}"
            f" parameters, {self.readouts} readouts",
            f"{self.gates[0]} gates: {self.gates[1]} factors in {len(self.blocks)} blocks",
        ]
        if self.initial is not None:
            lines.append("initial state: precomputed, includes all gates before the first symbol")
        if self.takes_states:
            lines.append("initial states: one per example, passed with each call")
        lines += [f"  {describe_block(block, self.qubits)}" for block in self.blocks]
        if self.readouts:
            lines.append(f"reads {len(self.terms.strings)} Pauli strings")
        return "\n".join(lines)


def describe_block(block: FusedBlock, qubits: Sequence[cirq.Qid]) -> str:
    """Describe a block in one line.

    Args:
        block: A block of a program.
        qubits: The program's qubits.
    """
    where = ", ".join(str(qubits[position]) for position in block.qubits)
    names = sorted({name for factor in block.factors for name in factor.symbols})
    listed = ", ".join(names[:_LISTED_SYMBOLS])
    if len(names) > _LISTED_SYMBOLS:
        listed += f", ... ({len(names)} symbols)"
    return f"block on {where}: {len(block.factors)} factors of {listed or 'no symbol'}"


def compile_program(
    circuit: cirq.AbstractCircuit,
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    *,
    target: Target = "native",
    initial_state: np.ndarray | None = None,
    takes_states: bool = False,
) -> Program:
    """Compile a circuit.

    Args:
        circuit: Unitary gates only.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.
        readouts: Observables with real coefficients. Without any, the program's result is the
            state of all qubits of the circuit, global phase included.
        target: The engine that runs the program.
        initial_state: As for `compile_factors`.
        takes_states: As for `compile_factors`.

    Returns:
        The program.

    Raises:
        CircuitError: The circuit, its symbols or the observables are not supported.
    """
    inputs, parameters = tuple(map(str, inputs)), tuple(map(str, parameters))
    check_symbols(circuit, inputs, parameters)
    factors = lowering.lower(circuit)
    check_factor_symbols(factors, inputs, parameters)
    program = compile_factors(
        factors,
        inputs,
        parameters,
        readouts,
        qubits=sorted(circuit.all_qubits()),
        target=target,
        initial_state=initial_state,
        takes_states=takes_states,
    )
    return replace(program, gates=(len(list(circuit.all_operations())), program.gates[1]))


def compile_factors(
    factors: Sequence[Factor],
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    *,
    qubits: Sequence[cirq.Qid],
    target: Target = "native",
    initial_state: np.ndarray | None = None,
    takes_states: bool = False,
) -> Program:
    """Compile a product of factors.

    Args:
        factors: Factors on one or two qubits, first applied first, as `lowering.lower` returns
            them.
        inputs: As for `compile_program`.
        parameters: As for `compile_program`; together with `inputs` all symbols of the factors.
        readouts: As for `compile_program`.
        qubits: All qubits of the circuit, in the order of the state's bits, the first the most
            significant.
        target: The engine that runs the program. For "sharded", all qubits and gates are kept that
            a readout depends on.
        initial_state: [2**len(qubits)] state before the first factor; the first qubit is the most
            significant bit. |0...0> unless given. With an initial state, all qubits are simulated.
        takes_states: If the caller passes a state for each example instead.

    Returns:
        The program; its first gate count is the number of factors.

    Raises:
        CircuitError: There is no qubit, an observable has a complex coefficient, or the initial
            state has another size or norm.
    """
    sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
    measured = {qubit for observable in sums for qubit in observable.qubits}
    if not sums:
        measured = set(qubits)
        if not measured:
            raise CircuitError("the circuit has no qubits: there is no state to simulate")
    kept = light_cone(factors, measured)
    ordered = ordered_qubits(kept, measured, qubits)
    if initial_state is not None or takes_states:
        check_all_listed(frozenset(ordered).difference(qubits))
        ordered = tuple(qubits)
    if initial_state is not None:
        initial_state = checked_initial_state(initial_state, qubits)
    position = {qubit: at for at, qubit in enumerate(ordered)}
    parts = [f.on(tuple(position[q] for q in f.qubits)) for f in kept]
    terms = observables.collect(sums, position)
    if target == "native" and sums:
        parts, terms = heisenberg.absorb_gates(parts, terms)
        if initial_state is None and not takes_states:
            parts, terms, ordered = _drop_idle_qubits(parts, terms, ordered)
    if takes_states:
        terms = terms.with_identity()
    widest = 0 if takes_states else PREFIX_QUBITS[target]
    initial, rest = simulate_prefix(parts, len(ordered), widest, initial_state)
    return Program(
        tuple(inputs),
        tuple(parameters),
        ordered,
        (len(factors), len(rest)),
        initial,
        tuple(kernel_fusion.fuse_for_kernel(rest, frozenset(inputs))),
        terms,
        takes_states=takes_states,
    )


def _drop_idle_qubits(
    factors: Sequence[Factor], terms: observables.PauliTerms, qubits: Sequence[cirq.Qid]
) -> tuple[list[Factor], observables.PauliTerms, tuple[cirq.Qid, ...]]:
    """Leave out the qubits that no factor and no string uses; at least one stays."""
    used = sorted(set(terms.support).union(*(factor.qubits for factor in factors))) or [0]
    position = {old: new for new, old in enumerate(used)}
    moved = [f.on(tuple(position[at] for at in f.qubits)) for f in factors]
    strings = tuple({position[at]: p for at, p in string.items()} for string in terms.strings)
    return moved, replace(terms, strings=strings), tuple(qubits[at] for at in used)


def _count_prefix(blocks: Sequence[FusedBlock]) -> int:
    """Count the blocks before the first symbol."""
    for at, block in enumerate(blocks):
        if any(factor.symbols for factor in block.factors):
            return at
    return len(blocks)
