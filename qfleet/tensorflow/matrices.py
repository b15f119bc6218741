"""The matrices of all blocks of a program, computed together from the parameters.

Blocks that are alike (a convolution shares its 15 angles among all its pairs) are computed once.
Everything is a handful of operations on tiny arrays, which TensorFlow differentiates by itself.

A complex matrix U is kept as the real one `[[Re U, -Im U], [Im U, Re U]]` throughout: it acts on
(Re x, Im x) stacked, products stay of that form, and TensorFlow's real matrix products are several
times faster on CPUs than its complex ones.
"""

from collections.abc import Sequence

import numpy as np
import sympy

from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.factor import Factor
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.runtime import tf


def realified(matrices: np.ndarray) -> np.ndarray:
    """[..., D, D] complex -> [..., 2 D, 2 D] real."""
    top = np.concatenate([matrices.real, -matrices.imag], axis=-1)
    bottom = np.concatenate([matrices.imag, matrices.real], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


class BlockMatrices:
    """Computes the matrix of each block.

    Args:
        blocks: Whose matrices are wanted.
        parameters: Names of the trained symbols.
        real: tf.float32 or tf.float64.
    """

    def __init__(
        self, blocks: Sequence[FusedBlock], parameters: Sequence[str], real: tf.DType
    ) -> None:
        self._real = real
        self._banks: list[tuple[list[int], _Bank]] = []
        for width in (1, 2):
            members = [index for index, block in enumerate(blocks) if len(block.qubits) == width]
            if members:
                products = [blocks[index].factors for index in members]
                self._banks.append((members, _Bank(products, parameters, 2**width)))

    def __call__(self, parameters: tf.Tensor) -> dict[int, tf.Tensor]:
        """[parameters] values -> by the block's index its matrix [2 D, 2 D], of `real`."""
        # In float64, which costs nothing at this size: the products are exact to the last bit of
        # float32, and TensorFlow keeps these small batches away from oneDNN's 0.15 ms set-up.
        values = tf.cast(parameters, tf.float64)
        matrices: dict[int, tf.Tensor] = {}
        for members, bank in self._banks:
            distinct = tf.unstack(tf.cast(bank(values), self._real), num=bank.distinct)
            matrices.update(
                {index: distinct[slot] for index, slot in zip(members, bank.slots, strict=True)}
            )
        return matrices


class _Bank:
    """Products of factors of one size, each product once; in float64.

    Args:
        products: The factors of each block, first applied first.
        names: Of the symbols.
        size: D.

    Attributes:
        slots: Which of the distinct products each block has.
        distinct: How many there are.
    """

    def __init__(
        self, products: Sequence[Sequence[Factor]], names: Sequence[str], size: int
    ) -> None:
        table: dict[tuple, int] = {}
        factors: list[Factor] = []

        def entry(factor: Factor) -> int:
            key = (factor.turns.tobytes(), factor.projectors.tobytes(), factor.exponents)
            if key not in table:
                table[key] = len(factors)
                factors.append(factor)
            return table[key]

        found: dict[tuple[int, ...], int] = {}
        self.slots = [
            found.setdefault(tuple(entry(factor) for factor in product), len(found))
            for product in products
        ]
        self.distinct = len(found)
        length = max(len(slot) for slot in found)
        length = 1 << (length - 1).bit_length()  # a power of two, for the tree of products
        unit = entry(Factor((), np.zeros((1, 0)), np.eye(size, dtype=np.complex128)[None]))
        padded = [[*slot, *([unit] * (length - len(slot)))] for slot in found]
        # Halving a bit-reversed order pairs neighbours, and halves need no strided slices.
        self._order = np.array(padded, np.int32).T[_bit_reversed(length)]  # [L, S]
        self._levels = length.bit_length() - 1
        self._size = 2 * size
        self._take(factors, names, size)

    def _take(self, factors: Sequence[Factor], names: Sequence[str], size: int) -> None:
        wanted: dict[sympy.Expr, int] = {}
        for factor in factors:
            for exponent in factor.exponents:
                wanted.setdefault(exponent, len(wanted))
        count = max(len(factor.turns) for factor in factors)
        radians = np.zeros((len(wanted), len(factors), count))
        projectors = np.zeros((len(factors), count, size, size), np.complex128)
        for row, factor in enumerate(factors):
            projectors[row, : len(factor.turns)] = factor.projectors
            for exponent, turns in zip(factor.exponents, factor.turns.T, strict=True):
                radians[wanted[exponent], row, : len(turns)] += np.pi * turns
        # exp(i a) P = cos(a) P + sin(a) i P
        terms = np.concatenate([realified(projectors), realified(1j * projectors)], axis=1)
        self._terms = terms.reshape(len(factors), 2 * count, -1)  # [G, 2 K, 4 D*D]
        self._radians = radians.reshape(
            len(wanted), len(factors) * count
        )  # [E, G * K] per unit of each exponent
        self._eigenspaces = count
        self._exponents = GateExponents(list(wanted), names, tf.float64)

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """[V] values -> [distinct, 2 D, 2 D]."""
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
