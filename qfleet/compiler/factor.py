"""The unit that circuits are lowered to: a matrix on one or two qubits, fixed or turned."""

from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from qfleet.compiler import expressions


@dataclass(frozen=True)
class Factor:
    """One gate, or gates that commute: `sum_k exp(i pi sum_e turns_ke t_e) projector_k`.

    Attributes:
        qubits: What it acts on; the first is the most significant bit.
        turns: [K, E] half-turns of each eigenspace per unit of each exponent.
        projectors: [K, D, D] complex128 projectors on the eigenspaces, D = 2**len(qubits).
        exponents: The E expressions t; none for a fixed gate, whose K is 1 and whose "projector"
            is its matrix.
    """

    qubits: tuple[cirq.Qid, ...]
    turns: np.ndarray
    projectors: np.ndarray
    exponents: tuple[sympy.Expr, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether no symbol turns it."""
        return not self.exponents

    @property
    def matrix(self) -> np.ndarray:
        """[D, D] complex128, of a fixed gate."""
        assert self.fixed
        return self.projectors[0]

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols that turn it."""
        return frozenset().union(*map(expressions.symbol_names, self.exponents))

    def commutes(self, other: "Factor") -> bool:
        """Whether it commutes with another on the same qubits, whatever the symbols' values."""
        ahead = np.einsum("kij,ljm->klim", self.projectors, other.projectors)
        behind = np.einsum("lij,kjm->klim", other.projectors, self.projectors)
        return np.allclose(ahead, behind, atol=1e-12)

    def times(self, before: "Factor") -> "Factor":
        """Itself after another; both fixed, or both turned and commuting."""
        if self.fixed:
            return fixed_factor(self.qubits, self.matrix @ before.matrix)
        products, turns = [], []
        for mine, projector in zip(self.turns, self.projectors, strict=True):
            for other, space in zip(before.turns, before.projectors, strict=True):
                product = projector @ space
                if np.abs(product).max() > 1e-12:
                    products.append(product)
                    turns.append(np.concatenate([other, mine]))
        both = (*before.exponents, *self.exponents)
        return Factor(self.qubits, np.array(turns), np.stack(products), both)


def fixed_factor(qubits: tuple[cirq.Qid, ...], matrix: np.ndarray) -> Factor:
    """A factor without symbols."""
    return Factor(qubits, np.zeros((1, 0)), np.asarray(matrix, np.complex128)[None])


def parametrised_factor(
    qubits: tuple[cirq.Qid, ...], turns: np.ndarray, projectors: np.ndarray, exponent: sympy.Expr
) -> Factor:
    """A factor with one exponent, whose eigenspaces turn by [K] half-turns per unit of it."""
    return Factor(qubits, np.asarray(turns, np.float64)[:, None], projectors, (exponent,))
