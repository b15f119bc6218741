"""The matrices of all blocks of a program, computed together from the symbols' values.

Blocks that are alike (a convolution shares its 15 angles among all its pairs) are computed once.
Everything is a handful of operations on tiny arrays, which TensorFlow differentiates by itself.

A complex matrix U is kept as the real one `[[Re U, -Im U], [Im U, Re U]]` throughout: it acts on
(Re x, Im x) stacked, products stay of that form, and TensorFlow's real matrix products are several
times faster on CPUs than its complex ones.
"""

from collections.abc import Sequence

import numpy as np
import sympy

from common.simulator.exponents import Exponents
from common.simulator.factor import Factor
from common.simulator.fusion import Block
from common.tensorflow import tf


def realified(matrices: np.ndarray) -> np.ndarray:
    """[..., D, D] complex -> [..., 2 D, 2 D] real."""
    top = np.concatenate([matrices.real, -matrices.imag], axis=-1)
    bottom = np.concatenate([matrices.imag, matrices.real], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


class Matrices:
    """Computes the matrix of each block.

    Args:
        blocks: Whose matrices are wanted.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        real: tf.float32 or tf.float64.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        inputs: Sequence[str],
        parameters: Sequence[str],
        real: tf.DType,
    ) -> None:
        groups: dict[tuple[bool, int], list[int]] = {}
        for index, block in enumerate(blocks):
            groups.setdefault((block.per_example, len(block.qubits)), []).append(index)
        self._banks = [
            (
                members,
                _Bank(
                    [blocks[index].factors for index in members],
                    (*inputs, *parameters) if per_example else tuple(parameters),
                    2**width,
                    real,
                ),
                per_example,
            )
            for (per_example, width), members in groups.items()
        ]

    def __call__(self, angles: tf.Tensor, parameters: tf.Tensor) -> dict[int, tf.Tensor]:
        """Compute them.

        Args:
            angles: [B, inputs].
            parameters: [parameters].

        Returns:
            By the block's index: [2 D, 2 D], or [B, 2 D, 2 D] for a block per example.
        """
        matrices: dict[int, tf.Tensor] = {}
        for members, bank, per_example in self._banks:
            values = parameters[tf.newaxis]
            if per_example:
                shared = tf.broadcast_to(parameters, [tf.shape(angles)[0], parameters.shape[0]])
                values = tf.concat([angles, shared], axis=1)
            found = bank(values)
            if not per_example:
                found = [matrix[0] for matrix in found]
            matrices.update(zip(members, bank.each(found), strict=True))
        return matrices


class _Bank:
    """Matrices of one size over one set of values: products of factors, each product once.

    Args:
        products: The factors of each block, first applied first.
        names: Of the V symbols.
        size: D.
        real: tf.float32 or tf.float64.
    """

    def __init__(
        self,
        products: Sequence[Sequence[Factor]],
        names: Sequence[str],
        size: int,
        real: tf.DType,
    ) -> None:
        self._size = 2 * size
        self._real = real
        table: dict[tuple, int] = {}
        factors: list[Factor] = []

        def entry(factor: Factor) -> int:
            key = (factor.turns.tobytes(), factor.projectors.tobytes(), factor.expression)
            if key not in table:
                table[key] = len(factors)
                factors.append(factor)
            return table[key]

        distinct: dict[tuple[int, ...], int] = {}
        self._slots = [
            distinct.setdefault(tuple(entry(factor) for factor in product), len(distinct))
            for product in products
        ]
        length = max(len(slot) for slot in distinct)
        length = 1 << (length - 1).bit_length()  # a power of two, for the tree of products
        unit = entry(Factor((), np.zeros(1), np.eye(size, dtype=np.complex128)[None]))
        padded = [[*slot, *([unit] * (length - len(slot)))] for slot in distinct]
        # Halving a bit-reversed order pairs neighbours, and halves need no strided slices.
        self._order = np.array(padded, np.int32).T[_bit_reversed(length)]  # [L, S]
        self._levels = length.bit_length() - 1
        count = max(len(factor.turns) for factor in factors)
        turns = np.zeros((len(factors), count))
        projectors = np.zeros((len(factors), count, size, size), np.complex128)
        for row, factor in enumerate(factors):
            turns[row, : len(factor.turns)] = factor.turns
            projectors[row, : len(factor.turns)] = factor.projectors
        # exp(i a) P = cos(a) P + sin(a) i P
        terms = np.concatenate([realified(projectors), realified(1j * projectors)], axis=1)
        terms = terms.reshape(len(factors), 2 * count, -1)
        self._radians = np.pi * turns  # [G, K] per unit of the exponent
        self._terms = terms  # [G, 2 K, 4 D*D]
        zero = sympy.Integer(0)
        wanted = [zero if f.expression is None else f.expression for f in factors]
        self._exponents = Exponents(wanted, names, tf.float64)

    def __call__(self, values: tf.Tensor) -> list[tf.Tensor]:
        """[B, V] values -> a [B, 2 D, 2 D] for each distinct product."""
        # In float64, which costs nothing at this size: the products are exact to the last bit of
        # float32, and TensorFlow keeps these small batches away from oneDNN's 0.15 ms set-up.
        exponents = tf.transpose(self._exponents(tf.cast(values, tf.float64)))  # [G, B]
        angles = exponents[..., tf.newaxis] * self._radians[:, tf.newaxis]  # [G, B, K]
        waves = tf.concat([tf.cos(angles), tf.sin(angles)], axis=-1)
        flat = tf.matmul(waves, self._terms)  # [G, B, 4 D*D]
        product = tf.gather(flat, self._order)  # [L, S, B, 4 D*D]
        shape = [*self._order.shape, -1, self._size, self._size]
        product = tf.reshape(product, shape)
        for _ in range(self._levels):
            first, second = tf.split(product, 2)
            product = tf.matmul(second, first)
        return tf.unstack(tf.cast(product[0], self._real), num=self._order.shape[1])

    def each(self, distinct: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """One of the distinct products for each block."""
        return [distinct[slot] for slot in self._slots]


def _bit_reversed(length: int) -> list[int]:
    order = [0]
    while len(order) < length:
        order = [2 * at for at in order] + [2 * at + 1 for at in order]
    return order
