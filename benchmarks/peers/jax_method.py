"""Training steps and forward passes in JAX, for the peers that compile through it."""

import time
from collections.abc import Callable

import jax
import numpy as np
from jax import numpy as jnp

from benchmarks.machine import available_gib
from benchmarks.peers.peer import Method, Problem
from benchmarks.subprocess_protocol import TooLarge

Circuit = Callable[
    [jax.Array, jax.Array], jax.Array
]  # one example's angles [I], parameters [P] -> readouts [K]

Dense = tuple[tuple[jax.Array, jax.Array], ...]
Weights = tuple[jax.Array, Dense]
Moments = tuple[jax.Array, Weights, Weights]

LEARNING_RATE, DECAYS, EPSILON = 0.01, (0.9, 0.999), 1e-7


class JaxMethod(Method):
    """A circuit under `jax.jit` and `jax.vmap`, with `jax.value_and_grad` for training.

    The batch has a fixed size, so a step compiles once. Steps are dispatched without waiting.

    Args:
        circuit: The readouts of one example.
        problem: The problem.
    """

    name = "jit(vmap)"

    def __init__(self, circuit: Circuit, problem: Problem) -> None:
        readouts = jax.vmap(circuit, in_axes=(0, None))

        def predict(weights: Weights, angles: jax.Array) -> tuple[jax.Array, jax.Array]:
            parameters, dense = weights
            values = outputs = readouts(angles, parameters)
            for layer, (kernel, bias) in enumerate(dense):
                outputs = outputs @ kernel + bias
                outputs = jnp.tanh(outputs) if layer + 1 < len(dense) else outputs
            return outputs, values

        def loss(
            weights: Weights, angles: jax.Array, labels: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            outputs, values = predict(weights, angles)
            return jnp.mean((outputs - labels) ** 2), values

        def step(
            weights: Weights, moments: Moments, angles: jax.Array, labels: jax.Array
        ) -> tuple[Weights, Moments, jax.Array, jax.Array]:
            (_, values), slopes = jax.value_and_grad(loss, has_aux=True)(weights, angles, labels)
            return (*_adam(weights, moments, slopes), values, slopes[0])

        weights = jax.tree.map(jnp.asarray, (problem.parameters, problem.dense))
        angles, labels = jnp.asarray(problem.angles), jnp.asarray(problem.labels)
        zeros = jax.tree.map(jnp.zeros_like, weights)
        self._trains = problem.task == "train"
        self._state = (weights, (jnp.zeros(()), zeros, zeros))
        self._batch = (angles, labels)
        start = time.perf_counter()
        if self._trains:
            self._compiled = jax.jit(step).lower(*self._state, angles, labels).compile()
        else:
            self._compiled = jax.jit(predict).lower(weights, angles).compile()
        seconds = time.perf_counter() - start
        gib = self._compiled.memory_analysis().temp_size_in_bytes / 2**30
        if gib > available_gib():
            raise TooLarge(
                f"compiled in {seconds:.0f} s; a step would need {gib:.0f} GiB of memory"
            )

    def run(self, steps: int) -> None:
        """Dispatch the steps one after another, and wait for the last."""
        state, outputs = self._state, None
        for _ in range(steps):
            if self._trains:
                *state, outputs, _ = self._compiled(*state, *self._batch)
            else:
                outputs = self._compiled(state[0], self._batch[0])
        jax.block_until_ready((state, outputs))

    def check(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute readouts and gradient with the initial weights."""
        if not self._trains:
            return np.asarray(self._compiled(self._state[0], self._batch[0])[1]), None
        *_, values, slopes = self._compiled(*self._state, *self._batch)
        return np.asarray(values), np.asarray(slopes)


def _adam(weights: Weights, moments: Moments, slopes: Weights) -> tuple[Weights, Moments]:
    """Return the updated weights and moments (Kingma and Ba, arXiv:1412.6980)."""
    count, first, second = moments
    count = count + 1
    one, two = DECAYS
    first = jax.tree.map(lambda m, g: one * m + (1 - one) * g, first, slopes)
    second = jax.tree.map(lambda v, g: two * v + (1 - two) * g**2, second, slopes)
    rate = LEARNING_RATE * jnp.sqrt(1 - two**count) / (1 - one**count)
    weights = jax.tree.map(
        lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), weights, first, second
    )
    return weights, (count, first, second)
