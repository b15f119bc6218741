"""Compiled circuits in JAX: checked arguments, exponents, circuits without shared exponents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from qfleet.argument_checks import shown
from qfleet.engine.compiled_circuit import COMPILED, CompiledCircuit
from qfleet.errors import ArgumentError
from qfleet.jax.calls import check_precision
from qfleet.jax.exponents import JaxExponents

T = TypeVar("T")

_CACHE = "_jax"
"""Attribute of a circuit: results of functions by function."""


def cached_by_circuit(make: Callable[[CompiledCircuit], T]) -> Callable[[CompiledCircuit], T]:
    """Return `make` with a cache that each circuit holds, so that both are freed together."""

    def cached(compiled: CompiledCircuit) -> T:
        cache: dict[Callable[[CompiledCircuit], T], T] = vars(compiled).setdefault(_CACHE, {})
        if make not in cache:
            cache[make] = make(compiled)
        return cache[make]

    return cached


def checked_arguments(
    compiled: CompiledCircuit, inputs: ArrayLike, parameters: ArrayLike
) -> tuple[jax.Array, jax.Array]:
    """Return the arguments as arrays of the dtype in which exponents are computed.

    Raises:
        ArgumentError: An argument has the wrong shape or dtype.
        LibraryError: The circuit needs 64 bits, which are not enabled in JAX.
    """
    check_precision(COMPILED(compiled, "compiled"))
    arrays = []
    for name, value, ranks, width in (
        ("inputs", inputs, (1, 2), len(compiled.inputs)),
        ("parameters", parameters, (1,), len(compiled.parameters)),
    ):
        try:
            array = jnp.asarray(value)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name} is {shown(value)}: pass an array of numbers") from None
        if not jnp.issubdtype(array.dtype, jnp.floating) and array.size:
            raise ArgumentError(f"{name} has dtype {array.dtype}: use float32 or float64")
        if array.ndim not in ranks or array.shape[-1] != width:
            allowed = f"[B, {width}] or [{width}]" if 2 in ranks else f"[{width}]"
            raise ArgumentError(f"{name} has shape {list(array.shape)}: use {allowed}")
        arrays.append(array)
    dtype = jnp.promote_types(jnp.result_type(*arrays), compiled.real_dtype)
    return arrays[0].astype(dtype), arrays[1].astype(dtype)


def require_readouts(compiled: CompiledCircuit) -> None:
    """Check that a circuit has observables.

    Raises:
        ArgumentError: It has none.
    """
    if not compiled.readouts:
        raise ArgumentError("the circuit has no observables: pass observables to qfleet.compile")


exponent_map = cached_by_circuit(JaxExponents)
"""Return the map from inputs and parameters of a circuit to its exponents."""


@dataclass(frozen=True)
class PerExampleCircuit:
    """A circuit with every symbol as an input, which gives each example its own gradient.

    Attributes:
        compiled: The circuit.
        order: [F'] column of each of its exponents among the original's shared and per-example
            exponents, in this order.
        shared: Number E of the original's shared exponents.
        width: Number E + F of the original's exponents.
    """

    compiled: CompiledCircuit
    order: np.ndarray
    shared: int
    width: int

    def join(self, shared: jax.Array, rows: jax.Array) -> jax.Array:
        """Return exponents [B, F'] for the original's [B, E] and [B, F]."""
        return jnp.concatenate([shared, rows], axis=1)[:, self.order]

    def separate(self, gradients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return gradients by the original's exponents, for gradients [B, F']."""
        joined = jnp.zeros((len(gradients), self.width), gradients.dtype)
        joined = joined.at[:, self.order].set(gradients)
        return joined[:, : self.shared], joined[:, self.shared :]


@cached_by_circuit
def per_example_circuit(compiled: CompiledCircuit) -> PerExampleCircuit:
    """Compile a circuit again, with every symbol as an input."""
    other = compiled.with_all_inputs()
    column = {
        expression: at
        for at, expression in enumerate((*compiled.symbols.shared, *compiled.symbols.per_example))
    }
    order = np.array([column[one] for one in other.symbols.per_example], np.intp)
    return PerExampleCircuit(other, order, len(compiled.symbols.shared), len(column))
