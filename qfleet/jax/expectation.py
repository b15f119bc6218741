"""Expectation values as a JAX function with reverse-mode derivatives of first and second order."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError
from qfleet.jax import circuits
from qfleet.jax.calls import call, rule_with_shards, with_derivative

# Exponents shared [E], and per example [B, F], and initial states [B, 2**N], or density matrices
# [B, 2**N, 2**N]; or their gradients. Without initial states, these are [B, 0].
Point = tuple[jax.Array, jax.Array, jax.Array]


class Wanted(NamedTuple):
    """If gradients by the arrays of the examples are wanted."""

    rows: bool
    states: bool


def expectation(
    compiled: CompiledCircuit,
    inputs: ArrayLike | None = None,
    parameters: ArrayLike | None = None,
    *,
    initial_states: ArrayLike | None = None,
) -> jax.Array:
    """Compute expectation values, twice differentiable by inputs and parameters.

    A batch is one call of the engine. `jax.vmap` over single examples is one call, too, but a batch
    is faster: gradients by parameters are then summed in the engine.

    Args:
        compiled: The circuit, of `qfleet.compile`. A static argument under `jax.jit`.
        inputs: [B, I] values of the inputs in radians or half-turns, as the circuit uses them; or
            [I] for a single example. None for a circuit without inputs.
        parameters: [P] values of the parameters; None for a circuit without parameters.
        initial_states: [B, 2**N] real or complex, or [2**N] for a single example, of norm 1, to
            1e-4, for a circuit that is compiled with `initial_states=True`. The values are
            differentiable by them once. With the method "density_matrix" also density matrices
            [B, 2**N, 2**N], or [2**N, 2**N] for a single example with inputs: Hermitian, positive,
            of trace 1.

    Returns:
        [B, K] values, or [K] for a single example: float32 for complex64, float64 for complex128.

    Raises:
        LibraryError: The circuit needs 64 bits, which are not enabled in JAX.
        ArgumentError: An argument has the wrong shape or dtype, or there is no observable. Or a
            value is NaN or infinite, or the norm of a state is not 1; where JAX does not know the
            values yet, as in `jit`, and on a GPU, it is jax.errors.JaxRuntimeError when the result
            is used.
    """
    inputs, parameters, states = circuits.checked_arguments(
        compiled, inputs, parameters, initial_states
    )
    circuits.require_readouts(compiled)
    shared, rows = circuits.exponent_map(compiled)(jnp.atleast_2d(inputs), parameters)
    if inputs.ndim == 1:
        return _function_of_single(compiled)(shared, rows[0], states)
    return _function_of_batch(compiled)(shared, rows, states)


@circuits.cached_by_circuit
def _function_of_batch(compiled: CompiledCircuit) -> Callable[..., jax.Array]:
    """Return values(shared [E], rows [B, F], states [B, 2**N]) -> [B, K]."""

    def evaluate(*point: jax.Array, keep: bool) -> list[jax.Array]:
        reals = compiled.program.kept_reals(len(point[1])) if keep else 0
        return _forward(compiled, *point, kept_reals=reals)

    def gradient_of(wanted: Wanted) -> Callable[..., Point]:
        return lambda *operands: _gradient(compiled, *operands, wanted=wanted)

    return _differentiable(evaluate, gradient_of, functools.partial(_hvp, compiled))


@circuits.cached_by_circuit
def _function_of_single(compiled: CompiledCircuit) -> Callable[..., jax.Array]:
    """Return values(shared [E], row [F], state [2**N]) -> [K], which `vmap` turns into one call."""

    @custom_vmap
    def values(shared: jax.Array, row: jax.Array, state: jax.Array) -> jax.Array:
        return _forward(compiled, shared, row[None], state[None], kept_reals=0)[0][0]

    @values.def_vmap
    @rule_with_shards
    def _(size: int, batched: Sequence[bool], *point: jax.Array) -> tuple[jax.Array, bool]:
        shared, rows, states = _mapped(size, batched, point)
        if not batched[0]:
            return _forward(compiled, point[0], rows, states, kept_reals=0)[0], True
        split = circuits.per_example_circuit(compiled)
        return _forward(split.compiled, *split.join(shared, rows), states, kept_reals=0)[0], True

    def evaluate(*point: jax.Array, keep: bool) -> tuple[jax.Array, jax.Array]:
        return values(*point), _nothing_kept(compiled)

    def gradient_of(wanted: Wanted) -> Callable[..., Point]:
        # The gradients by shared exponents are among those by rows in a circuit that has no others.
        return _gradient_of_single(compiled, wanted._replace(rows=True))

    @custom_vmap
    def hvp(*operands: jax.Array) -> tuple[jax.Array, ...]:
        shared, row, state, shared_tangents, row_tangents, upstream = operands
        tangents = shared_tangents, row_tangents[None]
        found = _hvp(compiled, shared, row[None], state[None], *tangents, upstream[None])
        return found[0][0], found[1], found[2][0]

    @hvp.def_vmap
    @rule_with_shards
    def _(
        size: int, batched: Sequence[bool], *operands: jax.Array
    ) -> tuple[tuple[jax.Array, ...], tuple[bool, ...]]:
        shared, rows, states, *tangents, upstream = _mapped(size, batched, operands)
        split = circuits.per_example_circuit(compiled)
        point = *split.join(shared, rows), states
        values, _, by_rows = _hvp(split.compiled, *point, *split.join(*tangents), upstream)
        return (values, *split.separate(by_rows)), (True, True, True)

    return _differentiable(evaluate, gradient_of, hvp)


def _gradient_of_single(compiled: CompiledCircuit, wanted: Wanted) -> Callable[..., Point]:
    """Return the gradient of values that `_function_of_single` returns, without a derivative."""

    @custom_vmap
    def gradient(
        shared: jax.Array, row: jax.Array, state: jax.Array, upstream: jax.Array, kept: jax.Array
    ) -> Point:
        operands = (shared, row[None], state[None], upstream[None], kept)
        by_shared, by_rows, by_states = _gradient(compiled, *operands, wanted=wanted)
        return by_shared, by_rows[0], by_states[0]

    @gradient.def_vmap
    @rule_with_shards
    def _(
        size: int, batched: Sequence[bool], *operands: jax.Array
    ) -> tuple[Point, tuple[bool, bool, bool]]:
        # Every example has a gradient of its own by the shared exponents.
        shared, rows, states, upstream = _mapped(size, batched[:-1], operands[:-1])
        split = circuits.per_example_circuit(compiled)
        point = *split.join(shared, rows), states
        kept = _nothing_kept(compiled)
        _, by_rows, by_states = _gradient(split.compiled, *point, upstream, kept, wanted=wanted)
        return (*split.separate(by_rows), by_states), (True, True, True)

    function: Callable[..., Point] = gradient
    return function


def _nothing_kept(compiled: CompiledCircuit) -> jax.Array:
    """Return the kept states of a forward pass that kept none."""
    return jnp.zeros(0, compiled.real_dtype)


def _mapped(
    size: int, batched: Sequence[bool], operands: Sequence[jax.Array]
) -> Sequence[jax.Array]:
    """Return operands that all have the axis that `vmap` maps."""
    return [
        operand if is_mapped else jnp.broadcast_to(operand, (size, *operand.shape))
        for operand, is_mapped in zip(operands, batched, strict=True)
    ]


def _differentiable(
    evaluate: Callable[..., Sequence[jax.Array]],
    gradient_of: Callable[[Wanted], Callable[..., Point]],
    hvp: Callable[..., Sequence[jax.Array]],
) -> Callable[..., jax.Array]:
    """Return values(*point), differentiable twice.

    Args:
        evaluate: Maps a point, and if states are to be kept, to values and kept states.
        gradient_of: Returns a function of a point, upstream and kept states: the gradients.
        hvp: Maps a point, tangents of the exponents and upstream to J t and H t.
    """

    @functools.cache
    def gradient(wanted: Wanted) -> Callable[..., Point]:
        return _differentiable_gradient(gradient_of(wanted), hvp, wanted)

    def forward(*primals: Any) -> tuple[jax.Array, tuple[Any, ...]]:
        point = [primal.value for primal in primals]
        result, kept = values_and_kept(*point)
        return result, (point, _marks(primals), jax.lax.stop_gradient(kept))

    def backward(residuals: Any, upstream: Any) -> tuple[jax.Array | None, ...]:
        point, marks, kept = residuals
        if isinstance(upstream, SymbolicZero):
            return None, None, None
        wanted = Wanted(*(mark.size > 0 for mark in marks))
        by_shared, by_rows, by_states = gradient(wanted)(*point, upstream, kept)
        return by_shared, by_rows if wanted.rows else None, by_states if wanted.states else None

    # Forward passes call the differentiable function, so that they can be differentiated again.
    def forward_again(*primals: Any) -> tuple[Sequence[jax.Array], tuple[Any, ...]]:
        point = [primal.value for primal in primals]
        found = values_and_kept(*point)
        return found, (point, _marks(primals), jnp.zeros(0, found[1].dtype))

    values_and_kept = with_derivative(
        lambda *point: evaluate(*point, keep=True),
        forward_again,
        lambda residuals, upstream: backward(residuals, upstream[0]),
    )
    return with_derivative(lambda *point: evaluate(*point, keep=False)[0], forward, backward)


def _marks(primals: Sequence[Any]) -> list[jax.Array]:
    """Return residuals that mark which arrays of the examples are differentiated.

    The shape is a static mark: data that is not differentiated needs no gradient. JAX keeps one
    structure of residuals for all derivatives of a traced call, so None cannot be one.
    """
    _, rows, states = primals
    return [jnp.zeros(int(rows.perturbed)), jnp.zeros(int(states.perturbed))]


def _differentiable_gradient(
    evaluate: Callable[..., Point], hvp: Callable[..., Sequence[jax.Array]], wanted: Wanted
) -> Callable[..., Point]:
    """Return gradient(*point, upstream, kept), differentiable once by exponents and upstream.

    Args:
        evaluate: The gradient.
        hvp: As for `_differentiable`.
        wanted: The gradients that it computes.
    """

    def forward(*primals: Any) -> tuple[Point, tuple[Any, ...]]:
        operands = [primal.value for primal in primals]
        return gradient(*operands), (operands[:-1], _marks(primals[:3]))

    def backward(residuals: Any, tangents: Sequence[Any]) -> tuple[jax.Array | None, ...]:
        (shared, rows, states, upstream), (_, mark) = residuals
        if mark.size or (wanted.states and not isinstance(tangents[2], SymbolicZero)):
            raise ArgumentError(
                "expectation values have no second derivatives by initial states: take"
                " jax.lax.stop_gradient of the states, or differences of the first derivative"
            )
        by_shared, by_rows = (
            jnp.zeros_like(like) if isinstance(tangent, SymbolicZero) else tangent
            for tangent, like in ((tangents[0], shared), (tangents[1], rows))
        )
        directions = by_shared, by_rows if wanted.rows else jnp.zeros_like(rows)
        values, *changes = hvp(shared, rows, states, *directions, upstream)
        return changes[0], changes[1], None, values, None

    gradient = with_derivative(evaluate, forward, backward)
    return gradient


def _forward(compiled: CompiledCircuit, *point: jax.Array, kept_reals: int) -> list[jax.Array]:
    """Return values [B, K] and kept states [kept_reals]."""
    real = compiled.real_dtype
    results = [((len(point[1]), compiled.readouts), real), ((kept_reals,), real)]
    return call("expectation", compiled, results, point)


def _gradient(compiled: CompiledCircuit, *operands: jax.Array, wanted: Wanted) -> Point:
    """Return gradients [E], [B, F] and [B, 2**N] at a point, for upstream [B, K] and kept states.

    Gradients that are not wanted are [B, 0].
    """
    *point, upstream, kept = operands
    shared, rows, states = point
    results = [
        (shared.shape, shared.dtype),
        (rows.shape if wanted.rows else (len(rows), 0), rows.dtype),
        (states.shape if wanted.states else (len(rows), 0), states.dtype),
    ]
    arguments = [*point, upstream.astype(compiled.real_dtype), kept]
    by_shared, by_rows, by_states = call("expectation_gradient", compiled, results, arguments)
    # JAX's cotangent is dL/dRe - i dL/dIm, the engine's dL/dRe + i dL/dIm.
    return by_shared, by_rows, jnp.conj(by_states)


def _hvp(compiled: CompiledCircuit, *operands: jax.Array) -> list[jax.Array]:
    """Return J t [B, K] and H t [E], [B, F] at a point, for tangents t and upstream [B, K]."""
    *others, upstream = operands
    shared, rows = others[:2]
    results = [
        (upstream.shape, compiled.real_dtype),
        (shared.shape, shared.dtype),
        (rows.shape, rows.dtype),
    ]
    arguments = [*others, upstream.astype(compiled.real_dtype)]
    return call("expectation_hvp", compiled, results, arguments)
