"""The matrices of all blocks of a program, computed together from the symbols' values.

Blocks that are alike (a convolution shares its 15 angles among all its pairs) are computed once.
Everything is a handful of operations on tiny arrays, which TensorFlow differentiates by itself.
"""

from collections.abc import Sequence

import numpy as np
import sympy

from common.simulator.exponents import Exponents
from common.simulator.fusion import Block
from common.simulator.gates import Factor
from common.tensorflow import tf


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
            By the block's index: [D, D], or [B, D, D] for a block per example; complex.
        """
        matrices: dict[int, tf.Tensor] = {}
        for members, bank, per_example in self._banks:
            values = parameters
            if per_example:
                shared = tf.broadcast_to(parameters, [tf.shape(angles)[0], parameters.shape[0]])
                values = tf.concat([angles, shared], axis=1)
            matrices.update(zip(members, bank(values), strict=True))
        return matrices


class _Bank:
    """Matrices of one size over one set of values: [..., values] -> a [..., D, D] each."""

    def __init__(
        self,
        products: Sequence[Sequence[Factor]],
        names: Sequence[str],
        size: int,
        real: tf.DType,
    ) -> None:
        self._names = tuple(names)
        self._size = size
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
        self._order = np.array(
            [[*slot, *([unit] * (length - len(slot)))] for slot in distinct], np.int32
        )
        self._take(factors)

    def _take(self, factors: Sequence[Factor]) -> None:
        """Constants of the factors: eigenspaces padded to one count, exponents as one map."""
        count = max(len(factor.turns) for factor in factors)
        turns = np.zeros((len(factors), count))
        projectors = np.zeros((len(factors), count, self._size**2), np.complex128)
        for column, factor in enumerate(factors):
            turns[column, : len(factor.turns)] = factor.turns
            flat = factor.projectors.reshape(len(factor.turns), -1)
            projectors[column, : len(factor.turns)] = flat
        real = self._real.as_numpy_dtype
        self._angle_per_turn = (np.pi * turns).astype(real)
        self._projectors = projectors.astype(np.complex64 if real == np.float32 else np.complex128)
        zero = sympy.Integer(0)
        wanted = [zero if f.expression is None else f.expression for f in factors]
        self._exponents = Exponents(wanted, self._names, self._real)

    def __call__(self, values: tf.Tensor) -> list[tf.Tensor]:
        shared = values.shape.rank == 1
        exponents = self._exponents(values[tf.newaxis] if shared else values)  # [B, G]
        exponents = exponents[0] if shared else exponents
        angle = exponents[..., tf.newaxis] * self._angle_per_turn  # [..., G, K]
        phases = tf.complex(tf.cos(angle), tf.sin(angle))
        flat = tf.reduce_sum(phases[..., tf.newaxis] * self._projectors, axis=-2)  # [..., G, D*D]
        product = tf.gather(flat, self._order, axis=-2)  # [..., S, L, D*D]
        shape = tf.concat([tf.shape(product)[:-1], [self._size, self._size]], axis=0)
        product = tf.reshape(product, shape)
        for _ in range(int(self._order.shape[1]).bit_length() - 1):
            product = tf.matmul(product[..., 1::2, :, :], product[..., 0::2, :, :])
        distinct = tf.unstack(product[..., 0, :, :], num=len(self._order), axis=-3)
        return [distinct[slot] for slot in self._slots]
