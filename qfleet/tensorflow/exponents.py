"""The exponents of many gates at once, from the symbols' values, in TensorFlow."""

from collections.abc import Sequence

import numpy as np
import sympy

from qfleet.compiler import expressions
from qfleet.tensorflow.runtime import tf


class GateExponents:
    """A function from symbol values to exponents: one matrix product, and a walk for the rest.

    Args:
        wanted: G expressions; a number is one too.
        names: Of the V symbols, in the order of the values.
        real: tf.float32 or tf.float64.
    """

    def __init__(self, wanted: Sequence[sympy.Expr], names: Sequence[str], real: tf.DType) -> None:
        self._names = tuple(names)
        self._real = real
        column_of = {name: column for column, name in enumerate(self._names)}
        slope = np.zeros((len(self._names), len(wanted)))
        offset = np.zeros(len(wanted))
        self._walked: list[tuple[int, sympy.Expr]] = []
        for column, expression in enumerate(wanted):
            line = expressions.affine(expression)
            if line is None:
                self._walked.append((column, expression))
                continue
            for name, coefficient in line[0].items():
                slope[column_of[name], column] = coefficient
            offset[column] = line[1]
        # NumPy arrays, not tensors: a tensor made in one graph is of no use in the next.
        self._slope = slope.astype(real.as_numpy_dtype)
        self._offset = offset.astype(real.as_numpy_dtype)

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """[B, V] values of `real` -> [B, G] exponents."""
        exponents = tf.matmul(values, self._slope) + self._offset
        if not self._walked:
            return exponents
        columns = dict(
            zip(self._names, tf.unstack(values, num=len(self._names), axis=1), strict=True)
        )
        walked = [
            expressions.evaluate(
                expression,
                columns,
                constant=lambda number: tf.constant(number, self._real),
                math=tf.math,
            )
            for _, expression in self._walked
        ]
        # A walked column's affine part is zero.
        columns_walked = [column for column, _ in self._walked]
        where = tf.one_hot(columns_walked, len(self._offset), dtype=self._real)
        return exponents + tf.matmul(tf.stack(walked, axis=1), where)


class BatchGateExponents:
    """The exponents of a written program: those that a batch shares and those of each example.

    Args:
        shared: E expressions of trained symbols alone.
        each: F expressions with a data symbol.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.

    Attributes:
        mixed: Whether a trained symbol is inside an exponent that differs by example, so that it
            has its gradient from there.
    """

    def __init__(
        self,
        shared: Sequence[sympy.Expr],
        each: Sequence[sympy.Expr],
        inputs: Sequence[str],
        parameters: Sequence[str],
    ) -> None:
        trained = set(parameters)
        self.mixed = any(expressions.symbol_names(one) & trained for one in each)
        self._parameters = len(parameters)
        self._shared = GateExponents(shared, parameters, tf.float64)
        names = (*inputs, *parameters) if self.mixed else tuple(inputs)
        self._each = GateExponents(each, names, tf.float64)

    def __call__(self, angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[B, inputs] and [parameters] -> [E] and [B, F], in float64."""
        symbols, parameters = tf.cast(angles, tf.float64), tf.cast(parameters, tf.float64)
        shared = self._shared(parameters[tf.newaxis])[0]
        if self.mixed:
            rows = tf.broadcast_to(parameters, [tf.shape(angles)[0], self._parameters])
            symbols = tf.concat([symbols, rows], axis=1)
        return shared, self._each(symbols)
