"""Gradients of chains of 1 to 11 driven qubits: qfleet.pulses.SplitEvolution and peers.

    .venv-peers/bin/python -m benchmarks.driven_chains

The mean number of excitations after a pulse on equal superpositions, and its gradient by all
amplitudes: 5,000 piecewise constant samples of I and Q of each qubit in complex128, one step of
second order each, as in the benchmark of SuperGrad (arXiv:2406.18155). The peers:

    JAX          the same steps: one-qubit exponentials in one batch, then a jax.lax.scan, compiled.
                 Its backward pass computes a step again where all states would be large.
    SuperGrad    the same steps by its `ode_expm` with `trotter_order=2`, if it is installed
    dynamiqs     its `sesolve` with the default integrator, if it is installed, up to 6 qubits

All take turns; a time is the least of the rounds, without the first call, which compiles. Values
and gradients are compared first.
"""

import argparse
from functools import reduce
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np

import qfleet
from benchmarks.pulse_peers import (
    OPTIONAL,
    Evaluated,
    Gradient,
    PulsePeer,
    compiled,
    optional_packages,
    report,
)
from benchmarks.pulses import Packages, PulseCase
from qfleet.engine import library
from qfleet.pulses import Grid, SplitEvolution

STEPS, DT, ROUNDS = 5_000, 0.02, 5
KEPT_QUBITS = 7  # whose states of all steps JAX keeps
DYNAMIQS_LEVELS = 64  # of all qubits: its matrices are dense


def start_of(case: PulseCase) -> np.ndarray:
    """Return the state at the start, [D] complex128."""
    size = case.levels**case.qubits
    return np.full(size, size**-0.5, np.complex128)


def excitations(case: PulseCase) -> np.ndarray:
    """Return the mean number of excitations in each basis state, [D]."""
    total = reduce(np.add.outer, [np.arange(case.levels)] * case.qubits)
    return np.ravel(total) / case.qubits


def own(case: PulseCase, steps: int) -> Gradient:
    """Return the mean number of excitations, and its gradient."""
    split = SplitEvolution(case.device, case.channels, Grid(steps * DT, DT), block=case.levels)
    start, weights = start_of(case), excitations(case)

    def evaluate(amplitudes: np.ndarray) -> Evaluated:
        state, pullback = split.with_pullback(amplitudes, start)
        return float(weights @ np.abs(state) ** 2), pullback(2 * weights * state)

    return evaluate


def one_qubit_parts(case: PulseCase) -> tuple[np.ndarray, np.ndarray]:
    """Return the static part of each qubit, [qubits, L, L], and the matrices of I and Q."""
    lower = np.diag(np.sqrt(np.arange(1, case.levels)), 1)
    count = np.arange(case.levels)
    drifts = [
        2 * np.pi * np.diag((one.frequency - 5.0) * count - 0.15 * count * (count - 1))
        for one in case.device.qubits
    ]
    return np.stack(drifts), np.stack([(lower + lower.T) / 2, 0.5j * (lower.T - lower)])


def exchange(case: PulseCase) -> np.ndarray:
    """Return the coupling of two neighbours, [L^2, L^2]."""
    lower = np.diag(np.sqrt(np.arange(1, case.levels)), 1)
    matrix = np.kron(lower.T, lower)
    return 2 * np.pi * 0.005 * (matrix + matrix.T)


def embedded(case: PulseCase, matrix: np.ndarray, first: int) -> np.ndarray:
    """Return a matrix of neighbours on all qubits, [D, D]."""
    before = case.levels**first
    after = case.levels**case.qubits // (before * len(matrix))
    return np.kron(np.kron(np.eye(before), matrix), np.eye(after))


def jax_gradient(case: PulseCase) -> Gradient:
    """Return the same in JAX."""
    size, qubits = case.levels, case.qubits
    drifts, drives = one_qubit_parts(case)
    values, vectors = np.linalg.eigh(exchange(case))
    half = jnp.asarray((vectors * np.exp(-0.5j * DT * values)) @ vectors.T)
    weights = excitations(case)

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
        scanned = step if qubits <= KEPT_QUBITS else jax.checkpoint(step)
        final, _ = jax.lax.scan(scanned, jnp.asarray(start_of(case)), gates)
        return weights @ jnp.abs(final) ** 2

    return compiled(evaluate)


