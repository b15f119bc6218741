"""Functions that are computed in NumPy, as JAX functions with first derivatives."""

from collections.abc import Callable
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from qfleet.compiler.circuit.numeric_functions import NO_SECOND_DERIVATIVE, Calls
from qfleet.errors import ArgumentError


def call_numeric(calls: Calls, values: jax.Array) -> jax.Array:
    """Return the results [..., n * A] of n calls of a function by one call of the host.

    Args:
        calls: The calls.
        values: [..., n * P] arguments.
    """
    function, shape = calls.function, values.shape[:-1]
    parameters = len(calls.arguments) // calls.count

    @jax.custom_jvp
    def evaluate(values: jax.Array) -> jax.Array:
        return _on_host(function, (function.results,), values)

    @jax.custom_jvp
    def jacobian(values: jax.Array) -> jax.Array:
        return _on_host(function.jacobian, (function.results, values.shape[-1]), values)

    @evaluate.defjvp
    def push(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        (values,), (change,) = primals, tangents
        highest = jax.lax.Precision.HIGHEST
        moved = jnp.einsum("...ap,...p->...a", jacobian(values), change, precision=highest)
        return evaluate(values), moved

    jacobian.defjvp(_refuse)
    found: jax.Array = evaluate(values.reshape(*shape, calls.count, parameters))
    return found.reshape(*shape, len(calls.names))


def _on_host(
    function: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], values: jax.Array
) -> jax.Array:
    def compute(values: jax.Array) -> np.ndarray:
        return function(np.asarray(values, np.float64)).astype(values.dtype)

    result = jax.ShapeDtypeStruct((*values.shape[:-1], *shape), values.dtype)
    found: jax.Array = jax.pure_callback(compute, result, values, vmap_method="expand_dims")
    return found


def _refuse(*_: object) -> NoReturn:
    raise ArgumentError(NO_SECOND_DERIVATIVE)
