"""States of many driven qubits: against whole propagators, SciPy and differences; refusals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

from qfleet.errors import ArgumentError
from qfleet.pulses import (
    ControlChannel,
    Coupling,
    Grid,
    Propagator,
    SplitEvolution,
    Transmon,
    Transmons,
    drive,
    split_evolution,
    split_pulse,
)
from qfleet.pulses.hamiltonian import embedded, lowering

GRID = Grid(4, 0.5)


def chain(qubits: int, levels: int = 2, step: float = 0.05) -> Transmons:
    """Return qubits of different frequencies, with exchange and ZZ of neighbours."""
    listed = tuple(Transmon(5.0 + step * at, -0.3, levels) for at in range(qubits))
    pairs = tuple(Coupling(at, at + 1, exchange=0.02, zz=0.003) for at in range(qubits - 1))
    return Transmons(listed, pairs)


def controls(qubits: int) -> tuple[ControlChannel, ...]:
    return tuple(one for at in range(qubits) for one in drive(at, bound=1.0))


def drawn(channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.8, 0.8, (GRID.samples, channels))


def state_of(size: int) -> np.ndarray:
    generator = np.random.default_rng(9)
    found = generator.normal(size=size) + 1j * generator.normal(size=size)
    return found / np.linalg.norm(found)


@pytest.mark.parametrize(
    ("levels", "block"),
    [
        pytest.param(2, 2, marks=pytest.mark.exhaustive),
        (2, 4),
        pytest.param(3, 9, marks=pytest.mark.exhaustive),
    ],
)
def test_blocks_equal_the_propagator_of_all_qubits(levels: int, block: int) -> None:
    device, channels = chain(3, levels), (*controls(3), ControlChannel("detuning", (2,)))
    amplitudes, start = drawn(len(channels)), state_of(levels**3)
    whole = Propagator(device, channels, GRID, order=4, steps_per_sample=8)
    split = SplitEvolution(device, channels, GRID, block=block).within(1e-5, amplitudes, start)
    unitary, by_unitary = whole.with_pullback(amplitudes)
    found, by_state = split.with_pullback(amplitudes, start)
    np.testing.assert_allclose(found, unitary @ start, atol=1e-5)
    assert split.steps_per_sample > 1
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-10)
    upstream = state_of(levels**3)[::-1]
    wanted = by_unitary(np.outer(upstream, start.conj()))
    np.testing.assert_allclose(by_state(upstream), wanted, atol=1e-4)


def test_error_decreases_by_the_square_of_the_steps() -> None:
    channels, amplitudes = controls(3), drawn(6)
    errors = [
        SplitEvolution(chain(3), channels, GRID, steps, block=4).error(amplitudes)
        for steps in (4, 8)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_gradient_is_that_of_the_steps() -> None:
    channels, start, upstream = controls(5)[:7], state_of(32), state_of(32)[::-1]
    split = SplitEvolution(chain(5), channels, GRID, 2, block=4)
    amplitudes, direction = drawn(7), drawn(7, seed=1)
    gradient = split.with_pullback(amplitudes, start)[1](upstream)

    def loss(step: float) -> float:
        return float(np.vdot(upstream, split(amplitudes + step * direction, start)).real)

    h = 1e-3
    wanted = (8 * (loss(h) - loss(-h)) - loss(2 * h) + loss(-2 * h)) / (12 * h)
    assert (gradient * direction).sum() == pytest.approx(wanted, abs=1e-9)


def test_qubits_of_one_frame_equal_scipy() -> None:
    listed = (Transmon(5.0, -0.3, drive_frequency=5.01),) * 6
    device = Transmons(listed, tuple(Coupling(at, at + 1, exchange=0.01) for at in range(5)))
    grid, channels = Grid(2, 1), controls(6)
    amplitudes = drawn(12)[:2]
    found = SplitEvolution(device, channels, grid, 64)(amplitudes)
    lowers = [embedded(lowering(2), at, (2,) * 6) for at in range(6)]
    wanted = np.eye(64)[0].astype(complex)
    for row in amplitudes.reshape(2, 6, 2):
        energy = sum(
            -0.01 * 2 * np.pi * a.T @ a + i / 2 * (a + a.T) + 0.5j * q * (a.T - a)
            for a, (i, q) in zip(lowers, row, strict=True)
        )
        for a, b in itertools.pairwise(lowers):
            energy = energy + 2 * np.pi * 0.01 * (a.T @ b + b.T @ a)
        wanted = expm(-1j * energy) @ wanted
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("part", [1, 3])
def test_ranges_of_steps_equal_all_at_once(part: int, monkeypatch) -> None:
    device, channels, amplitudes = chain(3), controls(3)[:4], drawn(4)
    upstream, wanted = state_of(8), {}
    for size in (split_pulse.MAX_BYTES, 32 * 12 * part):  # three blocks of two levels
        monkeypatch.setattr(split_pulse, "MAX_BYTES", size)
        split = SplitEvolution(device, channels, GRID, 2, block=2)
        state, pullback = split.with_pullback(amplitudes, state_of(8))
        wanted[size] = state, pullback(upstream)
    for each, other in zip(*wanted.values(), strict=True):
        np.testing.assert_allclose(each, other, atol=1e-13)


def test_trajectories_have_the_density_matrix_of_the_whole() -> None:
    qubits = tuple(replace(one, t1=20, t2=12 + 8 * at) for at, one in enumerate(chain(2).qubits))
    device, channels, amplitudes = replace(chain(2), qubits=qubits), controls(2), drawn(4)
    split = SplitEvolution(device, channels, GRID, 4, block=2)
    start = np.eye(4)[3]
    states = split.trajectories(amplitudes, 3000, seed=1, state=start)
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1)
    found = np.einsum("ka,kb->ab", states, states.conj()) / len(states)
    whole = Propagator(device, channels, GRID, order=4, steps_per_sample=4, decay=True)
    wanted = whole(amplitudes)[:, 15].reshape(4, 4)
    pure = split(amplitudes, start)
    assert np.abs(wanted - np.outer(pure, pure.conj())).max() > 0.08
    np.testing.assert_allclose(found, wanted, atol=0.04)
    few = [split.trajectories(amplitudes, 5, seed=2) for _ in range(2)]
    np.testing.assert_array_equal(*few)


def test_state_of_eleven_qubits_keeps_its_norm() -> None:
    large = SplitEvolution(chain(11), controls(11), Grid(1, 1))
    assert np.linalg.norm(large(drawn(22)[:1])) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"device": replace(chain(3), rotating_wave=False)}, "rotating_wave"),
        ({"device": chain(15)}, "32,768 levels"),
        ({"channels": (ControlChannel("coupler", (1, 2)),), "block": 4}, "different blocks"),
        ({"channels": drive(3)}, "last qubit of the device is 2"),
        ({"block": 1}, "block"),
        ({"steps_per_sample": 1 << 20}, "steps_per_sample"),
    ],
)
def test_impossible_evolutions_are_refused(change: dict[str, object], words: str) -> None:
    given = {"device": chain(3), "channels": controls(3), "grid": GRID}
    with pytest.raises(ArgumentError, match=words):
        SplitEvolution(**{**given, **change})


def test_wrong_arrays_and_steps_too_coarse_are_refused(monkeypatch) -> None:
    split = SplitEvolution(chain(3), controls(3), GRID, block=4)
    with pytest.raises(ArgumentError, match="amplitudes"):
        split(drawn(5))
    with pytest.raises(ArgumentError, match="state"):
        split(drawn(6), np.ones(4))
    with pytest.raises(ArgumentError, match="bound"):
        split(3 * drawn(6))
    with pytest.raises(ArgumentError, match="count"):
        split.trajectories(drawn(6), 0)
    monkeypatch.setattr(split_evolution, "MAX_STEPS", 32)
    with pytest.raises(ArgumentError, match="tolerance is 0, but 2 steps"):
        split.within(0.0, drawn(6))
