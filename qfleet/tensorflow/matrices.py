"""Matrices of the blocks of a program, in TensorFlow operations."""

from collections.abc import Mapping, Sequence

import numpy as np
import sympy

from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.state.program import Program
from qfleet.tensorflow.exponents import BatchGateExponents
from qfleet.tensorflow.framework import tf

_Key = tuple[tuple[bool, int], tuple[object, ...]]  # if a factor has a data symbol, size; factor


class BlockMatrices:
    """Computes the matrix of each block: one for the batch, or one per example with a data symbol.

    Equal factors and equal blocks are computed once. All is computed in complex128.

    Args:
        program: The program.
        dtype: Of the matrices.
    """

    def __init__(self, program: Program, dtype: tf.DType) -> None:
        self._dtype = dtype
        data = frozenset(program.inputs)
        tables: dict[bool, dict[sympy.Expr, int]] = {False: {}, True: {}}
        banks: dict[tuple[bool, int], dict[tuple[object, ...], Factor]] = {}
        self._products: list[tuple[_Key, ...]] = []
        for block in program.blocks:
            product = []
            for factor in block.factors:
                for one in factor.exponents:
                    table = tables[bool(expressions.symbol_names(one) & data)]
                    table.setdefault(one, len(table))
                kind = bool(factor.symbols & data), 2 ** len(block.qubits)
                banks.setdefault(kind, {})[factor.key] = factor
                product.append((kind, factor.key))
            self._products.append(tuple(product))
        names = program.inputs, program.parameters
        self._exponents = BatchGateExponents(list(tables[False]), list(tables[True]), *names)
        self._shared = len(tables[False])
        both = {one: at for at, one in enumerate((*tables[False], *tables[True]))}
        columns = {False: tables[False], True: both}
        self._banks = {
            kind: (list(bank), _FactorBank(list(bank.values()), columns[kind[0]]))
            for kind, bank in banks.items()
        }

    def __call__(self, angles: tf.Tensor, parameters: tf.Tensor) -> list[tf.Tensor]:
        """Return the matrices [1, D, D] or [B, D, D], for [B, inputs] and [parameters] values."""
        shared, per_example = self._exponents(angles, parameters)
        shared = tf.reshape(shared, [1, self._shared])
        rows = tf.broadcast_to(shared, [tf.shape(angles)[0], self._shared])
        exponents = {False: shared, True: tf.concat([rows, per_example], axis=1)}
        factors: dict[_Key, tf.Tensor] = {}
        for kind, (keys, bank) in self._banks.items():
            matrices = bank(exponents[kind[0]])
            factors |= {(kind, key): one for key, one in zip(keys, matrices, strict=True)}
        found: dict[tuple[_Key, ...], tf.Tensor] = {}
        for product in self._products:
            if product not in found:
                matrix = factors[product[0]]
                for one in product[1:]:
                    matrix = tf.matmul(factors[one], matrix)
                found[product] = tf.cast(matrix, self._dtype)
        return [found[product] for product in self._products]


class _FactorBank:
    """Factors on equally many qubits.

    Args:
        factors: G factors.
        column: Column of each of the C exponents.
    """

    def __init__(self, factors: Sequence[Factor], column: Mapping[sympy.Expr, int]) -> None:
        size, most = len(factors[0].projectors[0]), max(len(one.projectors) for one in factors)
        radians = np.zeros((len(column), len(factors), most))
        projectors = np.zeros((len(factors), most, size, size), np.complex128)
        for row, factor in enumerate(factors):
            projectors[row, : len(factor.projectors)] = factor.projectors
            for exponent, half_turns in zip(factor.exponents, factor.half_turns.T, strict=True):
                radians[column[exponent], row, : len(half_turns)] += np.pi * half_turns
        self._radians = radians.reshape(len(column), len(factors) * most)  # per unit
        self._projectors = projectors  # [G, K, D, D]

    def __call__(self, exponents: tf.Tensor) -> list[tf.Tensor]:
        """Return G matrices [B, D, D] for [B, C] exponents."""
        angles = tf.reshape(
            tf.matmul(exponents, self._radians), [-1, *self._projectors.shape[:2]]
        )  # [B, G, K]
        phases = tf.complex(tf.cos(angles), tf.sin(angles))
        matrices = tf.einsum("bgk,gkij->bgij", phases, self._projectors)
        unstacked: list[tf.Tensor] = tf.unstack(matrices, num=len(self._projectors), axis=1)
        return unstacked
