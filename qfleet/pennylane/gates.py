"""Lowering of PennyLane operations to factors.

Angles are sympy expressions in radians. PennyLane's rotations are `exp(-i angle G / 2)` and its
generators are defined by `exp(i angle G)`; a factor is `exp(i pi h t)` with t = angle / pi.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import cirq
import numpy as np
import pennylane as qml
import sympy
from pennylane.exceptions import DeviceError
from pennylane.operation import Operator
from pennylane.ops import op_math

from qfleet.circuits.pauli_rotations import pauli_rotation
from qfleet.compiler.circuit import lowering, parity
from qfleet.compiler.circuit.factor import Factor, fixed_factor, parametrized_factor

Data = Sequence[sympy.Expr | np.ndarray]  # of an operation: expressions, or arrays of them
Qubits = Mapping[Hashable, cirq.Qid]  # by wire label

MATRIX_WIRES = 4  # the widest matrix gate, and the widest gate with an arbitrary generator

FIXED = (
    qml.Identity, qml.Hadamard, qml.PauliX, qml.PauliY, qml.PauliZ, qml.S, qml.T, qml.SX,
    qml.CNOT, qml.CZ, qml.CY, qml.CH, qml.SWAP, qml.ISWAP, qml.SISWAP, qml.ECR,
    qml.CSWAP, qml.Toffoli, qml.CCZ,
)  # fmt: skip
GENERATED = (
    qml.RX, qml.RY, qml.RZ, qml.PhaseShift, qml.U1, qml.IsingXX, qml.IsingYY, qml.IsingZZ,
    qml.IsingXY, qml.CPhaseShift00, qml.CPhaseShift01, qml.CPhaseShift10, qml.SingleExcitation,
    qml.SingleExcitationPlus, qml.SingleExcitationMinus, qml.DoubleExcitation,
    qml.DoubleExcitationPlus, qml.DoubleExcitationMinus, qml.OrbitalRotation, qml.FermionicSWAP,
)  # fmt: skip
# Their decompositions only index the parameters or compute linear functions of them.
DECOMPOSED = (
    qml.Rot, qml.U3, qml.PSWAP,
    qml.AngleEmbedding, qml.BasicEntanglerLayers, qml.StronglyEntanglingLayers,
)  # fmt: skip
CONTROLLED = (
    qml.CRX, qml.CRY, qml.CRZ, qml.CRot, qml.ControlledPhaseShift,
)  # fmt: skip
# Their parameters are matrices: constants of the program.
MATRICES = (qml.QubitUnitary, qml.DiagonalQubitUnitary, qml.BlockEncode)


def lower(op: Operator, data: Data, qubits: Qubits) -> Iterator[Factor]:
    """Lower an operation that `structure.is_native` accepts.

    Args:
        op: The operation.
        data: Its parameters, with a sympy expression for each angle.
        qubits: The qubit of each wire.

    Yields:
        Factors on one or two qubits, first applied first.
    """
    where = tuple(qubits[wire] for wire in op.wires)
    if isinstance(op, op_math.Adjoint):
        yield from map(_inverse, reversed(list(lower(op.base, data, qubits))))
    elif handler := _HANDLERS.get(type(op)):
        yield from handler(op, data, where, qubits)
    elif isinstance(op, op_math.Controlled) and op.base.data and not _constant(op.base):
        yield from _controlled(op, data, qubits)
    else:
        matrix = _matrix(op)
        if not np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix))):
            raise DeviceError(
                f"{op.name} on wires {op.wires.tolist()} is not unitary, or not finite: use unitary"
                " gates, and allow_nonunitary=False in qml.metric_tensor"
            )
        yield from narrow(fixed_factor(where, matrix))


def narrow(factor: Factor) -> Iterator[Factor]:
    """Rewrite a factor on up to MATRIX_WIRES qubits as factors on one and two.

    Args:
        factor: Fixed, or with one exponent.

    Yields:
        Factors, first applied first.
    """
    if len(factor.qubits) <= 2:
        yield factor
    elif factor.fixed:
        gate = cirq.MatrixGate(factor.matrix, unitary_check=False)
        yield from lowering.lower(cirq.Circuit(gate.on(*factor.qubits)))
    else:
        for part in parity.parity_phases(factor):
            # A global phase has no qubits.
            yield from narrow(part if part.qubits else _phase(factor.qubits[0], part))


def _constant(op: Operator) -> bool:
    return isinstance(op, MATRICES)


def _matrix(op: Operator) -> np.ndarray:
    return np.asarray(qml.math.unwrap([qml.matrix(op, wire_order=op.wires)])[0], np.complex128)


def _inverse(factor: Factor) -> Factor:
    if factor.fixed:
        return fixed_factor(factor.qubits, factor.matrix.conj().T)
    return Factor(factor.qubits, -factor.half_turns, factor.projectors, factor.exponents)


def _phase(qubit: cirq.Qid, factor: Factor) -> Factor:
    """Return a phase on no qubit as a multiple of the identity on one."""
    identities = factor.projectors * np.eye(2)
    return Factor((qubit,), factor.half_turns, identities, factor.exponents)


def _exponential(
    where: tuple[cirq.Qid, ...], generator: np.ndarray, angle: sympy.Expr
) -> Iterator[Factor]:
    """Lower exp(i angle generator) on up to MATRIX_WIRES qubits."""
    values, vectors = np.linalg.eigh(generator)
    levels, members = np.unique(np.round(values, 10), return_inverse=True)
    spaces = [vectors[:, members == at] for at in range(len(levels))]
    projectors = np.stack([space @ space.conj().T for space in spaces])
    projectors[np.abs(projectors) < 1e-14] = 0
    yield from narrow(parametrized_factor(where, levels, projectors, angle / sympy.pi))


def _rotation(where: Sequence[cirq.Qid], word: str, angle: sympy.Expr) -> Iterator[Factor]:
    """Lower exp(-i angle/2 P) of a Pauli word, one letter per qubit, also of identities only."""
    if not word.strip("I"):
        phase = parametrized_factor((), -np.ones(1) / 2, np.ones((1, 1, 1)), angle / sympy.pi)
        yield _phase(where[0], phase)
        return
    yield from lowering.lower(cirq.Circuit(pauli_rotation(word, where, angle)))


def _lower_fixed(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    if isinstance(op, qml.Identity):
        return
    gate: Any = type(op)
    yield from narrow(fixed_factor(where, _fixed_matrix(gate)))


@lru_cache(maxsize=64)
def _fixed_matrix(gate: type[Operator]) -> np.ndarray:
    return np.asarray(gate.compute_matrix(), np.complex128)


def _lower_generated(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    gate: Any = type(op)
    words, matrix = _generator(gate, len(where))
    if words:
        for word, coefficient in words:
            yield from _rotation(where, word, -2 * coefficient * data[0])
    else:
        yield from _exponential(where, matrix, data[0])


@lru_cache(maxsize=64)
def _generator(gate: type[Operator], width: int) -> tuple[list[tuple[str, float]], np.ndarray]:
    """Return a wide gate's generator as commuting Pauli words if possible, else as a matrix."""
    with qml.QueuingManager.stop_recording():
        generator = gate(0.0, wires=range(width)).generator()
        sentence = generator.pauli_rep
        wide = width > 2 and sentence is not None
        if wide and all(a.commutes_with(b) for a in sentence for b in sentence):
            letters = [
                ("".join(word.get(at, "I") for at in range(width)), float(np.real(weight)))
                for word, weight in sentence.items()
            ]
            return letters, np.zeros((0, 0))
        if isinstance(generator, qml.SparseHamiltonian):
            matrix = generator.sparse_matrix(wire_order=range(width)).toarray()
        else:
            matrix = qml.matrix(generator, wire_order=range(width))
    return [], np.asarray(matrix, np.complex128)


