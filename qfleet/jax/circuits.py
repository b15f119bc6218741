"""Compiled circuits in JAX: checked arguments, exponents, circuits without shared exponents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from qfleet.argument_checks import shown
from qfleet.engine.arguments import require_finite
from qfleet.engine.compiled_circuit import COMPILED, CompiledCircuit
from qfleet.engine.point import check_states, check_states_given, check_takes_matrices
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
    compiled: CompiledCircuit,
    inputs: ArrayLike | None,
    parameters: ArrayLike | None,
    initial_states: ArrayLike | None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the arguments as arrays: angles of the dtype in which exponents are computed.

    Args:
        compiled: The circuit.
        inputs: [B, I], or [I] for a single example; None for [0].
        parameters: [P]; None for [0].
        initial_states: [B, 2**N], or [2**N]; or density matrices; None without them.

    Returns:
        [B, I] or [I]; [P]; states [B, 2**N] or [2**N] of the circuit's dtype, or density matrices
        [B, 2**N, 2**N] or [2**N, 2**N]. A circuit that takes no states has states [B, 0] or [0].

    Raises:
        ArgumentError: An argument has the wrong shape or dtype, or is missing. Or its values, if
            they are known, are not finite, or a state has another norm than 1, or a matrix is not a
            density matrix.
        LibraryError: The circuit needs 64 bits, which are not enabled in JAX.
    """
    check_precision(COMPILED(compiled, "compiled"))
    arrays = []
    for name, value, ranks, width in (
        ("inputs", inputs, (1, 2), len(compiled.inputs)),
        ("parameters", parameters, (1,), len(compiled.parameters)),
    ):
        if value is None and width:
            raise ArgumentError(f"{name} are missing: the circuit has {width} {name}")
        array = _array(np.empty(0, compiled.real_dtype) if value is None else value, name)
        if not jnp.issubdtype(array.dtype, jnp.floating) and array.size:
            raise ArgumentError(f"{name} has dtype {array.dtype}: use float32 or float64")
        arrays.append(_shaped(array, name, ranks, width))
        if (values := _known(array)) is not None:
            require_finite(values, name)
    dtype = jnp.promote_types(jnp.result_type(*arrays), compiled.real_dtype)
    rows, shared = (array.astype(dtype) for array in arrays)
    check_states_given(compiled.takes_states, initial_states)
    if initial_states is None:
        return rows, shared, jnp.zeros((*rows.shape[:-1], 0), compiled.dtype)
    states = _array(initial_states, "initial_states")
    is_single = rows.ndim == 1 and bool(rows.size)
    size = 1 << len(compiled.qubits)
    is_matrix = states.ndim == 3 - is_single and states.shape[-2:] == (size, size)
    axes = 1 + is_matrix
    states = _checked_states(compiled, states, axes)
    if rows.ndim == 1 and not rows.size:  # no inputs
        rows = jnp.zeros((*states.shape[:-axes], 0), dtype)
    if states.shape[:-axes] != rows.shape[:-1]:
        raise ArgumentError(
            f"initial_states have shape {list(states.shape)}: pass a state per example of inputs"
            f" {list(rows.shape)}"
        )
    return rows, shared, states


def _checked_states(compiled: CompiledCircuit, states: jax.Array, axes: int) -> jax.Array:
    """Return initial states of the circuit's dtype: vectors with one axis, or matrices with two."""
    if axes == 2:
        check_takes_matrices(compiled.method == "density_matrix", states.shape)
    else:
        states = _shaped(states, "initial_states", (1, 2), 1 << len(compiled.qubits))
    states = states.astype(compiled.dtype)
    if (values := _known(states)) is not None:
        check_states(np.ascontiguousarray(values).reshape(-1, *values.shape[-axes:]))
    return states


def _known(array: jax.Array) -> np.ndarray | None:
    """Return the values of an array in this machine's memory; None while they are traced."""
    if isinstance(array, jax.core.Tracer):
        # Not documented: the values that `grad` differentiates at are known without `jit`.
        array = getattr(array, "to_concrete_value", lambda: None)()
    if not isinstance(array, jax.Array) or not array.is_fully_addressable:
        return None
    is_here = all(device.platform == "cpu" for device in array.devices())
    return np.asarray(array) if is_here else None


def _array(value: ArrayLike, name: str) -> jax.Array:
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is {shown(value)}: pass an array of numbers") from None


def _shaped(array: jax.Array, name: str, ranks: tuple[int, ...], width: int) -> jax.Array:
    if array.ndim not in ranks or array.shape[-1] != width:
        allowed = f"[B, {width}] or [{width}]" if 2 in ranks else f"[{width}]"
        raise ArgumentError(f"{name} has shape {list(array.shape)}: use {allowed}")
    return array


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

    def join(self, shared: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return exponents [0] and [B, F'] for the original's [B, E] and [B, F]."""
        joined = jnp.concatenate([shared, rows], axis=1)[:, self.order]
        return jnp.zeros(0, joined.dtype), joined

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
