"""Unitaries and gradients of random devices and pulses: those of dynamiqs and of SuperGrad.

Both are optional, and not in the locked environments: `pip install dynamiqs supergrad`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    CosineSeries,
    Coupling,
    Drag,
    Envelope,
    FlatTop,
    Gaussian,
    Grid,
    Propagator,
    Pulse,
    Transmon,
    Transmons,
    drive,
)

TURN = 2 * np.pi
LEVELS = [(2,), (3,), (2, 2), (2, 3), (3, 3), (2, 2, 2)]
SHAPES: tuple[type[Envelope], ...] = (Gaussian, FlatTop, CosineSeries, BSplineSeries)
pytestmark = pytest.mark.parametrize("levels", LEVELS, ids=lambda one: "x".join(map(str, one)))


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Yield a package, in double precision; SuperGrad sets it for the whole process."""
    before = jax.config.jax_enable_x64
    yield pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("peer", ["dynamiqs"], indirect=True)
@pytest.mark.parametrize("frame", ["one frame", "frames"])
def test_pulses_equal_dynamiqs(peer: ModuleType, frame: str, levels: tuple[int, ...]) -> None:
    device = random_device(levels, drive_frequency=5.0 if frame == "one frame" else None)

    def evolve(pulse: Pulse, amplitudes: jax.Array) -> jax.Array:
        return of_dynamiqs(peer, device, pulse, amplitudes)

    compare(device, evolve)


@pytest.mark.parametrize("peer", ["supergrad"], indirect=True)
def test_pulses_equal_supergrad(peer: ModuleType, levels: tuple[int, ...]) -> None:
    device = random_device(levels, drive_frequency=5.0)

    def evolve(pulse: Pulse, amplitudes: jax.Array) -> jax.Array:
        return of_supergrad(peer, device, pulse, amplitudes)

    compare(device, evolve)


def compare(device: Transmons, evolve: Callable[[Pulse, jax.Array], jax.Array]) -> None:
    """Compare unitaries, and gradients of Re tr W^dagger U by all amplitudes and numbers."""
    random = np.random.default_rng([7, *device.levels])
    pulse = random_pulse(device, random)
    values = random.uniform(*np.array(pulse.bounds).T * 0.4)
    values[1] = pulse.grid.duration / 4  # sigma of Drag, so that Q is below its bound
    amplitudes = pulse.sample(values)
    propagator = Propagator(device, pulse.channels, pulse.grid, order=4).within(1e-9, amplitudes)
    found, pullback = propagator.with_pullback(amplitudes)
    upstream = random.normal(size=(2, *found.shape)) / len(found)
    upstream = upstream[0] + 1j * upstream[1]

    def loss(amplitudes: jax.Array) -> tuple[jax.Array, jax.Array]:
        unitary = evolve(pulse, amplitudes)
        return jnp.vdot(upstream, unitary).real, unitary

    with jax.enable_x64(True):
        differentiated = jax.jit(jax.value_and_grad(loss, has_aux=True))
        (_, unitary), by_amplitudes = differentiated(jnp.asarray(amplitudes))
    np.testing.assert_allclose(found, unitary, atol=1e-6)
    gradient = pullback(upstream)
    np.testing.assert_allclose(gradient, by_amplitudes, atol=1e-6)
    assert np.abs(gradient).max() > 1e-2
    wanted = pulse.vjp(values, np.asarray(by_amplitudes))
    np.testing.assert_allclose(pulse.vjp(values, gradient), wanted, atol=1e-6 * len(amplitudes))


def random_device(levels: tuple[int, ...], drive_frequency: float | None) -> Transmons:
    """Return coupled transmons; each has a frame of its own unless a frequency is given."""
    random = np.random.default_rng(levels)
    qubits = [
        Transmon(
            frequency=random.uniform(4.9, 5.1),
            anharmonicity=random.uniform(-0.4, -0.1),
            levels=count,
            drive_frequency=drive_frequency or random.uniform(4.9, 5.1),
            drive_strength=random.uniform(0.9, 1.1),
        )
        for count in levels
    ]
    pairs = [Coupling(at, at + 1, *random.uniform(-0.03, 0.03, 2)) for at in range(len(levels) - 1)]
    return Transmons(tuple(qubits), tuple(pairs))


def random_pulse(device: Transmons, random: np.random.Generator) -> Pulse:
    """Return DRAG on the first qubit, other shapes on the rest, and a detuning of the last one."""
    dt = random.choice([0.25, 0.4])
    grid = Grid(int(random.integers(8, 20)) * dt, dt)
    last = len(device.levels) - 1
    parts = [(Drag(grid), drive(0))]
    for at in range(1, last + 1):
        for channel in drive(at):
            parts.append((shape(random, grid), channel))
    return Pulse([*parts, (shape(random, grid), ControlChannel("detuning", (last,)))])


