"""Train a classifier of a circuit in JAX: the whole training step is one compiled function.

Run:   python examples/jax_training.py    (with a wheel of qfleet[jax])
       PYTHONPATH=. .venv-peers/bin/python examples/jax_training.py    (in a checkout)
Takes: ten seconds.
Shows: loss and accuracy, and the time of a step.
"""

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

import qfleet
import qfleet.jax
from qfleet.circuits import qcnn

QUBITS, BATCH, RATE = 8, 32, 0.1


class Weights(NamedTuple):
    """The trained arrays: the circuit's parameters [P], a scale and an offset of its readout."""

    parameters: jax.Array
    scale: jax.Array
    offset: jax.Array


def make_functions(compiled: qfleet.CompiledCircuit) -> tuple[Callable, Callable]:
    """Return the compiled functions `step(weights, inputs, labels)` and `predict`."""

    def predict(weights: Weights, inputs: jax.Array) -> jax.Array:
        readouts = qfleet.jax.expectation(compiled, inputs, weights.parameters)
        return weights.scale * readouts[:, 0] + weights.offset

    def mean_loss(weights: Weights, inputs: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.mean((predict(weights, inputs) - labels) ** 2)

    @jax.jit
    def step(weights: Weights, inputs: jax.Array, labels: jax.Array) -> tuple[Weights, jax.Array]:
        loss, slopes = jax.value_and_grad(mean_loss)(weights, inputs, labels)
        return jax.tree.map(lambda value, slope: value - RATE * slope, weights, slopes), loss

    return step, jax.jit(predict)


def main() -> None:
    """Train and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps

    model = qcnn(QUBITS, encoder="angle")
    compiled = qfleet.compile(
        model.circuit, model.inputs, model.parameters, model.observables, dtype="complex64"
    )
    step, predict = make_functions(compiled)
    data, order, start = jax.random.split(jax.random.key(1), 3)
    inputs = jax.random.uniform(data, (1024, len(compiled.inputs)), maxval=jnp.pi)
    labels = jnp.sign(jnp.cos(inputs[:, :4]).sum(1))
    first = jax.random.uniform(start, (len(compiled.parameters),), maxval=2 * jnp.pi)
    weights = Weights(first, jnp.ones(()), jnp.zeros(()))

    rows = jax.random.randint(order, (steps, BATCH), 0, len(inputs))
    weights, loss = step(weights, inputs[rows[0]], labels[rows[0]])  # compiles
    begin = time.perf_counter()
    for at in range(1, steps):
        weights, loss = step(weights, inputs[rows[at]], labels[rows[at]])
        if at % 100 == 0:
            print(f"step {at}: loss {loss:.3f}")
    jax.block_until_ready(weights)
    seconds = (time.perf_counter() - begin) / max(1, steps - 1)
    accuracy = jnp.mean(jnp.sign(predict(weights, inputs)) == labels)
    print(f"accuracy {accuracy:.2f}, {seconds * 1e3:.2f} ms per step")


if __name__ == "__main__":
    main()
