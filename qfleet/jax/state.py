"""State vectors as a JAX function with reverse-mode derivatives."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.jax import circuits
from qfleet.jax.calls import call, with_common_axes


def state(
    compiled: CompiledCircuit,
    inputs: ArrayLike | None = None,
    parameters: ArrayLike | None = None,
    *,
    initial_states: ArrayLike | None = None,
) -> jax.Array:
    """Compute state vectors, global phase included, differentiable once by all arrays.

    Args:
        compiled: The circuit, of `qfleet.compile`. A static argument under `jax.jit`.
        inputs: As for `expectation`.
        parameters: As for `expectation`.
        initial_states: As for `expectation`.

    Returns:
        `[B, 2**N]` amplitudes in the circuit's dtype, or `[2**N]` for a single example. The first
        qubit is the most significant bit of the index.

    Raises:
        ArgumentError: As for `expectation`.
        LibraryError: The circuit needs 64 bits, which are not enabled in JAX.
    """
    inputs, parameters, start = circuits.checked_arguments(
        compiled, inputs, parameters, initial_states
    )
    exponents = circuits.exponent_map(compiled)(jnp.atleast_2d(inputs), parameters)
    result = _function(compiled)(*exponents, jnp.atleast_2d(start))
    return result[0] if inputs.ndim == 1 else result


@circuits.cached_by_circuit
def _function(compiled: CompiledCircuit) -> Callable[..., jax.Array]:
    """Return states(shared [E], per_example [B, F], initial [B, 2**N]) -> [B, 2**N]."""

    def evolve(*point: jax.Array) -> jax.Array:
        shape = (len(point[1]), 2 ** len(compiled.qubits))
        (states,) = call("state", compiled, [(shape, compiled.dtype)], point)
        return states

    def forward(*point: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        result = evolve(*point)
        return result, (*point, result)

    def backward(residuals: tuple[jax.Array, ...], upstream: jax.Array) -> tuple[jax.Array, ...]:
        results = [(one.shape, one.dtype) for one in residuals[:-1]]
        # JAX's cotangent is dL/dRe - i dL/dIm, the engine's dL/dRe + i dL/dIm.
        operands = [*residuals, jnp.conj(upstream).astype(compiled.dtype)]
        by_shared, by_rows, by_initial = call("state_gradient", compiled, results, operands)
        return by_shared, by_rows, jnp.conj(by_initial)

    states = jax.custom_vjp(evolve)
    states.defvjp(forward, backward)
    return with_common_axes(states)