def shape(random: np.random.Generator, grid: Grid) -> Envelope:
    kind = SHAPES[random.integers(len(SHAPES))]
    return kind(grid, 4) if kind in (CosineSeries, BSplineSeries) else kind(grid)


@dataclass(frozen=True)
class Terms:
    """The Hamiltonian in the rotating frame, written down a second time.

    Attributes:
        static: [D, D] in rad/ns.
        exchanges: Angular frequencies in rad/ns, and the matrices a^dagger b that they turn.
        driven: Matrices that each channel's amplitude multiplies.
    """

    static: np.ndarray
    exchanges: list[tuple[float, np.ndarray]]
    driven: list[np.ndarray]


def terms_of(device: Transmons, channels: tuple[ControlChannel, ...]) -> Terms:
    lowers = []
    for at, count in enumerate(device.levels):
        factors = [np.eye(one) for one in device.levels]
        factors[at] = np.diag(np.sqrt(np.arange(1, count)), 1)
        lowers.append(reduce(np.kron, factors))
    numbers = [lower.T @ lower for lower in lowers]
    static = np.zeros_like(lowers[0], np.complex128)
    for one, number in zip(device.qubits, numbers, strict=True):
        static += TURN * (one.frequency - one.frame) * number
        static += TURN * one.anharmonicity / 2 * (number @ number - number)
    exchanges = []
    for pair in device.couplings:
        static += TURN * pair.zz * numbers[pair.first] @ numbers[pair.second]
        first, second = (device.qubits[at].frame for at in (pair.first, pair.second))
        product = lowers[pair.first].T @ lowers[pair.second]
        exchanges.append((TURN * (first - second), TURN * pair.exchange * product))
    driven = []
    for channel in channels:
        (at,) = channel.qubits
        lower, half = lowers[at], device.qubits[at].drive_strength / 2
        by_kind = {
            "in_phase": half * (lower + lower.T),
            "quadrature": 1j * half * (lower.T - lower),
            "detuning": -numbers[at],
        }
        driven.append(by_kind[channel.kind].astype(np.complex128))
    return Terms(static, exchanges, driven)


def of_dynamiqs(
    dq: ModuleType, device: Transmons, pulse: Pulse, amplitudes: jax.Array
) -> jax.Array:
    """Return the unitary of dynamiqs: by exponentials in one frame, else by integration."""
    terms = terms_of(device, pulse.channels)
    times = np.arange(pulse.grid.samples + 1) * pulse.grid.dt
    total, is_static = dq.constant(terms.static), True
    for frequency, matrix in terms.exchanges:
        if frequency:
            is_static = False
            total = total + dq.modulated(partial(turned, frequency), matrix)
            total = total + dq.modulated(partial(turned, -frequency), matrix.T)
        else:
            total = total + dq.constant(matrix + matrix.T)
    for at, matrix in enumerate(terms.driven):
        total = total + dq.pwc(times, amplitudes[:, at], matrix)
    method = dq.method.Expm() if is_static else dq.method.Dopri8(rtol=1e-9, atol=1e-9)
    found = dq.sepropagator(
        total, times[[0, -1]], method=method, save_propagators=False, progress_meter=False
    )
    return found.final_propagator.to_jax()


def turned(frequency: float, time: jax.Array) -> jax.Array:
    return jnp.exp(1j * frequency * time)


def of_supergrad(
    supergrad: ModuleType, device: Transmons, pulse: Pulse, amplitudes: jax.Array
) -> jax.Array:
    """Return the unitary of SuperGrad: one exponential in the middle of each sample."""
    terms, dt = terms_of(device, pulse.channels), pulse.grid.dt
    dims = [len(terms.static)]
    static = terms.static + sum(matrix + matrix.T for _, matrix in terms.exchanges)

    def control(at: int) -> Callable[[jax.Array, object], jax.Array]:
        return lambda time, args: amplitudes[(time / dt).astype(int), at]

    hamiltonian = [supergrad.KronObj([jnp.asarray(static)], dims)]
    for at, matrix in enumerate(terms.driven):
        hamiltonian.append([supergrad.KronObj([jnp.asarray(matrix)], dims), control(at)])
    start = jnp.eye(dims[0], dtype=jnp.complex128)
    times = jnp.array([0.0, pulse.grid.duration])
    found = supergrad.sesolve(hamiltonian, start, times, options={"astep": pulse.grid.samples + 1})
    return found[-1]
