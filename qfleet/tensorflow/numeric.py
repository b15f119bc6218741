"""Functions that are computed in NumPy, as TensorFlow functions with first derivatives."""

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from qfleet.compiler.circuit.numeric_functions import NO_SECOND_DERIVATIVE, Calls
from qfleet.errors import ArgumentError
from qfleet.tensorflow.framework import tf


def call_numeric(calls: Calls, values: tf.Tensor) -> tf.Tensor:
    """Return the results [B, n * A] of n calls of a function by one call of Python.

    Args:
        calls: The calls.
        values: [B, n * P] arguments.
    """
    function, parameters = calls.function, len(calls.arguments) // calls.count

    @tf.custom_gradient
    def jacobian(values: tf.Tensor) -> tuple[tf.Tensor, Callable[..., NoReturn]]:
        shape = function.results, values.shape[-1]
        return _in_python(function.jacobian, shape, values), _refuse

    @tf.custom_gradient
    def evaluate(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.einsum("ba,bap->bp", upstream, jacobian(values))

        return _in_python(function, (function.results,), values), gradient

    found = evaluate(tf.reshape(values, [-1, parameters]))
    return tf.reshape(found, [-1, len(calls.names)])


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
