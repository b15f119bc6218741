"""A turned gate as parity turns `exp(i pi turn t Z...Z)` between fixed gates.

In the basis of its eigenspaces a gate is diagonal, and a diagonal of half-turns is a sum of
products of Z (its Walsh transform). All parity turns commute, so those of a whole layer of data
gates are one multiplication of the state by phases. Wider gates become narrow ones the same way:
a parity of many qubits is one of two qubits between CNOTs.
"""

from collections.abc import Iterator
from itertools import pairwise

import cirq
import numpy as np

from qfleet.compiler.factor import Factor, fixed_factor, parametrised_factor

_Z = np.stack([np.diag([1.0, 0]), np.diag([0, 1.0])]).astype(np.complex128)
_ZZ = np.stack([np.diag([1.0, 0, 0, 1]), np.diag([0, 1.0, 1, 0])]).astype(np.complex128)
_CNOT = cirq.unitary(cirq.CNOT)


def parity_phases(inner: Factor) -> Iterator[Factor]:
    """A factor as fixed ones and parity turns; a phase, as the parity of no qubit, has no qubits.

    Args:
        inner: With one exponent.
    """
    for part in controlled_phases((), np.ones(1), inner):
        if part.fixed or len(part.turns) > 1:
            yield part
        else:
            yield parametrised_factor((), part.turns[0], np.ones((1, 1, 1)), part.exponents[0])


def controlled_phases(
    controls: tuple[cirq.Qid, ...], on: np.ndarray, inner: Factor
) -> Iterator[Factor]:
    """A controlled factor as fixed ones and parity turns, the last a phase where there is one.

    Args:
        controls: What controls it.
        on: [2**len(controls)] 1 for each pattern of the controls that turns the factor on, else 0.
        inner: What is controlled; with one exponent.
    """
    basis, inner_turns = _diagonalised(inner)
    turns = np.kron(on, inner_turns)
    qubits = (*controls, *inner.qubits)
    patterns = np.arange(len(turns))
    if basis is not None:
        yield fixed_factor(inner.qubits, basis.conj().T)
    for mask in range(1, len(turns)):
        parity = np.array([(int(pattern) & mask).bit_count() % 2 for pattern in patterns])
        turn = float(np.mean(turns * (1 - 2 * parity)))
        if abs(turn) > 1e-12:
            chosen = [q for at, q in enumerate(reversed(qubits)) if mask >> at & 1]
            yield from _parity_turn(tuple(chosen), turn, inner)
    if basis is not None:
        yield fixed_factor(inner.qubits, basis)
    phase = float(np.mean(turns))
    if abs(phase) > 1e-12:
        yield parametrised_factor(
            qubits[:1], np.array([phase]), np.eye(2)[None], inner.exponents[0]
        )


def _diagonalised(factor: Factor) -> tuple[np.ndarray | None, np.ndarray]:
    """[D, D] eigenvectors in columns, None for the identity, and [D] their half-turns."""
    # A sum of projectors with weights that differ has their spaces as its own.
    weighted = np.tensordot(np.arange(len(factor.turns)), factor.projectors, 1)
    levels = np.diag(weighted).real
    basis = None
    if np.abs(weighted - np.diag(levels)).max() > 1e-12:
        levels, basis = np.linalg.eigh(weighted)
    return basis, factor.turns[np.rint(levels).astype(int), 0]


def _parity_turn(qubits: tuple[cirq.Qid, ...], turn: float, factor: Factor) -> Iterator[Factor]:
    ladder = [fixed_factor(pair, _CNOT) for pair in pairwise(qubits[:-1])]
    yield from ladder
    projectors = _Z if len(qubits) == 1 else _ZZ
    yield parametrised_factor(qubits[-2:], np.array([turn, -turn]), projectors, factor.exponents[0])
    yield from reversed(ladder)
