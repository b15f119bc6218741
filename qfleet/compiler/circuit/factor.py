"""The unit that circuits are lowered to: a matrix on one or two qubits, fixed or parametrized."""

from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit import expressions


@dataclass(frozen=True)
class Factor:
    """One gate, or a product of commuting gates: `sum_k exp(i pi sum_e h_ke t_e) projector_k`.

    Attributes:
        qubits: The qubits it acts on; the first is the most significant bit.
        half_turns: [K, E] eigenphases h in half-turns: of eigenspace k, per unit of exponent e.
        projectors: [K, D, D] complex128 projectors on the eigenspaces, D = 2**len(qubits).
        exponents: The E expressions t. Empty for a fixed gate: then K is 1 and the only
            "projector" is the gate's matrix.
    """

    qubits: tuple[cirq.Qid, ...]
    half_turns: np.ndarray
    projectors: np.ndarray
    exponents: tuple[sympy.Expr, ...] = ()

    @property
    def fixed(self) -> bool:
        """True if the factor depends on no symbol."""
        return not self.exponents

    @property
    def matrix(self) -> np.ndarray:
        """[D, D] complex128 matrix of a fixed factor."""
        assert self.fixed
        matrix: np.ndarray = self.projectors[0]
        return matrix

    @property
    def symbols(self) -> frozenset[str]:
        """Names of the symbols in the exponents."""
        return frozenset().union(*map(expressions.symbol_names, self.exponents))

    @property
    def key(self) -> tuple[bytes, bytes, tuple[sympy.Expr, ...]]:
        """Hashable content without the qubits: factors with equal keys have equal matrices."""
        return self.half_turns.tobytes(), self.projectors.tobytes(), self.exponents

    def on(self, qubits: tuple[cirq.Qid, ...]) -> "Factor":
        """Return the same factor on other qubits."""
        return Factor(qubits, self.half_turns, self.projectors, self.exponents)

    def commutes(self, other: "Factor") -> bool:
        """Return True if it commutes with a factor on the same qubits for all symbol values."""
        ahead = np.einsum("kij,ljm->klim", self.projectors, other.projectors)
        behind = np.einsum("lij,kjm->klim", other.projectors, self.projectors)
        return np.allclose(ahead, behind, atol=1e-12)

    def times(self, before: "Factor") -> "Factor":
        """Return the product `self @ before`.

        Args:
            before: Applied first. Both are fixed, or both are parametrized and commute.
        """
        if self.fixed:
            return fixed_factor(self.qubits, self.matrix @ before.matrix)
        products, half_turns = [], []
        for own, projector in zip(self.half_turns, self.projectors, strict=True):
            for other, space in zip(before.half_turns, before.projectors, strict=True):
                product = projector @ space
                if np.abs(product).max() > 1e-12:
                    products.append(product)
                    half_turns.append(np.concatenate([other, own]))
        both = (*before.exponents, *self.exponents)
        return Factor(self.qubits, np.array(half_turns), np.stack(products), both)


def fixed_factor(qubits: tuple[cirq.Qid, ...], matrix: np.ndarray) -> Factor:
    """Make a factor without symbols.

    Args:
        qubits: The qubits it acts on.
        matrix: [D, D] unitary matrix.
    """
    return Factor(qubits, np.zeros((1, 0)), np.asarray(matrix, np.complex128)[None])


def parametrized_factor(
    qubits: tuple[cirq.Qid, ...],
    half_turns: np.ndarray,
    projectors: np.ndarray,
    exponent: sympy.Expr,
) -> Factor:
    """Make a factor with one exponent.

    Args:
        qubits: The qubits it acts on.
        half_turns: [K] eigenphases in half-turns per unit of the exponent.
        projectors: [K, D, D] projectors on the eigenspaces.
        exponent: The expression.
    """
    return Factor(qubits, np.asarray(half_turns, np.float64)[:, None], projectors, (exponent,))