def _lower_decomposed(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    with qml.QueuingManager.stop_recording():
        parts = type(op).compute_decomposition(*data, wires=op.wires, **op.hyperparameters)
    for part in parts:
        yield from lower(part, part.data, qubits)


def _lower_u2(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    with qml.QueuingManager.stop_recording():
        same = qml.U3(sympy.pi / 2, *data, wires=op.wires)
    yield from lower(same, same.data, qubits)


def _lower_pauli_rot(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    yield from _rotation(where, op.hyperparameters["pauli_word"], data[0])


def _lower_multi_rz(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    yield from _rotation(where, "Z" * len(where), data[0])


def _lower_pc_phase(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    inside = np.arange(2 ** len(where)) < int(op.hyperparameters["dimension"][0])
    yield from _exponential(where, np.diag(np.where(inside, 1.0, -1.0)), data[0])


def _lower_global_phase(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    yield _phase(next(iter(qubits.values())), _free_phase(data[0]))


def _free_phase(angle: sympy.Expr) -> Factor:
    return parametrized_factor((), -np.ones(1), np.ones((1, 1, 1)), angle / sympy.pi)


def _lower_basis_state(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    for qubit, bit in zip(where, np.asarray(op.data[0]), strict=True):
        if bit:
            yield fixed_factor((qubit,), cirq.unitary(cirq.X))


def _lower_controlled_gate(
    op: Operator, data: Data, where: tuple[cirq.Qid, ...], qubits: Qubits
) -> Iterator[Factor]:
    yield from _controlled(op, data, qubits)


def _controlled(op: op_math.Controlled, data: Data, qubits: Qubits) -> Iterator[Factor]:
    """Lower a controlled operation with angles: each factor of its base is controlled."""
    controls = tuple(qubits[wire] for wire in op.control_wires)
    on = np.zeros(2 ** len(controls))
    on[int("".join(str(int(value)) for value in op.control_values), 2)] = 1
    base, inverse = op.base, False
    while isinstance(base, op_math.Adjoint):
        base, inverse = base.base, not inverse
    if isinstance(base, qml.GlobalPhase):  # a phase of no qubit, which the controls make physical
        phase = _free_phase(data[0])
        inner = [_inverse(phase) if inverse else phase]
    else:
        inner = list(lower(op.base, data, qubits))
    for factor in inner:
        where = (*controls, *factor.qubits)
        off = np.kron(np.diag(1 - on), np.eye(2 ** len(factor.qubits)))
        if factor.fixed:
            yield from narrow(fixed_factor(where, off + np.kron(np.diag(on), factor.matrix)))
        elif len(where) > 2:
            for part in parity.controlled_phases(controls, on, factor):
                yield from narrow(part)
        else:
            projectors = np.stack([off, *(np.kron(np.diag(on), p) for p in factor.projectors)])
            half_turns = np.array([0.0, *factor.half_turns[:, 0]])
            yield parametrized_factor(where, half_turns, projectors, factor.exponents[0])


Handler = Callable[[Operator, Data, tuple[cirq.Qid, ...], Qubits], Iterator[Factor]]
_HANDLERS: dict[type[Operator], Handler] = {
    **dict.fromkeys(FIXED, _lower_fixed),
    **dict.fromkeys(GENERATED, _lower_generated),
    **dict.fromkeys(DECOMPOSED, _lower_decomposed),
    **dict.fromkeys(CONTROLLED, _lower_controlled_gate),
    qml.U2: _lower_u2,
    qml.PauliRot: _lower_pauli_rot,
    qml.MultiRZ: _lower_multi_rz,
    qml.PCPhase: _lower_pc_phase,
    qml.GlobalPhase: _lower_global_phase,
    qml.BasisState: _lower_basis_state,
    qml.BasisEmbedding: _lower_basis_state,
}
