"""The compiler: a Cirq circuit becomes a short list of blocks that every engine can run.

`compile_program` takes a Cirq circuit. It lowers the circuit to factors and calls
`compile_factors`, the entry point of front ends that produce factors by themselves. An engine needs
three things of a Program: the matrices of its blocks, the evolution of the state through them, and
the Pauli strings that are read. No framework is imported here.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import cirq
import numpy as np

from qfleet.compiler.any_program import AnyProgram, ProgramCost
from qfleet.compiler.circuit import lowering, observables
from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.circuit.observables import PauliTerms
from qfleet.compiler.circuit.parameters import parameter_names
from qfleet.compiler.state import heisenberg, kernel_fusion
from qfleet.compiler.state.cost import tile_work
from qfleet.compiler.state.serialized_program import SerializedStateProgram, serialize_program
from qfleet.errors import CircuitError

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

Target = Literal["native", "sharded"]

# The widest initial state that is precomputed. The native engine evolves wider ones quickly.
PREFIX_QUBITS: dict[Target, int] = {"native": 12, "sharded": 0}
MAX_NORM_ERROR = 1e-4  # of an initial state, which may be given in complex64
_LISTED_SYMBOLS = 4  # symbols of a block that a description lists


@dataclass(frozen=True)
class Program(AnyProgram):
    """A circuit whose state is evolved, compiled.

    Attributes:
        qubits: The simulated qubits in Cirq's order; the first is the most significant bit. Qubits
            that no readout depends on are left out.
        initial: [2**N] complex128 state after all gates before the first symbol; None is |0...0>.
        blocks: First applied first.
        terms: The Pauli strings of the readouts.
    """

    initial: np.ndarray | None
    blocks: tuple[FusedBlock, ...]
    terms: PauliTerms
    subspace: bool = True

    method = "state_vector"
    kind = "state vectors"
    has_states = True

    @property
    def readouts(self) -> int:
        """K, the number of observables; 0 if the result is the state."""
        return len(self.terms.offsets)

    def with_inputs(self) -> "Program":
        """Return the program with its parameters as further inputs, after the others."""
        return replace(self, inputs=(*self.inputs, *self.parameters), parameters=())

    def serialized(self, dtype: str) -> SerializedStateProgram:
        """Return the program in the form that the engine takes; see `AnyProgram`."""
        return serialize_program(self, dtype)

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
    if initial_state is not None:
        unlisted = frozenset(ordered).difference(qubits)
        initial_state = _checked_initial_state(initial_state, qubits, unlisted)
        ordered = tuple(qubits)
    position = {qubit: at for at, qubit in enumerate(ordered)}
    parts = [f.on(tuple(position[q] for q in f.qubits)) for f in kept]
    terms = observables.collect(sums, position)
    if target == "native" and sums:
        parts, terms = heisenberg.absorb_gates(parts, terms)
        if initial_state is None:
            parts, terms, ordered = _drop_idle_qubits(parts, terms, ordered)
    initial, rest = _simulate_prefix(parts, len(ordered), PREFIX_QUBITS[target], initial_state)
    return Program(
        tuple(inputs),
        tuple(parameters),
        ordered,
        (len(factors), len(rest)),
        initial,
        tuple(kernel_fusion.fuse_for_kernel(rest, frozenset(inputs))),
        terms,
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


def check_symbols(
    circuit: cirq.AbstractCircuit, inputs: Sequence[str], parameters: Sequence[str]
) -> None:
    """Check that every symbol is listed exactly once.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.

    Raises:
        CircuitError: The message names the symbol; for an unknown symbol also the gate, the moment
            and the qubits.
    """
    names = (*inputs, *parameters)
    duplicates = sorted(name for name, count in Counter(names).items() if count > 1)
    if duplicates:
        raise CircuitError(
            f"the symbol {duplicates[0]} is listed more than once among inputs and parameters:"
            " list each symbol once"
        )
    known = frozenset(names)
    checked: set[Hashable] = set()
    for index, moment in enumerate(circuit):
        for operation in moment:
            key = lowering.gate_key(operation.gate)
            if key is not None and key in checked:
                continue
            checked.add(key)
            unknown = sorted(parameter_names(operation) - known)
            if unknown:
                raise CircuitError(
                    f"{lowering.describe_location(operation, index)} uses the symbol"
                    f" {unknown[0]}, which is neither an input nor a parameter: add it to one of"
                    " them"
                )


def check_factor_symbols(
    factors: Iterable[Factor | NoiseChannel], inputs: Sequence[str], parameters: Sequence[str]
) -> None:
    """Check that every symbol of factors is listed: gates of users may not report theirs.

    Args:
        factors: The factors.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.

    Raises:
        CircuitError: The message names the symbol.
    """
    names = frozenset[str]().union(*(factor.symbols for factor in factors))
    if unlisted := sorted(names.difference(inputs, parameters)):
        raise CircuitError(
            f"the factors use the symbol {unlisted[0]}, which is neither an input nor a parameter:"
            " add it to one of them"
        )


_Item = TypeVar("_Item", bound=Factor | NoiseChannel)


def light_cone(factors: Sequence[_Item], readouts: Iterable[cirq.Qid]) -> list[_Item]:
    """Return the factors that the given qubits depend on.

    Args:
        factors: First applied first.
        readouts: The measured qubits.
    """
    cone = set(readouts)
    kept = []
    for factor in reversed(factors):
        if cone.intersection(factor.qubits):
            cone.update(factor.qubits)
            kept.append(factor)
    return kept[::-1]


def ordered_qubits(
    factors: Sequence[Factor | NoiseChannel], measured: Set[cirq.Qid], qubits: Sequence[cirq.Qid]
) -> tuple[cirq.Qid, ...]:
    """Return the qubits that factors and readouts use, in the order of the circuit's; at least one.

    Args:
        factors: The factors that the readouts depend on.
        measured: The measured qubits.
        qubits: All qubits of the circuit, in order.
    """
    simulated = frozenset(measured).union(*(factor.qubits for factor in factors))
    unlisted = sorted(simulated.difference(qubits))
    ordered = (*(q for q in qubits if q in simulated), *unlisted) or tuple(qubits)[:1]
    if not ordered:
        raise CircuitError("the circuit and its observables have no qubits")
    return ordered


def _checked_initial_state(
    state: np.ndarray, qubits: Sequence[cirq.Qid], unlisted: Set[cirq.Qid]
) -> np.ndarray:
    """Return an initial state of these qubits as complex128."""
    if unlisted:
        raise CircuitError(
            f"initial_state has no qubit {min(unlisted)}, which an observable reads: add it"
        )
    state = np.asarray(state, np.complex128)
    if state.shape != (2 ** len(qubits),):
        raise CircuitError(
            f"initial_state has shape {state.shape}: {len(qubits)} qubits need"
            f" ({2 ** len(qubits)},)"
        )
    norm = float(np.linalg.norm(state))
    if not abs(norm - 1) < MAX_NORM_ERROR:
        raise CircuitError(f"initial_state has the norm {norm}: normalize it to 1")
    return state


def _simulate_prefix(
    factors: Sequence[Factor], width: int, widest: int, initial: np.ndarray | None
) -> tuple[np.ndarray | None, list[Factor]]:
    """Apply the fixed factors before the first symbol on each qubit to the initial state.

    Returns:
        The [2**N] state, None for |0...0>, and the remaining factors.
    """
    if width > widest:
        return initial, list(factors)
    if initial is None:
        state = np.zeros(2**width, np.complex128)
        state[0] = 1
    else:
        state = initial
    parametrized: set[int] = set()  # qubits after their first symbol
    rest = []
    for factor in factors:
        if factor.fixed and not parametrized.intersection(factor.qubits):
            state = apply_matrix(state, factor.matrix, factor.qubits, width)
        else:
            parametrized.update(factor.qubits)
            rest.append(factor)
    return (state if len(rest) < len(factors) else initial), rest


def apply_matrix(
    state: np.ndarray, matrix: np.ndarray, qubits: Sequence[int], width: int
) -> np.ndarray:
    """Apply a matrix to some qubits of a state.

    Args:
        state: [2**N] amplitudes.
        matrix: [D, D] matrix, D = 2**len(qubits).
        qubits: Positions; the first is the matrix's most significant bit.
        width: N.

    Returns:
        [2**N] amplitudes.
    """
    count = len(qubits)
    tensor = state.reshape((2,) * width)
    gate = matrix.reshape((2,) * (2 * count))
    result = np.tensordot(gate, tensor, (range(count, 2 * count), qubits))
    return np.moveaxis(result, range(count), qubits).reshape(-1)
