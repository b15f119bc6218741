"""Gradients of pulses: qfleet.pulses, JAX, dynamiqs, SuperGrad and PennyLane's qml.pulse.

    .venv-peers/bin/python -m benchmarks.pulses

The infidelity of a gate and its gradient by all amplitudes: 5,000 piecewise constant samples of I
and Q of each qubit, in complex128, in the rotating frame with one exact exponential per sample. The
peers compute the same Hamiltonians:

    JAX          jax.grad of a product of jax.scipy.linalg.expm: all exponentials in one batch, then
                 jax.lax.scan, compiled
    dynamiqs     its `sepropagator` with the method `Expm`, if it is installed
    SuperGrad    its `sesolve` with one exponential per sample, if it is installed
    qml.pulse    qml.evolve with qml.pulse.pwc: an adaptive integration, for qubits of two levels.
                 It takes long: it has `--qml-samples` of the samples, and of the duration. Its time
                 is scaled by the number of samples.

All take turns; a time is the least of the rounds, without the first call, which compiles. Values
and gradients are compared first. The last lines are the mean over 64 perturbed devices, with 200
samples.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

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
from benchmarks.turns import least_seconds
from qfleet.engine import library
from qfleet.pulses import ControlChannel, Coupling, Grid, Propagator, Transmon, Transmons, drive
from qfleet.pulses.fidelity import GateFidelity

SAMPLES, FEW_SAMPLES, DT = 5_000, 200, 0.02
ROUNDS, DEVICES = 5, 64
Packages = dict[str, ModuleType]


@dataclass(frozen=True)
class PulseCase:
    """Qubits in a chain.

    Attributes:
        qubits: Number of qubits.
        levels: Levels of each.
    """

    qubits: int
    levels: int

    @property
    def device(self) -> Transmons:
        """Qubits of one drive frequency, detuned from it, so that the frame is static."""
        qubits = tuple(
            Transmon(5.0 + 0.02 * at, -0.3, self.levels, drive_frequency=5.0)
            for at in range(self.qubits)
        )
        return Transmons(
            qubits, tuple(Coupling(at, at + 1, 0.005) for at in range(self.qubits - 1))
        )

    @property
    def channels(self) -> tuple[ControlChannel, ...]:
        """I and Q of each qubit."""
        return tuple(one for at in range(self.qubits) for one in drive(at))

    @property
    def target(self) -> np.ndarray:
        """X on every qubit."""
        gate = np.eye(1)
        for _ in range(self.qubits):
            gate = np.kron(gate, [[0, 1], [1, 0]])
        return gate

    def __str__(self) -> str:
        return f"{self.qubits} x {self.levels} levels"


CASES = (PulseCase(1, 2), PulseCase(1, 3), PulseCase(2, 2), PulseCase(2, 3), PulseCase(3, 2))


def own(case: PulseCase, samples: int, devices: object = None) -> Gradient:
    """Return qfleet's mean infidelity over devices and its gradient."""
    grid = Grid(samples * DT, DT)
    propagator = Propagator(devices or case.device, case.channels, grid)
    fidelity = GateFidelity(case.target, propagator.levels)
    angles = np.zeros(case.qubits)

    def evaluate(amplitudes: np.ndarray) -> Evaluated:
        unitaries, pullback = propagator.with_pullback(amplitudes)
        batch = unitaries.reshape(-1, *unitaries.shape[-2:])
        found = fidelity.of_unitaries(batch, angles)
        upstream = -found.by_propagator.reshape(unitaries.shape) / len(batch)
        return 1 - found.fidelity.mean(), pullback(upstream)

    return evaluate


def infidelity(case: PulseCase, unitary: jax.Array) -> jax.Array:
    """Return the same infidelity in JAX."""
    places = GateFidelity(case.target, (case.levels,) * case.qubits)._places
    block = unitary[np.ix_(places, places)]
    d = len(places)
    overlap = jnp.abs(jnp.sum(case.target * block)) ** 2
    return 1 - (jnp.sum(jnp.abs(block) ** 2) + overlap) / (d * (d + 1))


def jax_gradient(case: PulseCase, device: Transmons | None = None) -> Gradient:
    """Return the product of exponentials in JAX."""
    matrices = jnp.asarray((device or case.device).hamiltonian(case.channels).matrices)

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        return infidelity(case, propagated(amplitudes, matrices))

    return compiled(evaluate)


def propagated(amplitudes: jax.Array, matrices: jax.Array) -> jax.Array:
    """Return the product of exponentials; the drives' matrices follow the static one."""
    exponents = matrices[0] + 0.5 * jnp.einsum("tk,kij->tij", amplitudes, matrices[1:])
    steps = jax.vmap(jax.scipy.linalg.expm)(-1j * DT * exponents)
    start = jnp.eye(matrices.shape[-1], dtype=jnp.complex128)
    total, _ = jax.lax.scan(lambda carry, step: (step @ carry, None), start, steps)
    return total


def dynamiqs_gradient(dq: ModuleType, case: PulseCase, samples: int) -> Gradient:
    """Return dynamiqs' propagator by exponentials."""
    matrices = case.device.hamiltonian(case.channels).matrices
    times = np.arange(samples + 1) * DT

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        total = dq.constant(matrices[0])
        for at, matrix in enumerate(matrices[1:]):
            total = total + dq.pwc(times, 0.5 * amplitudes[:, at], matrix)
        found = dq.sepropagator(
            total,
            np.array([0.0, times[-1]]),
            method=dq.method.Expm(),
            save_propagators=False,
            progress_meter=False,
        )
        return infidelity(case, found.final_propagator.to_jax())

    return compiled(evaluate)


