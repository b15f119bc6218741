"""State vectors as a JAX function with reverse-mode derivatives."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.jax import circuits
from qfleet.jax.calls import call, with_common_axes


def state(compiled: CompiledCircuit, inputs: ArrayLike, parameters: ArrayLike) -> jax.Array:
    """Compute state vectors.

    Args:
        compiled: The circuit, of `qfleet.compile`. A static argument under `jax.jit`.
        inputs: [B, I] values of the inputs, or [I] for a single example.
        parameters: [P] values of the parameters.

    Returns:
        `[B, 2**N]` amplitudes in the circuit's dtype, or `[2**N]` for a single example. The first
        qubit is the most significant bit of the index.

    Raises:
        ArgumentError: An argument has the wrong shape or dtype.
        LibraryError: The circuit needs 64 bits, which are not enabled in JAX.
        jax.errors.JaxRuntimeError: A value is NaN or infinite; raised when the result is used.
    """
    inputs, parameters = circuits.checked_arguments(compiled, inputs, parameters)
    exponents = circuits.exponent_map(compiled)(jnp.atleast_2d(inputs), parameters)
    result = _function(compiled)(*exponents)
    return result[0] if inputs.ndim == 1 else result


@circuits.cached_by_circuit
def _function(compiled: CompiledCircuit) -> Callable[..., jax.Array]:
    """Return states(shared [E], per_example [B, F]) -> [B, 2**N]."""
    order = compiled.program.bit_order

    def evolve(shared: jax.Array, rows: jax.Array) -> jax.Array:
        shape = (rows.shape[0], 2 ** len(compiled.qubits))
        (states,) = call("state", compiled, [(shape, compiled.dtype)], [shared, rows], order=order)
        return states

    @jax.custom_vjp
    def states(shared: jax.Array, rows: jax.Array) -> jax.Array:
        return evolve(shared, rows)

    def forward(shared: jax.Array, rows: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        result = evolve(shared, rows)
        return result, (shared, rows, result)

    def backward(
        residuals: tuple[jax.Array, ...], upstream: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        shared, rows, result = residuals
        results = [(shared.shape, shared.dtype), (rows.shape, rows.dtype)]
        # JAX's cotangent is dL/dRe - i dL/dIm, the engine's dL/dRe + i dL/dIm.
        operands = [shared, rows, result, jnp.conj(upstream).astype(compiled.dtype)]
        by_shared, by_rows = call("state_gradient", compiled, results, operands, order=order)
        return by_shared, by_rows

    states.defvjp(forward, backward)
    return with_common_axes(states)
