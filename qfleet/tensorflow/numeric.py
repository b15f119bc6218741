"""Functions that are computed in NumPy, as TensorFlow functions with first derivatives."""

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from qfleet.compiler.circuit.numeric_functions import NO_SECOND_DERIVATIVE, NumericFunction
from qfleet.errors import ArgumentError
from qfleet.tensorflow.framework import tf


def call_numeric(function: NumericFunction, values: tf.Tensor) -> tf.Tensor:
    """Return the results [B, A] of a function by a call of Python.

    Args:
        function: The function.
        values: [B, P].
    """

    @tf.custom_gradient
    def jacobian(values: tf.Tensor) -> tuple[tf.Tensor, Callable[..., NoReturn]]:
        shape = function.results, values.shape[-1]
        return _in_python(function.jacobian, shape, values), _refuse

    @tf.custom_gradient
    def evaluate(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.einsum("ba,bap->bp", upstream, jacobian(values))

        return _in_python(function, (function.results,), values), gradient

    return evaluate(values)


def _in_python(
    function: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], values: tf.Tensor
) -> tf.Tensor:
    dtype = values.dtype

    def compute(values: np.ndarray) -> np.ndarray:
        return function(values.astype(np.float64)).astype(dtype.as_numpy_dtype)

    found = tf.numpy_function(compute, [values], dtype, stateful=False)
    return tf.ensure_shape(found, [values.shape[0], *shape])


def _refuse(*_: tf.Tensor) -> NoReturn:
    raise ArgumentError(NO_SECOND_DERIVATIVE)