def supergrad_gradient(supergrad: ModuleType, case: PulseCase, steps: int) -> Gradient:
    """Return the same steps of SuperGrad: couplings are the outer terms."""
    dims, pairs = [case.levels] * case.qubits, range(case.qubits - 1)
    drifts, drives = one_qubit_parts(case)
    coupling, weights = -1j * jnp.asarray(exchange(case)), excitations(case)
    start, times = jnp.asarray(start_of(case))[:, np.newaxis], jnp.array([0.0, steps * DT])

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        def generator(_state: jax.Array, time: jax.Array) -> object:
            controls = amplitudes[(time / DT).astype(int)].reshape(case.qubits, 2)
            ones = -1j * (drifts + jnp.einsum("qc,cij->qij", controls, drives))
            terms = [supergrad.KronObj([coupling], dims, [at, at + 1]) for at in pairs]
            terms += [supergrad.KronObj([one], dims, [at]) for at, one in enumerate(ones)]
            return sum(terms)

        evolve = supergrad.time_evolution.ode_expm
        states = evolve(generator, start, times, astep=steps + 1, trotter_order=2)
        return weights @ jnp.abs(states[-1, :, 0]) ** 2

    return compiled(evaluate)


def dynamiqs_gradient(dq: ModuleType, case: PulseCase, steps: int) -> Gradient:
    """Return dynamiqs' evolution of the state, by dense matrices."""
    drifts, drives = one_qubit_parts(case)
    qubits = range(case.qubits)
    static = sum(embedded(case, one, at) for at, one in enumerate(drifts))
    static = sum((embedded(case, exchange(case), at) for at in qubits[:-1]), static)
    driven = [embedded(case, one, at) for at in qubits for one in drives]
    times, weights = np.arange(steps + 1) * DT, excitations(case)
    start = start_of(case)[:, np.newaxis]

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        total = dq.constant(static)
        for at, matrix in enumerate(driven):
            total = total + dq.pwc(times, amplitudes[:, at], matrix)
        found = dq.sesolve(total, start, times[[0, -1]], save_states=False, progress_meter=False)
        return weights @ jnp.abs(found.final_state.to_jax()[:, 0]) ** 2

    return compiled(evaluate)


def compare(case: PulseCase, steps: int, rounds: int, packages: Packages) -> None:
    """Print a line of a case."""
    random = np.random.default_rng(0)
    amplitudes = random.uniform(-0.1, 0.1, (steps, len(case.channels)))
    evaluate = own(case, steps)
    wanted = evaluate(amplitudes)
    peers = [PulsePeer("JAX", jax_gradient(case), amplitudes, wanted, 1e-9)]
    if "supergrad" in packages:
        same_steps = supergrad_gradient(packages["supergrad"], case, steps)
        peers.append(PulsePeer("SuperGrad", same_steps, amplitudes, wanted, 1e-9))
    if "dynamiqs" in packages and case.levels**case.qubits <= DYNAMIQS_LEVELS:
        integrated = dynamiqs_gradient(packages["dynamiqs"], case, steps)
        peers.append(PulsePeer("dynamiqs", integrated, amplitudes, wanted, 1e-3))
    report(case, evaluate, amplitudes, peers, rounds)


def main() -> None:
    """Print milliseconds, and ratios to qfleet's in parentheses."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driven_chains")
    parser.add_argument("--qubits", type=int, nargs="+", default=list(range(1, 12)))
    parser.add_argument("--levels", type=int, default=2)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peers", nargs="*", default=OPTIONAL, choices=OPTIONAL)
    arguments = parser.parse_args()
    packages = optional_packages(arguments.peers)
    print(f"{arguments.steps:,} steps, {qfleet.num_threads()} threads, {library.instruction_set()}")
    for qubits in arguments.qubits:
        case = PulseCase(qubits, arguments.levels)
        compare(case, arguments.steps, arguments.rounds, packages)


if __name__ == "__main__":
    main()
