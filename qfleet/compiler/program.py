"""The compiler: a Cirq circuit becomes a short list of blocks that any backend can run.

No TensorFlow here. A backend gets a Program and needs three things only: the matrices of its
blocks (see matrices.py), the state's evolution through them, and the readout.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import cirq
import numpy as np

from common.errors import CircuitError
from qfleet.compiler import dense_fusion, kernel_fusion, lowering, observables, parity
from qfleet.compiler.dense_fusion import FusedBlock, PhaseLayer
from qfleet.compiler.factor import Factor
from qfleet.compiler.observables import ReadoutPlan

# The widest state that is worth keeping as a constant in a graph; the kernel is quick to make it.
PREFIX_QUBITS = {"tensorflow": 16, "kernel": 12, "split": 0}


@dataclass(frozen=True)
class Program:
    """A compiled circuit.

    Attributes:
        inputs: Data symbols, a value per example.
        parameters: Trained symbols, shared by the batch.
        qubits: What is simulated, in Cirq's order; the first is the most significant bit.
            Qubits that no readout depends on are not among them.
        initial: [2**N] complex128 state after everything that comes before the first symbol;
            None is |0...0>.
        steps: What the state goes through: shared blocks and layers of data turns; for the kernel
            blocks alone.
        readout: What is measured.
        gates: How many gates the circuit had, and how many factors are left to simulate.
    """

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    qubits: tuple[cirq.Qid, ...]
    initial: np.ndarray | None
    steps: tuple[FusedBlock | PhaseLayer, ...]
    readout: ReadoutPlan
    gates: tuple[int, int]

    def __str__(self) -> str:
        blocks = sum(isinstance(step, FusedBlock) for step in self.steps)
        lines = [
            f"{len(self.qubits)} qubits, {len(self.inputs)} inputs, {len(self.parameters)}"
            f" parameters, {len(self.readout.offsets)} readouts",
            f"{self.gates[0]} gates: {self.gates[1]} factors in {blocks} blocks and"
            f" {len(self.steps) - blocks} layer(s) of data turns",
        ]
        if self.initial is not None:
            lines.append("starts in a constant state: everything before the first symbol")
        lines += [f"  {describe_block(step, self.qubits)}" for step in self.steps]
        lines += _readout_lines(self.readout, self.qubits)
        return "\n".join(lines)


def describe_block(step: FusedBlock | PhaseLayer, qubits: Sequence[cirq.Qid]) -> str:
    """A step for a person to read."""
    where = ", ".join(str(qubits[position]) for position in step.qubits)
    if isinstance(step, PhaseLayer):
        return f"layer of {len(step.turns)} data turns on {where}"
    names = sorted({name for factor in step.factors for name in factor.symbols})
    shown = ", ".join(names[:4]) + (f", ... ({len(names)} symbols)" if len(names) > 4 else "")
    return f"block on {where}: {len(step.factors)} factors of {shown or 'no symbol'}"


def _readout_lines(readout: ReadoutPlan, qubits: Sequence[cirq.Qid]) -> list[str]:
    lines = []
    if readout.reduced is not None:
        where = [qubits[position] for position in readout.reduced.support]
        lines.append(
            f"reads operators on {', '.join(map(str, where))} after"
            f" {len(readout.reduced.tail)} blocks applied to the operators"
        )
        lines += [f"  {describe_block(block, where)}" for block in readout.reduced.tail]
    if readout.terms is not None:
        lines.append(f"reads {len(readout.terms.strings)} Pauli strings")
    for basis in readout.bases:
        lines.append(
            f"reads {len(basis.strings)} Pauli strings after {len(basis.rotations)} rotations"
        )
    return lines


def compile_program(
    circuit: cirq.AbstractCircuit,
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    *,
    target: Literal["tensorflow", "kernel", "split"] = "tensorflow",
) -> Program:
    """Compile a circuit.

    Args:
        circuit: Unitary gates only.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.
        readouts: Observables with real coefficients; none for a program whose result is the
            state of all the circuit's qubits, global phase included.
        target: What runs the program. TensorFlow's operations want data gates apart from blocks,
            as layers of turns, and few readouts as small operators; the kernel wants blocks and
            Pauli strings.

    Returns:
        The program.

    Raises:
        CircuitError: The circuit, its symbols or the observables can't be taken.
    """
    inputs, parameters = tuple(map(str, inputs)), tuple(map(str, parameters))
    check_symbols(circuit, inputs, parameters)
    sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
    factors = lowering.lower(circuit)
    wanted = {qubit for observable in sums for qubit in observable.qubits}
    if not sums:
        wanted = set(circuit.all_qubits())
        if not wanted:
            raise CircuitError("the circuit has no qubit: there is no state to simulate")
    kept = light_cone(factors, wanted)
    touched = wanted.union(*(factor.qubits for factor in kept)) if kept else wanted
    qubits = tuple(sorted(touched)) or tuple(sorted(circuit.all_qubits()))[:1]
    position = {qubit: at for at, qubit in enumerate(qubits)}
    placed = [replace(f, qubits=tuple(position[q] for q in f.qubits)) for f in kept]
    data = frozenset(inputs)
    parts = placed
    if target == "tensorflow":
        parts = [part for factor in placed for part in _split_if_data(factor, data)]
        # A turn of no qubits is a phase, which no readout shows.
        parts = [part for part in parts if part.qubits or not sums]
    initial, rest = _prefix(parts, len(qubits), PREFIX_QUBITS[target])
    terms = observables.collect(sums, position)
    steps: Sequence[FusedBlock | PhaseLayer]
    if target in ("kernel", "split"):
        steps, readout = (
            kernel_fusion.fuse_for_kernel(rest, data),
            ReadoutPlan(terms.offsets, terms=terms),
        )
    elif sums:
        steps, readout = observables.plan_readout(terms, dense_fusion.fuse_gates(rest, data))
    else:
        steps, readout = dense_fusion.fuse_gates(rest, data), ReadoutPlan(terms.offsets)
    counts = (len(list(circuit.all_operations())), len(rest))
    return Program(inputs, parameters, qubits, initial, tuple(steps), readout, counts)


def _split_if_data(factor: Factor, inputs: frozenset[str]) -> Iterable[Factor]:
    return parity.parity_phases(factor) if factor.symbols & inputs else (factor,)


def check_symbols(
    circuit: cirq.AbstractCircuit, inputs: Sequence[str], parameters: Sequence[str]
) -> None:
    """Refuse symbols that are named twice or not at all.

    Raises:
        CircuitError: It names the symbol, and for an unknown one the gate, moment and qubits.
    """
    names = (*inputs, *parameters)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CircuitError(
            f"the symbol {twice[0]} is named more than once among inputs and parameters:"
            " name each symbol once"
        )
    known = frozenset(names)
    for index, moment in enumerate(circuit):
        for operation in moment:
            unknown = sorted(cirq.parameter_names(operation) - known)
            if unknown:
                raise CircuitError(
                    f"{lowering.describe_location(operation, index)} uses the symbol {unknown[0]}, which is"
                    " neither an input nor a parameter: add it to one of them"
                )


def light_cone(factors: Sequence[Factor], wanted: Iterable[cirq.Qid]) -> list[Factor]:
    """The factors that the wanted qubits depend on."""
    cone = set(wanted)
    kept = []
    for factor in reversed(factors):
        if cone.intersection(factor.qubits):
            cone.update(factor.qubits)
            kept.append(factor)
    return kept[::-1]


def _prefix(
    factors: Sequence[Factor], width: int, widest: int
) -> tuple[np.ndarray | None, list[Factor]]:
    """Apply to |0...0> what comes before the first symbol on each qubit."""
    if width > widest:
        return None, list(factors)
    state = np.zeros(2**width, np.complex128)
    state[0] = 1
    turned: set[int] = set()
    rest = []
    for factor in factors:
        if factor.fixed and not turned.intersection(factor.qubits):
            state = apply_factors(state, factor.matrix, factor.qubits, width)
        else:
            turned.update(factor.qubits)
            rest.append(factor)
    return (state if len(rest) < len(factors) else None), rest


def apply_factors(
    state: np.ndarray, matrix: np.ndarray, qubits: Sequence[int], width: int
) -> np.ndarray:
    """[2**N] the state after a [D, D] matrix on some of its qubits."""
    count = len(qubits)
    tensor = state.reshape((2,) * width)
    gate = matrix.reshape((2,) * (2 * count))
    result = np.tensordot(gate, tensor, (range(count, 2 * count), qubits))
    return np.moveaxis(result, range(count), qubits).reshape(-1)
