"""The unit that circuits are lowered to: a matrix on one or two qubits, fixed or turned."""

from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from common.simulator import expressions


@dataclass(frozen=True)
class Factor:
    """One gate, `sum_k exp(i pi turns_k t) projector_k` with t its expression.

    Attributes:
        qubits: What it acts on; the first is the most significant bit.
        turns: [K] half-turns of each eigenspace per unit of the expression.
        projectors: [K, D, D] complex128 projectors on the eigenspaces, D = 2**len(qubits).
        expression: The exponent t; None for a fixed gate (K is 1, the projector its matrix).
    """

    qubits: tuple[cirq.Qid, ...]
    turns: np.ndarray
    projectors: np.ndarray
    expression: sympy.Expr | None = None

    @property
    def matrix(self) -> np.ndarray:
        """[D, D] complex128, of a fixed gate."""
        assert self.expression is None
        return self.projectors[0]

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols that turn it."""
        return expressions.symbol_names(self.expression) if self.expression is not None else _NONE


_NONE: frozenset[str] = frozenset()


def fixed(qubits: tuple[cirq.Qid, ...], matrix: np.ndarray) -> Factor:
    """A factor without symbols."""
    return Factor(qubits, np.zeros(1), np.asarray(matrix, np.complex128)[None])