def supergrad_gradient(supergrad: ModuleType, case: PulseCase, samples: int) -> Gradient:
    """Return SuperGrad's propagator by exponentials in the middle of each sample."""
    dims = [case.levels**case.qubits]
    static, *driven = (
        supergrad.KronObj([jnp.asarray(one)], dims)
        for one in case.device.hamiltonian(case.channels).matrices
    )
    times = jnp.array([0.0, samples * DT])

    def control(amplitudes: jax.Array, at: int) -> Callable[[jax.Array, object], jax.Array]:
        return lambda time, _args: 0.5 * amplitudes[(time / DT).astype(int), at]

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        parts = [[one, control(amplitudes, at)] for at, one in enumerate(driven)]
        start = jnp.eye(dims[0], dtype=jnp.complex128)
        steps = {"astep": samples + 1}
        return infidelity(
            case, supergrad.sesolve([static, *parts], start, times, options=steps)[-1]
        )

    return compiled(evaluate)


def pennylane_gradient(case: PulseCase, samples: int) -> Gradient | None:
    """Return qml.pulse's evolution; None for more than two levels."""
    if case.levels > 2:
        return None
    matrices = np.asarray(case.device.hamiltonian(case.channels).matrices)
    duration = samples * DT
    wires = list(range(case.qubits))
    envelope = qml.pulse.pwc(duration)
    operators = [qml.Hermitian(matrix, wires) for matrix in matrices]
    total = operators[0] * 1.0
    for operator in operators[1:]:
        total = total + envelope * operator

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        evolution = qml.evolve(total)(list(0.5 * amplitudes.T), t=duration)
        return infidelity(case, evolution.matrix())

    return compiled(evaluate)


def compare(case: PulseCase, rounds: int, qml_samples: int, packages: Packages) -> None:
    """Print a line of a case."""
    random = np.random.default_rng(0)
    amplitudes = random.uniform(-0.1, 0.1, (SAMPLES, len(case.channels)))
    evaluate = own(case, SAMPLES)
    systems = {"JAX": jax_gradient(case)}
    for name, make in (("dynamiqs", dynamiqs_gradient), ("SuperGrad", supergrad_gradient)):
        if name.lower() in packages:
            systems[name] = make(packages[name.lower()], case, SAMPLES)
    wanted = evaluate(amplitudes)
    peers = [PulsePeer(name, one, amplitudes, wanted, 1e-8) for name, one in systems.items()]
    slow = pennylane_gradient(case, qml_samples)
    if slow is not None:
        few, scale = amplitudes[:qml_samples], SAMPLES / qml_samples
        peers.append(PulsePeer("qml.pulse", slow, few, own(case, qml_samples)(few), 1e-3, scale))
    report(case, evaluate, amplitudes, peers, rounds)


def jax_devices(case: PulseCase, devices: list[Transmons]) -> Gradient:
    """Return the mean infidelity over devices in JAX, by jax.vmap."""
    channels = case.channels
    matrices = jnp.stack([jnp.asarray(one.hamiltonian(channels).matrices) for one in devices])

    def evaluate(amplitudes: jax.Array) -> jax.Array:
        unitaries = jax.vmap(lambda one: propagated(amplitudes, one))(matrices)
        return jnp.mean(jax.vmap(lambda one: infidelity(case, one))(unitaries))

    return compiled(evaluate)


def compare_devices(case: PulseCase, rounds: int) -> None:
    """Print the time of a batch of perturbed devices, and of loops over them."""
    shifts, factors = np.linspace(-0.002, 0.002, 8), np.linspace(0.98, 1.02, 8)
    devices = case.device.perturbed(frequency=shifts, drive_strength=factors)
    assert len(devices) == DEVICES
    random = np.random.default_rng(0)
    amplitudes = random.uniform(-0.1, 0.1, (FEW_SAMPLES, len(case.channels)))
    batch, peer = own(case, FEW_SAMPLES, devices), jax_devices(case, devices)
    singles = [own(case, FEW_SAMPLES, one) for one in devices]
    single = jax_gradient(case, devices[0])
    PulsePeer("JAX", peer, amplitudes, batch(amplitudes), 1e-8).first_call()
    calls: list[Callable[[], object]] = [
        lambda: batch(amplitudes),
        lambda: [one(amplitudes) for one in singles],
        lambda: peer(amplitudes),
        lambda: [single(amplitudes) for _ in devices],
    ]
    for call in calls:
        call()
    times = least_seconds(calls, rounds)
    names = ("qfleet in a loop", "JAX's vmap", "JAX in a loop")
    others = [
        f"{name} {seconds * 1e3:,.0f} ms ({seconds / times[0]:,.1f})"
        for name, seconds in zip(names, times[1:], strict=True)
    ]
    print(f"{case!s:14} qfleet {times[0] * 1e3:.2f} ms, {', '.join(others)}", flush=True)


def main() -> None:
    """Print milliseconds, and ratios to qfleet's in parentheses."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pulses")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--qml-samples", type=int, default=100)
    parser.add_argument("--peers", nargs="*", default=OPTIONAL, choices=OPTIONAL)
    arguments = parser.parse_args()
    packages = optional_packages(arguments.peers)
    print(f"{SAMPLES:,} samples, {qfleet.num_threads()} threads, {library.instruction_set()}")
    for case in CASES:
        compare(case, arguments.rounds, arguments.qml_samples, packages)
    print(f"{DEVICES} perturbed devices, {FEW_SAMPLES} samples")
    for case in CASES[:4]:
        compare_devices(case, arguments.rounds)


if __name__ == "__main__":
    main()
