"""Gradients of chains of 1 to 11 driven qubits: qfleet.pulses.SplitEvolution and JAX.

    .venv-peers/bin/python -m benchmarks.driven_chains

The probability of the last basis state after a pulse, and its gradient by all amplitudes: 5,000
piecewise constant samples of I and Q of each qubit in complex128, one step of second order each, as
in the benchmark of SuperGrad (arXiv:2406.18155). The peer computes the same steps:

    JAX    one-qubit exponentials in one batch, then a jax.lax.scan over the steps, compiled. Its
           backward pass computes a step again where the states of all steps would be large.

Both take turns; a time is the least of the rounds, without the first call, which compiles. Values
and gradients are compared first.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import qfleet
from benchmarks.pulses import Gradient, PulseCase, check, compiled
from qfleet.engine import library
from qfleet.pulses import Grid, SplitEvolution

STEPS, DT, ROUNDS = 5_000, 0.02, 5
KEPT_QUBITS = 7  # whose states of all steps JAX keeps


def own(case: PulseCase, steps: int) -> Gradient:
    """Return the probability of the last basis state, and its gradient."""
    split = SplitEvolution(case.device, case.channels, Grid(steps * DT, DT), block=case.levels)

    def evaluate(amplitudes: np.ndarray) -> tuple[float, np.ndarray]:
        state, pullback = split.with_pullback(amplitudes)
        upstream = np.zeros_like(state)
        upstream[-1] = 2 * state[-1]
        return float(abs(state[-1]) ** 2), pullback(upstream)

    return evaluate


def jax_gradient(case: PulseCase) -> Gradient:
    """Return the same in JAX."""
    size, qubits = case.levels, case.qubits
    lower = np.diag(np.sqrt(np.arange(1, size)), 1)
    count = np.arange(size)
    drifts = np.stack(
        [
            2 * np.pi * np.diag((one.frequency - 5.0) * count - 0.15 * count * (count - 1))
            for one in case.device.qubits
        ]
    )
    drives = jnp.asarray([(lower + lower.T) / 2, 0.5j * (lower.T - lower)])
    exchange = np.kron(lower.T, lower)
    values, vectors = np.linalg.eigh(2 * np.pi * 0.005 * (exchange + exchange.T))
    half = jnp.asarray((vectors * np.exp(-0.5j * DT * values)) @ vectors.T)

    def apply(matrix: jax.Array, state: jax.Array, first: int) -> jax.Array:
        parts = state.reshape(size**first, len(matrix), -1)
        return jnp.einsum("ij,ajb->aib", matrix, parts).reshape(-1)

    def step(state: jax.Array, gates: jax.Array) -> tuple[jax.Array, None]:
        for at in range(qubits - 1):
            state = apply(half, state, at)
        for at in range(qubits):
            state = apply(gates[at], state, at)
        for at in reversed(range(qubits - 1)):
            state = apply(half, state, at)
        return state, None

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        pairs = amplitudes.reshape(len(amplitudes), qubits, 2)
        exponents = drifts + jnp.einsum("tqc,cij->tqij", pairs, drives)
        gates = jax.vmap(jax.vmap(jax.scipy.linalg.expm))(-1j * DT * exponents)
        start = jnp.zeros(size**qubits, jnp.complex128).at[0].set(1)
        scanned = step if qubits <= KEPT_QUBITS else jax.checkpoint(step)
        final, _ = jax.lax.scan(scanned, start, gates)
        return jnp.abs(final[-1]) ** 2

    return compiled(evaluate)


def least(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the least seconds of calls in turns."""
    found = [float("inf")] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            start = time.perf_counter()
            call()
            found[at] = min(found[at], time.perf_counter() - start)
    return found


def compare(case: PulseCase, steps: int, rounds: int) -> None:
    """Print a line of a case."""
    random = np.random.default_rng(0)
    amplitudes = random.uniform(-0.1, 0.1, (steps, len(case.channels)))
    split, peer = own(case, steps), jax_gradient(case)
    start = time.perf_counter()
    wanted = peer(amplitudes)
    first = time.perf_counter() - start
    check(split(amplitudes), wanted, 1e-9)
    mine, other = least([lambda: split(amplitudes), lambda: peer(amplitudes)], rounds)
    print(
        f"{case!s:14} qfleet {mine * 1e3:,.1f} ms, JAX {other * 1e3:,.0f} ms"
        f" ({other / mine:,.1f}); first call {first - other:.1f} s longer",
        flush=True,
    )


def main() -> None:
    """Print milliseconds, and ratios to qfleet's in parentheses."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driven_chains")
    parser.add_argument("--qubits", type=int, nargs="+", default=list(range(1, 12)))
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(f"{arguments.steps:,} steps, {qfleet.num_threads()} threads, {library.instruction_set()}")
    for qubits in arguments.qubits:
        compare(PulseCase(qubits, arguments.levels), arguments.steps, arguments.rounds)


if __name__ == "__main__":
    main()
