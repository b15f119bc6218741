"""A controlled turned gate on three or four qubits, as factors on one and two.

In the basis of the eigenspaces it is diagonal, and a diagonal of half-turns is a sum of products of
Z (its Walsh transform): each product is a ZZ between CNOTs.
"""

from collections.abc import Iterator
from itertools import pairwise

import cirq
import numpy as np

from common.simulator.factor import Factor, fixed

_ZZ = (np.diag([1.0, 0, 0, 1]), np.diag([0, 1.0, 1, 0]))  # projectors on even and odd parity
_Z = (np.diag([1.0, 0]), np.diag([0, 1.0]))
_CNOT = cirq.unitary(cirq.CNOT)


def narrowed(controls: tuple[cirq.Qid, ...], on: np.ndarray, inner: Factor) -> Iterator[Factor]:
    """A controlled factor as factors on one and two qubits, up to a global phase.

    Args:
        controls: What controls it.
        on: [2**len(controls)] 1 for each pattern of the controls that turns the factor on, else 0.
        inner: What is controlled.
    """
    basis, inner_turns = _diagonalised(inner)
    turns = np.kron(on, inner_turns)
    qubits = (*controls, *inner.qubits)
    patterns = np.arange(len(turns))
    yield fixed(inner.qubits, basis.conj().T)
    for mask in range(1, len(turns)):
        parity = np.array([(int(pattern) & mask).bit_count() % 2 for pattern in patterns])
        turn = float(np.mean(turns * (1 - 2 * parity)))
        if abs(turn) > 1e-12:
            chosen = [q for at, q in enumerate(reversed(qubits)) if mask >> at & 1]
            yield from _parity_turn(tuple(chosen), turn, inner)
    yield fixed(inner.qubits, basis)


def _diagonalised(factor: Factor) -> tuple[np.ndarray, np.ndarray]:
    """[D, D] eigenvectors in columns, and [D] their half-turns."""
    # A sum of projectors with weights that differ has their spaces as its own.
    weighted = np.tensordot(np.arange(len(factor.turns)), factor.projectors, 1)
    levels, basis = np.linalg.eigh(weighted)
    return basis, factor.turns[np.rint(levels).astype(int)]


def _parity_turn(qubits: tuple[cirq.Qid, ...], turn: float, factor: Factor) -> Iterator[Factor]:
    """exp(i pi turn t Z...Z)."""
    turns = np.array([turn, -turn])
    ladder = [fixed(pair, _CNOT) for pair in pairwise(qubits[:-1])]
    yield from ladder
    projectors = np.stack(_Z if len(qubits) == 1 else _ZZ).astype(np.complex128)
    yield Factor(qubits[-2:], turns, projectors, factor.expression)
    yield from reversed(ladder)
