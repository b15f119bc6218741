"""Matrices of all blocks of a program, computed together from the parameters.

Equal blocks are computed once: a convolution shares its 15 angles among all its pairs. All of it is
a few operations on small arrays, differentiated by TensorFlow.

A complex matrix U is represented by the real matrix `[[Re U, -Im U], [Im U, Re U]]`. It acts on
stacked (Re x, Im x), products keep that form, and TensorFlow's real matrix products are several
times faster on CPUs than its complex ones.
"""

from collections.abc import Sequence

import numpy as np
import sympy

from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.factor import Factor
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.runtime import tf


def as_real(matrices: np.ndarray) -> np.ndarray:
    """Return [..., 2 D, 2 D] real matrices for [..., D, D] complex ones."""
    top = np.concatenate([matrices.real, -matrices.imag], axis=-1)
    bottom = np.concatenate([matrices.imag, matrices.real], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


class BlockMatrices:
    """Computes the matrix of each block.

    Args:
        blocks: The blocks.
        parameters: Names of the trained symbols.
        real: tf.float32 or tf.float64.
    """

    def __init__(
        self, blocks: Sequence[FusedBlock], parameters: Sequence[str], real: tf.DType
    ) -> None:
        self._real = real
        self._banks: list[tuple[list[int], _ProductBank]] = []
        for width in (1, 2):
            members = [index for index, block in enumerate(blocks) if len(block.qubits) == width]
            if members:
                products = [blocks[index].factors for index in members]
                self._banks.append((members, _ProductBank(products, parameters, 2**width)))

    def __call__(self, parameters: tf.Tensor) -> dict[int, tf.Tensor]:
        """Return each block's [2 D, 2 D] matrix by its index, for [parameters] values."""
        # float64 costs nothing at this size, rounds correctly to float32, and avoids the 0.15 ms of
        # setup that oneDNN needs for float32.
        values = tf.cast(parameters, tf.float64)
        matrices: dict[int, tf.Tensor] = {}
        for members, bank in self._banks:
            distinct = tf.unstack(tf.cast(bank(values), self._real), num=bank.distinct)
            matrices.update(
                {index: distinct[slot] for index, slot in zip(members, bank.slots, strict=True)}
            )
        return matrices


class _ProductBank:
    """Distinct products of factors of one size, in float64.

    Args:
        products: The factors of each block, first applied first.
        names: Names of the symbols.
        size: D.

    Attributes:
        slots: Index of each block's product among the distinct products.
        distinct: Number of distinct products.
    """

    def __init__(
        self, products: Sequence[Sequence[Factor]], names: Sequence[str], size: int
    ) -> None:
        table: dict[tuple, int] = {}
        factors: list[Factor] = []

        def entry(factor: Factor) -> int:
            if factor.key not in table:
                table[factor.key] = len(factors)
                factors.append(factor)
            return table[factor.key]

        distinct: dict[tuple[int, ...], int] = {}
        self.slots = [
            distinct.setdefault(tuple(entry(factor) for factor in product), len(distinct))
            for product in products
        ]
        self.distinct = len(distinct)
        length = max(len(slot) for slot in distinct)
        length = 1 << (length - 1).bit_length()  # a power of two, for the tree of products
        unit = entry(Factor((), np.zeros((1, 0)), np.eye(size, dtype=np.complex128)[None]))
        padded = [[*slot, *([unit] * (length - len(slot)))] for slot in distinct]
        # Halving a bit-reversed order pairs neighbors without strided slices.
        self._order = np.array(padded, np.int32).T[_bit_reversed(length)]  # [L, S]
        self._levels = length.bit_length() - 1
        self._size = 2 * size
        self._collect_terms(factors, names, size)

    def _collect_terms(self, factors: Sequence[Factor], names: Sequence[str], size: int) -> None:
        wanted: dict[sympy.Expr, int] = {}
        for factor in factors:
            for exponent in factor.exponents:
                wanted.setdefault(exponent, len(wanted))
        count = max(len(factor.half_turns) for factor in factors)
        radians = np.zeros((len(wanted), len(factors), count))
        projectors = np.zeros((len(factors), count, size, size), np.complex128)
        for row, factor in enumerate(factors):
            projectors[row, : len(factor.half_turns)] = factor.projectors
            for exponent, half_turns in zip(factor.exponents, factor.half_turns.T, strict=True):
                radians[wanted[exponent], row, : len(half_turns)] += np.pi * half_turns
        # exp(i a) P = cos(a) P + sin(a) i P
        terms = np.concatenate([as_real(projectors), as_real(1j * projectors)], axis=1)
        self._terms = terms.reshape(len(factors), 2 * count, -1)  # [G, 2 K, 4 D*D]
        self._radians = radians.reshape(
            len(wanted), len(factors) * count
        )  # [E, G * K] per unit of each exponent
        self._eigenspaces = count
        self._exponents = GateExponents(list(wanted), names, tf.float64)

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """Return [distinct, 2 D, 2 D] products for [V] values."""
        angles = tf.matmul(self._exponents(values[tf.newaxis]), self._radians)
        angles = tf.reshape(angles, [-1, 1, self._eigenspaces])  # [G, 1, K]
        waves = tf.concat([tf.cos(angles), tf.sin(angles)], axis=-1)
        flat = tf.matmul(waves, self._terms)  # [G, 1, 4 D*D]
        product = tf.gather(flat, self._order)  # [L, S, 1, 4 D*D]
        product = tf.reshape(product, [*self._order.shape, self._size, self._size])
        for _ in range(self._levels):
            first, second = tf.split(product, 2)
            product = tf.matmul(second, first)
        return product[0]


def _bit_reversed(length: int) -> list[int]:
    order = [0]
    while len(order) < length:
        order = [2 * at for at in order] + [2 * at + 1 for at in order]
    return order
