"""Exponents of many gates from the values of the symbols, in TensorFlow."""

from collections.abc import Sequence

import sympy

from qfleet.compiler.circuit import expressions, numeric_functions
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.numeric import call_numeric


class GateExponents:
    """Maps symbol values to exponents: one matrix product, and evaluation of the remaining ones.

    Args:
        wanted: G expressions; numbers are allowed.
        names: Names of the V symbols, in the order of the values.
        real: tf.float32 or tf.float64.
    """

    def __init__(self, wanted: Sequence[sympy.Expr], names: Sequence[str], real: tf.DType) -> None:
        rest, calls = numeric_functions.extract(wanted)
        self._calls = [(one, GateExponents(one.arguments, names, real)) for one in calls]
        names = (*names, *(name for one in calls for name in one.names))
        self._names = tuple(names)
        self._real = real
        coefficients, offset, self._nonaffine = expressions.affine_matrix(rest, names)
        # NumPy arrays, because a tensor of one graph is not valid in another.
        self._coefficients = coefficients.astype(real.as_numpy_dtype)
        self._offset = offset.astype(real.as_numpy_dtype)

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """Return [B, G] exponents for [B, V] values, both of dtype `real`."""
        results = [call_numeric(calls, arguments(values)) for calls, arguments in self._calls]
        values = tf.concat([values, *results], axis=1) if results else values
        exponents = tf.matmul(values, self._coefficients) + self._offset
        if not self._nonaffine:
            return exponents
        columns = dict(
            zip(self._names, tf.unstack(values, num=len(self._names), axis=1), strict=True)
        )
        nonaffine = [
            expressions.evaluate(
                expression,
                columns,
                constant=lambda number: tf.constant(number, self._real),
                math=tf.math,
            )
            for _, expression in self._nonaffine
        ]
        # The affine part of these columns is zero.
        nonaffine_columns = [column for column, _ in self._nonaffine]
        where = tf.one_hot(nonaffine_columns, len(self._offset), dtype=self._real)
        return exponents + tf.matmul(tf.stack(nonaffine, axis=1), where)


class BatchGateExponents:
    """The exponents of a serialized program: shared by the batch, and per example.

    Args:
        shared: E expressions of trained symbols only.
        per_example: F expressions with a data symbol.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.

    Attributes:
        mixed: True if a per-example exponent contains a trained symbol, whose gradient then needs
            the gradients by these exponents.
    """

    def __init__(
        self,
        shared: Sequence[sympy.Expr],
        per_example: Sequence[sympy.Expr],
        inputs: Sequence[str],
        parameters: Sequence[str],
    ) -> None:
        self.mixed = bool(expressions.used_names(per_example, parameters))
        self._parameters = len(parameters)
        self._shared = GateExponents(shared, parameters, tf.float64)
        names = (*inputs, *parameters) if self.mixed else tuple(inputs)
        self._per_example = GateExponents(per_example, names, tf.float64)

    def __call__(self, angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return [E] and [B, F] float64 for [B, inputs] angles and [parameters] values."""
        symbols, parameters = tf.cast(angles, tf.float64), tf.cast(parameters, tf.float64)
        # A reshape copies nothing. A slice and its gradient do.
        shared = tf.reshape(self._shared(tf.reshape(parameters, [1, -1])), [-1])
        if self.mixed:
            rows = tf.broadcast_to(parameters, [tf.shape(angles)[0], self._parameters])
            symbols = tf.concat([symbols, rows], axis=1)
        return shared, self._per_example(symbols)
