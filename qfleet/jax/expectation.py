"""Expectation values as a JAX function with reverse-mode derivatives of first and second order."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.typing import ArrayLike

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.jax import circuits
from qfleet.jax.calls import call, has_manual_axes, rule_with_shards, with_common_axes

Exponents = tuple[jax.Array, jax.Array]  # shared [E], per example [B, F]


def expectation(compiled: CompiledCircuit, inputs: ArrayLike, parameters: ArrayLike) -> jax.Array:
    """Compute expectation values.

    A batch is one call of the engine. `jax.vmap` over single examples is one call, too, but a batch
    is faster: gradients by parameters are then summed in the engine.

    Args:
        compiled: The circuit, of `qfleet.compile`. A static argument under `jax.jit`.
        inputs: [B, I] values of the inputs in radians or half-turns, as the circuit uses them; or
            [I] for a single example.
        parameters: [P] values of the parameters.

    Returns:
        [B, K] values, or [K] for a single example: float32 for complex64, float64 for complex128.

    Raises:
        ArgumentError: An argument has the wrong shape or dtype, or there is no observable.
        LibraryError: The circuit needs 64 bits, which are not enabled in JAX.
        jax.errors.JaxRuntimeError: A value is NaN or infinite; raised when the result is used.
    """
    inputs, parameters = circuits.checked_arguments(compiled, inputs, parameters)
    circuits.require_readouts(compiled)
    shared, rows = circuits.exponent_map(compiled)(jnp.atleast_2d(inputs), parameters)
    if inputs.ndim == 1:
        return _functions_of_single(compiled)(shared, rows[0])
    return _functions_of_batch(compiled)(shared, rows)


@circuits.cached_by_circuit
def _functions_of_batch(compiled: CompiledCircuit) -> Callable[..., jax.Array]:
    """Return values(shared [E], per_example [B, F]) -> [B, K], differentiable twice."""
    gradient = _gradient_of_batch(compiled)

    @jax.custom_vjp
    def values_and_states(shared: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        reals = compiled.program.kept_reals(rows.shape[0])
        result, kept = _forward(compiled, shared, rows, kept_reals=reals)
        return result, kept

    # Forward passes call the differentiable function, so that they can be differentiated again.
    values_and_states.defvjp(
        lambda shared, rows: (values_and_states(shared, rows), (shared, rows)),
        lambda residuals, upstream: gradient(*residuals, upstream[0], _no_states(compiled)),
    )

    @jax.custom_vjp
    def values(shared: jax.Array, rows: jax.Array) -> jax.Array:
        return _forward(compiled, shared, rows, kept_reals=0)[0]

    def forward(shared: Any, rows: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        result, kept = values_and_states(shared.value, rows.value)
        # The shape is a static mark: data that is not differentiated needs no gradient. JAX keeps
        # one structure of residuals for all derivatives of a traced call, so None cannot be one.
        mark = jnp.zeros(int(rows.perturbed))
        return result, (shared.value, rows.value, jax.lax.stop_gradient(kept), mark)

    def backward(
        residuals: tuple[jax.Array, ...], upstream: jax.Array
    ) -> tuple[jax.Array | None, jax.Array | None]:
        shared, rows, kept, mark = residuals
        if isinstance(upstream, jax.custom_derivatives.SymbolicZero):
            return None, None
        if mark.size:
            both: Exponents = gradient(shared, rows, upstream, kept)
            return both
        by_shared, _ = _gradient_of_batch(compiled, by_rows=False)(shared, rows, upstream, kept)
        return by_shared, None

    values.defvjp(forward, backward, symbolic_zeros=True)
    jitted = jax.jit(values, inline=True)

    def called(shared: jax.Array, rows: jax.Array) -> jax.Array:
        # Outside jit, shard_map supports symbolic zeros only in a function that is compiled itself.
        return jitted(shared, rows) if has_manual_axes() else values(shared, rows)

    return with_common_axes(called)


def _gradient_of_batch(
    compiled: CompiledCircuit, *, by_rows: bool = True
) -> Callable[..., Exponents]:
    """Return gradient(shared, rows, upstream, kept), differentiable once.

    Its results are [E] and [B, F]; the second is [0, F] unless `by_rows`.
    """

    @jax.custom_vjp
    def gradient(
        shared: jax.Array, rows: jax.Array, upstream: jax.Array, kept: jax.Array
    ) -> Exponents:
        return _gradient(compiled, shared, rows, upstream, kept, by_rows=by_rows)

    def backward(
        operands: tuple[jax.Array, ...], tangents: Exponents
    ) -> tuple[jax.Array | None, ...]:
        shared, rows, upstream, _ = operands
        by_example = tangents[1] if by_rows else jnp.zeros_like(rows)
        values, *changes = _hvp(compiled, shared, rows, upstream, tangents[0], by_example)
        return changes[0], changes[1], values, None

    gradient.defvjp(lambda *operands: (gradient(*operands), operands), backward)
    return with_common_axes(gradient)


def _no_states(compiled: CompiledCircuit) -> jax.Array:
    """Return the kept states of a forward pass that kept none."""
    return jnp.zeros(0, compiled.real_dtype)


@circuits.cached_by_circuit
def _functions_of_single(compiled: CompiledCircuit) -> Callable[..., jax.Array]:
    """Return values(shared [E], row [F]) -> [K], which `vmap` turns into one call."""

    @custom_vmap
    def evaluate(shared: jax.Array, row: jax.Array) -> jax.Array:
        return _forward(compiled, shared, row[None], kept_reals=0)[0][0]

    @evaluate.def_vmap
    @rule_with_shards
    def _(
        size: int, batched: Sequence[bool], shared: jax.Array, row: jax.Array
    ) -> tuple[jax.Array, bool]:
        if not batched[0]:
            return _forward(compiled, shared, row, kept_reals=0)[0], True
        split, rows = _all_per_example(compiled, size, batched, shared, row)
        nothing = jnp.zeros(0, rows.dtype)
        return _forward(split.compiled, nothing, rows, kept_reals=0)[0], True

    @custom_vmap
    def gradient(shared: jax.Array, row: jax.Array, upstream: jax.Array) -> Exponents:
        by_shared, by_rows = _gradient(
            compiled, shared, row[None], upstream[None], _no_states(compiled)
        )
        return by_shared, by_rows[0]

    @gradient.def_vmap
    @rule_with_shards
    def _(
        size: int, batched: Sequence[bool], shared: jax.Array, row: jax.Array, upstream: jax.Array
    ) -> tuple[Exponents, tuple[bool, bool]]:
        # Every example has a gradient of its own by the shared exponents.
        split, rows = _all_per_example(compiled, size, batched, shared, row)
        if not batched[2]:
            upstream = jnp.broadcast_to(upstream, (size, *upstream.shape))
        nothing = jnp.zeros(0, rows.dtype)
        _, by_rows = _gradient(split.compiled, nothing, rows, upstream, _no_states(compiled))
        return split.separate(by_rows), (True, True)

    @custom_vmap
    def hvp(
        shared: jax.Array, row: jax.Array, upstream: jax.Array, ts: jax.Array, tr: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        tangents = (ts, tr[None])
        values, by_shared, by_rows = _hvp(compiled, shared, row[None], upstream[None], *tangents)
        return values[0], by_shared, by_rows[0]

    @hvp.def_vmap
    @rule_with_shards
    def _(
        size: int,
        batched: Sequence[bool],
        shared: jax.Array,
        row: jax.Array,
        upstream: jax.Array,
        ts: jax.Array,
        tr: jax.Array,
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], tuple[bool, bool, bool]]:
        split, rows = _all_per_example(compiled, size, batched[:2], shared, row)
        _, tangents = _all_per_example(compiled, size, batched[3:], ts, tr)
        if not batched[2]:
            upstream = jnp.broadcast_to(upstream, (size, *upstream.shape))
        nothing = jnp.zeros(0, rows.dtype)
        values, _, by_rows = _hvp(split.compiled, nothing, rows, upstream, nothing, tangents)
        return (values, *split.separate(by_rows)), (True, True, True)

    return _differentiable_values(evaluate, _differentiable_gradient_of_single(gradient, hvp))


def _differentiable_values(
    evaluate: Callable[..., jax.Array], gradient: Callable[..., Exponents]
) -> Callable[..., jax.Array]:
    """Return `evaluate` with its gradient."""

    @jax.custom_vjp
    def values(shared: jax.Array, row: jax.Array) -> jax.Array:
        return evaluate(shared, row)

    values.defvjp(
        lambda shared, row: (values(shared, row), (shared, row)),
        lambda residuals, upstream: gradient(*residuals, upstream),
    )
    return with_common_axes(values)


def _differentiable_gradient_of_single(
    evaluate: Callable[..., Exponents], hvp: Callable[..., tuple[jax.Array, jax.Array, jax.Array]]
) -> Callable[..., Exponents]:
    """Return gradient(shared, row, upstream) with its own derivative."""

    @jax.custom_vjp
    def gradient(shared: jax.Array, row: jax.Array, upstream: jax.Array) -> Exponents:
        return evaluate(shared, row, upstream)

    def backward(operands: tuple[jax.Array, ...], tangents: Exponents) -> tuple[jax.Array, ...]:
        values, by_shared, by_row = hvp(*operands, *tangents)
        return by_shared, by_row, values

    gradient.defvjp(lambda *operands: (gradient(*operands), operands), backward)
    return with_common_axes(gradient)


def _forward(
    compiled: CompiledCircuit, shared: jax.Array, rows: jax.Array, *, kept_reals: int
) -> list[jax.Array]:
    """Return values [B, K] and kept states [kept_reals]."""
    real = compiled.real_dtype
    results = [((rows.shape[0], compiled.readouts), real), ((kept_reals,), real)]
    return call("expectation", compiled, results, [shared, rows])


def _gradient(
    compiled: CompiledCircuit,
    shared: jax.Array,
    rows: jax.Array,
    upstream: jax.Array,
    kept: jax.Array,
    *,
    by_rows: bool = True,
) -> Exponents:
    """Return gradients [E] and [B, F]; [0, F] unless `by_rows`."""
    wanted = rows.shape if by_rows else (0, rows.shape[1])
    results = [(shared.shape, shared.dtype), (wanted, rows.dtype)]
    operands = [shared, rows, upstream.astype(compiled.real_dtype), kept]
    by_shared, by_example = call("expectation_gradient", compiled, results, operands)
    return by_shared, by_example


def _hvp(
    compiled: CompiledCircuit,
    shared: jax.Array,
    rows: jax.Array,
    upstream: jax.Array,
    shared_tangents: jax.Array,
    row_tangents: jax.Array,
) -> list[jax.Array]:
    """Return J t [B, K] and H t [E], [B, F] for tangents t of the exponents."""
    results = [
        (upstream.shape, compiled.real_dtype),
        (shared.shape, shared.dtype),
        (rows.shape, rows.dtype),
    ]
    operands = [shared, rows, shared_tangents, row_tangents, upstream.astype(compiled.real_dtype)]
    return call("expectation_hvp", compiled, results, operands)


def _all_per_example(
    compiled: CompiledCircuit,
    size: int,
    batched: Sequence[bool],
    shared: jax.Array,
    rows: jax.Array,
) -> tuple[circuits.PerExampleCircuit, jax.Array]:
    """Return the circuit without shared exponents, and its exponents [size, F']."""
    split = circuits.per_example_circuit(compiled)
    if not batched[0]:
        shared = jnp.broadcast_to(shared, (size, *shared.shape))
    if not batched[1]:
        rows = jnp.broadcast_to(rows, (size, *rows.shape))
    return split, split.join(shared, rows)
