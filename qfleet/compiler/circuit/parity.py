"""Parametrized gates as parity phases `exp(i pi h t Z...Z)` between fixed gates.

In its eigenbasis a gate is diagonal. A diagonal of half-turns is a sum of products of Z: its Walsh
transform. Wide gates are narrowed in the same way: the parity of many qubits is a parity of two
qubits between CNOTs.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit.factor import Factor, fixed_factor, parametrized_factor

_Z = np.stack([np.diag([1.0, 0]), np.diag([0, 1.0])]).astype(np.complex128)
_ZZ = np.stack([np.diag([1.0, 0, 0, 1]), np.diag([0, 1.0, 1, 0])]).astype(np.complex128)
_CNOT = cirq.unitary(cirq.CNOT)


def parity_phases(inner: Factor) -> Iterator[Factor]:
    """Decompose a factor into fixed factors and parity phases.

    Args:
        inner: A factor with one exponent.

    Yields:
        Factors, first applied first. A global phase has no qubits.
    """
    for part in controlled_phases((), np.ones(1), inner):
        if part.fixed or len(part.half_turns) > 1:
            yield part
        else:
            yield parametrized_factor((), part.half_turns[0], np.ones((1, 1, 1)), part.exponents[0])


def known_gates(factors: Iterable[Factor]) -> Iterator[cirq.Operation]:
    """Yield operations of Cirq's gates whose product has the unitary of the factors.

    Args:
        factors: Factors with at most one exponent each, first applied first.
    """
    for factor in factors:
        if factor.fixed:
            yield cirq.MatrixGate(factor.matrix).on(*factor.qubits)
            continue
        for part in parity_phases(factor):
            if part.fixed:
                yield cirq.MatrixGate(part.matrix).on(*part.qubits)
                continue
            turns = float(part.half_turns[0, 0]) * part.exponents[0]
            if not part.qubits:
                yield cirq.GlobalPhaseGate(sympy.exp(sympy.I * sympy.pi * turns)).on()
                continue
            kind = cirq.ZPowGate if len(part.qubits) == 1 else cirq.ZZPowGate
            yield kind(exponent=-2 * turns, global_shift=-0.5).on(*part.qubits)


def controlled_phases(
    controls: tuple[cirq.Qid, ...], on: np.ndarray, inner: Factor
) -> Iterator[Factor]:
    """Decompose a controlled factor into fixed factors and parity phases.

    Args:
        controls: The control qubits.
        on: [2**len(controls)] 1 for each bit pattern of the controls that enables the factor,
            else 0.
        inner: The controlled factor, with one exponent.

    Yields:
        Factors, first applied first. A global phase comes last and has at most one qubit.
    """
    basis, inner_half_turns = _diagonalize(inner)
    diagonal = np.kron(on, inner_half_turns)
    qubits = (*controls, *inner.qubits)
    patterns = np.arange(len(diagonal))
    if basis is not None:
        yield fixed_factor(inner.qubits, basis.conj().T)
    for mask in range(1, len(diagonal)):
        parity = np.array([(int(pattern) & mask).bit_count() % 2 for pattern in patterns])
        half_turns = float(np.mean(diagonal * (1 - 2 * parity)))
        if abs(half_turns) > 1e-12:
            members = [q for at, q in enumerate(reversed(qubits)) if mask >> at & 1]
            yield from _parity_phase(tuple(members), half_turns, inner)
    if basis is not None:
        yield fixed_factor(inner.qubits, basis)
    phase = float(np.mean(diagonal))
    if abs(phase) > 1e-12:
        yield parametrized_factor(
            qubits[:1], np.array([phase]), np.eye(2)[None], inner.exponents[0]
        )


def _diagonalize(factor: Factor) -> tuple[np.ndarray | None, np.ndarray]:
    """Return [D, D] eigenvectors in columns (None for the identity) and [D] their half-turns."""
    # A sum of projectors with distinct weights has the projectors' spaces as eigenspaces.
    weighted = np.tensordot(np.arange(len(factor.half_turns)), factor.projectors, 1)
    levels = np.diag(weighted).real
    basis = None
    if np.abs(weighted - np.diag(levels)).max() > 1e-12:
        levels, basis = np.linalg.eigh(weighted)
    return basis, factor.half_turns[np.rint(levels).astype(int), 0]


def _parity_phase(
    qubits: tuple[cirq.Qid, ...], half_turns: float, factor: Factor
) -> Iterator[Factor]:
    ladder = [fixed_factor(pair, _CNOT) for pair in pairwise(qubits[:-1])]
    yield from ladder
    projectors = _Z if len(qubits) == 1 else _ZZ
    yield parametrized_factor(
        qubits[-2:], np.array([half_turns, -half_turns]), projectors, factor.exponents[0]
    )
    yield from reversed(ladder)
