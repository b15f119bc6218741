"""Exponents of gates from the values of symbols, as JAX operations."""

from collections.abc import Sequence
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import sympy

from qfleet.compiler.circuit import expressions, numeric_functions
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.jax.numeric import call_numeric

_SAME_NAMES = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log"),
    *("abs", "sign", "floor", "ceil"),
)
_MATH = SimpleNamespace(
    **{name: getattr(jnp, name) for name in _SAME_NAMES},
    asin=jnp.arcsin,
    acos=jnp.arccos,
    atan=jnp.arctan,
    asinh=jnp.arcsinh,
    acosh=jnp.arccosh,
    atanh=jnp.arctanh,
    erf=jax.scipy.special.erf,
    pow=jnp.power,
    minimum=jnp.minimum,
    maximum=jnp.maximum,
)


class ExponentFunction:
    """Maps values of symbols to exponents.

    Args:
        wanted: G expressions.
        names: Names of the V symbols, in the order of the values.
    """

    def __init__(self, wanted: Sequence[sympy.Expr], names: Sequence[str]) -> None:
        rest, calls = numeric_functions.extract(wanted)
        self._calls = [(one, ExponentFunction(one.arguments, names)) for one in calls]
        names = (*names, *(name for one in calls for name in one.names))
        self._names = tuple(names)
        coefficients, self._offsets, self._nonaffine = expressions.affine_matrix(rest, names)
        self._coefficients = coefficients
        # Nearly every exponent depends on one symbol: a gather is faster than a matrix product.
        single = bool(rest) and (np.count_nonzero(coefficients, axis=0) <= 1).all()
        self._single = np.abs(coefficients).argmax(axis=0) if single and self._names else None

    def __call__(self, values: jax.Array) -> jax.Array:
        """Return [..., G] exponents for [..., V] values, in their dtype."""
        dtype = values.dtype
        results = [call_numeric(calls, arguments(values)) for calls, arguments in self._calls]
        values = jnp.concatenate([values, *results], axis=-1) if results else values
        if self._single is not None:
            scales = self._coefficients[self._single, np.arange(len(self._single))]
            # XLA of JAX 0.5 computes a constant, indexed and scaled, with transposed data.
            exponents = jnp.take(values, self._single, axis=-1) * scales.astype(dtype)
        else:
            exponents = jnp.matmul(
                values, self._coefficients.astype(dtype), precision=jax.lax.Precision.HIGHEST
            )
        exponents = exponents + self._offsets.astype(dtype)
        columns = {name: values[..., at] for at, name in enumerate(self._names)}
        for column, expression in self._nonaffine:
            value = expressions.evaluate(
                expression, columns, constant=lambda number: jnp.asarray(number, dtype), math=_MATH
            )
            exponents = exponents.at[..., column].set(value)
        return exponents


class JaxExponents:
    """The exponents of a compiled circuit: shared by the batch, and per example.

    Args:
        compiled: The circuit.
    """

    def __init__(self, compiled: CompiledCircuit) -> None:
        symbols = compiled.symbols
        self._mixed = symbols.mixed
        self._shared = ExponentFunction(symbols.shared, compiled.parameters)
        names = (*compiled.inputs, *(compiled.parameters if self._mixed else ()))
        self._per_example = ExponentFunction(symbols.per_example, names)

    def __call__(self, inputs: jax.Array, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return [E] and [B, F] exponents for [B, I] inputs and [P] parameters."""
        rows = inputs
        if self._mixed:
            shape = (inputs.shape[0], parameters.shape[0])
            rows = jnp.concatenate([inputs, jnp.broadcast_to(parameters, shape)], axis=1)
        return self._shared(parameters), self._per_example(rows)
