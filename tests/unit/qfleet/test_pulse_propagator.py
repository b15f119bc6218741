"""Propagators of pulses against SciPy's exponentials, its integrator and finite differences."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import qfleet
from qfleet.errors import ArgumentError
from qfleet.pulses import (
    Atoms,
    BSplineSeries,
    ControlChannel,
    Coupling,
    Drag,
    FlatTop,
    Grid,
    Propagator,
    Pulse,
    Transmon,
    Transmons,
    drive,
    native,
)
from tests.support import pulse_reference

RANDOM = np.random.default_rng(7)
QUTRIT = Transmon(frequency=1.1, anharmonicity=-0.25, levels=3)
OTHER = Transmon(frequency=1.25, anharmonicity=-0.2, levels=3)
QUBIT = replace(QUTRIT, levels=2, drive_frequency=1.07)
PAIR = (Coupling(0, 1, exchange=0.02, zz=0.001),)
CHAIN = (Coupling(0, 1, exchange=0.03), Coupling(2, 1, exchange=0.02))
DEVICES = {
    "qutrit": (QUTRIT,),
    "qubit": (QUBIT,),
    "ladder": (replace(QUTRIT, levels=5),),
    "pair": (QUTRIT, OTHER),
    "chain": (QUBIT, replace(OTHER, levels=2), replace(QUTRIT, levels=2)),
}


def transmons(name: str, *, rotating_wave: bool = True) -> Transmons:
    qubits = DEVICES[name]
    couplings = {1: (), 2: PAIR, 3: CHAIN}[len(qubits)]
    return Transmons(qubits, couplings, rotating_wave)


def channels_of(device: Transmons) -> tuple[ControlChannel, ...]:
    """Return I and Q of each qubit, a detuning of the last one, and a coupler of the first two."""
    count = len(device.qubits)
    found = [one for at in range(count) for one in drive(at)]
    found.append(ControlChannel("detuning", (count - 1,)))
    if count > 1:
        found.append(ControlChannel("coupler", (1, 0)))
    return tuple(found)


def random_matrices(shape: tuple[int, ...], *, unitary: bool) -> np.ndarray:
    found = RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)
    found *= RANDOM.uniform(size=shape) < 0.6
    if unitary:
        found = (found - found.conj().swapaxes(-1, -2)) / 2
    return found


def draw_amplitudes(propagator: Propagator, *shape: int) -> np.ndarray:
    size = (*shape, propagator.grid.samples, len(propagator.channels))
    return RANDOM.uniform(-0.6, 0.6, size)


def overlap(unitaries: np.ndarray, upstream: np.ndarray) -> float:
    return float(np.vdot(upstream, unitaries).real)


def differences(
    propagator: Propagator, amplitudes: np.ndarray, upstream: np.ndarray, places: list[tuple]
) -> list[float]:
    """Return central differences of order 4 by the amplitudes at some places."""
    found, step = [], 1e-3
    for place in places:
        values = []
        for shift in (-2, -1, 1, 2):
            moved = amplitudes.copy()
            moved[place] += shift * step
            values.append(overlap(propagator(moved), upstream))
        found.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step))
    return found


@pytest.mark.parametrize("unitary", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 27])
def test_products_and_gradients_agree_with_scipy(size: int, unitary: bool) -> None:
    matrices = random_matrices((2, 3, size, size), unitary=unitary) / size
    coefficients = RANDOM.normal(size=(1, 5, 3)) * 0.5
    found = native.products(matrices, coefficients, unitary=unitary)
    wanted = pulse_reference.products(matrices, coefficients)
    np.testing.assert_allclose(native.joined(found), wanted, atol=2e-13)
    upstream = random_matrices(wanted.shape, unitary=False) / size
    seeds = native.seeds(found, upstream)
    gradient = native.gradient(matrices, coefficients, seeds, unitary=unitary)
    wanted = pulse_reference.gradients(matrices, coefficients, upstream)
    np.testing.assert_allclose(gradient, wanted, atol=5e-13)


@pytest.mark.parametrize("norm", [1e-9, 1e-3, 0.1, 1, 5, 40])
def test_step_of_any_norm_agrees_with_scipy(norm: float) -> None:
    matrices = random_matrices((1, 1, 6, 6), unitary=True)
    matrices *= norm / np.linalg.norm(matrices[0, 0], 2)
    coefficients = np.ones((1, 1, 1))
    found = native.products(matrices, coefficients, unitary=True)
    np.testing.assert_allclose(found[0, 0], expm(matrices[0, 0]), atol=1e-13 * max(1, norm))
    upstream = random_matrices((1, 6, 6), unitary=False)
    gradient = native.gradient(matrices, coefficients, native.seeds(found, upstream), unitary=True)
    wanted = pulse_reference.gradients(matrices, coefficients, upstream)
    np.testing.assert_allclose(gradient, wanted, atol=1e-13 * max(1, norm))


@pytest.mark.parametrize("examples", [1, 3, 8, 21])
@pytest.mark.parametrize("steps", [1, 7, 61])
def test_products_are_the_same_for_any_batch(examples: int, steps: int) -> None:
    matrices = random_matrices((1, 2, 3, 3), unitary=True)
    coefficients = RANDOM.normal(size=(examples, steps, 2))
    found = native.products(matrices, coefficients, unitary=True)
    wanted = pulse_reference.products(matrices, coefficients)
    np.testing.assert_allclose(native.joined(found), wanted, atol=1e-12)


@pytest.mark.parametrize("rotating_wave", [True, False])
@pytest.mark.parametrize("name", DEVICES)
def test_unitary_agrees_with_integration(name: str, rotating_wave: bool) -> None:
    device = transmons(name, rotating_wave=rotating_wave)
    grid = Grid(duration=3, dt=0.5)
    propagator = Propagator(device, channels_of(device), grid, order=4)
    amplitudes = draw_amplitudes(propagator)
    propagator = propagator.within(1e-8, amplitudes)
    wanted = pulse_reference.integrated(device, propagator.channels, grid, amplitudes)
    np.testing.assert_allclose(propagator(amplitudes), wanted, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_random_device_and_pulse_agree_with_integration(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 1 + seed % 2
    qubits = tuple(
        Transmon(
            frequency=random.uniform(0.7, 1.5),
            anharmonicity=random.uniform(-0.4, -0.1),
            levels=int(random.integers(2, 4)),
            drive_frequency=random.choice([None, random.uniform(0.7, 1.5)]),
            drive_strength=random.uniform(0.9, 1.1),
        )
        for _ in range(count)
    )
    couplings = [Coupling(0, 1, *random.uniform(-0.05, 0.05, 2))] if count > 1 else []
    device = Transmons(qubits, tuple(couplings), rotating_wave=bool(seed % 3))
    dt = random.choice([0.25, 0.4])
    grid = Grid(int(random.integers(4, 12)) * dt, dt)
    parts = [(Drag(grid), drive(0)), (BSplineSeries(grid, 3), drive(count - 1)[0])]
    pulse = Pulse([*parts, (FlatTop(grid), ControlChannel("detuning", (count - 1,)))])
    values = random.uniform(*np.array(pulse.bounds).T * 0.3)
    values[1] = grid.duration / 4  # sigma, so that Q is below its bound
    values[[len(values) - 2, len(values) - 1]] = grid.duration / 3, grid.dt
    amplitudes = pulse.sample(values)
    propagator = Propagator(device, pulse.channels, grid, order=4).within(1e-8, amplitudes)
    wanted = pulse_reference.integrated(device, pulse.channels, grid, amplitudes)
    np.testing.assert_allclose(propagator(amplitudes), wanted, atol=1e-6)


@pytest.mark.parametrize("order", [2, 4])
def test_error_falls_with_the_order(order: int) -> None:
    device = transmons("pair", rotating_wave=False)
    grid = Grid(duration=2, dt=0.5)
    steps = {2: (16, 32), 4: (8, 16)}[order]
    coarse, fine, exact = (
        Propagator(device, channels_of(device), grid, wanted, one)
        for wanted, one in ((order, steps[0]), (order, steps[1]), (4, 256))
    )
    amplitudes = draw_amplitudes(coarse)
    errors = [np.abs(one(amplitudes) - exact(amplitudes)).max() for one in (coarse, fine)]
    assert errors[0] / errors[1] == pytest.approx(2**order, rel=0.2)
    assert coarse.error(amplitudes) == pytest.approx(errors[0], rel=0.1)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize(
    ("name", "decay"),
    [("qutrit", False), ("qubit", False), ("chain", False), ("qutrit", True), ("qubit", True)],
)
def test_gradient_agrees_with_differences(name: str, order: int, decay: bool) -> None:
    device = transmons(name, rotating_wave=False)
    device = replace(device, qubits=tuple(replace(one, t1=40, t2=30) for one in device.qubits))
    grid = Grid(duration=2, dt=0.5)
    propagator = Propagator(device, channels_of(device), grid, order, 3, decay)
    amplitudes = draw_amplitudes(propagator)
    unitaries, pullback = propagator.with_pullback(amplitudes)
    upstream = random_matrices(unitaries.shape, unitary=False) / len(unitaries)
    gradient = pullback(upstream)
    places = [(0, 0), (1, 1), (3, len(propagator.channels) - 1)]
    wanted = differences(propagator, amplitudes, upstream, places)
    np.testing.assert_allclose([gradient[place] for place in places], wanted, atol=1e-7)


def test_devices_of_a_batch_equal_single_ones() -> None:
    device = transmons("pair")
    devices = device.perturbed(frequency=[-0.002, 0.001], drive_strength=[0.99, 1, 1.02])
    assert len(devices) == 6
    grid = Grid(duration=4, dt=0.25)
    propagator = Propagator(devices, channels_of(device), grid, order=4)
    amplitudes = draw_amplitudes(propagator)
    unitaries, pullback = propagator.with_pullback(amplitudes)
    upstream = random_matrices(unitaries.shape, unitary=False)
    total = np.zeros_like(amplitudes)
    for at, one in enumerate(devices):
        single = Propagator(one, propagator.channels, grid, order=4)
        unitary, single_pullback = single.with_pullback(amplitudes)
        np.testing.assert_allclose(unitaries[at], unitary, atol=1e-12)
        total += single_pullback(upstream[at])
    np.testing.assert_allclose(pullback(upstream), total, atol=1e-11)


def test_pulses_of_a_batch_equal_single_ones() -> None:
    device = transmons("qutrit")
    propagator = Propagator(device, drive(0), Grid(duration=4, dt=0.25))
    amplitudes = draw_amplitudes(propagator, 5)
    unitaries, pullback = propagator.with_pullback(amplitudes)
    upstream = random_matrices(unitaries.shape, unitary=False)
    gradients = pullback(upstream)
    for at, one in enumerate(amplitudes):
        unitary, single_pullback = propagator.with_pullback(one)
        np.testing.assert_allclose(unitaries[at], unitary, atol=1e-12)
        np.testing.assert_allclose(gradients[at], single_pullback(upstream[at]), atol=1e-12)


def test_long_pulse_stays_unitary() -> None:
    device = transmons("pair", rotating_wave=False)
    propagator = Propagator(
        device, channels_of(device), Grid(200, 0.5), order=2, steps_per_sample=25
    )
    unitary = propagator(draw_amplitudes(propagator))
    np.testing.assert_allclose(unitary.conj().T @ unitary, np.eye(9), atol=1e-10)


def test_results_are_the_same_for_any_threads() -> None:
    propagator = Propagator(transmons("qutrit"), drive(0), Grid(40, 0.25))
    amplitudes = draw_amplitudes(propagator)
    wanted, threads = propagator(amplitudes), qfleet.num_threads()
    try:
        for count in (1, 3):
            qfleet.set_num_threads(count)
            np.testing.assert_allclose(propagator(amplitudes), wanted, atol=1e-12)
    finally:
        qfleet.set_num_threads(threads)


def test_decay_without_drive_has_its_known_times() -> None:
    one = Transmon(frequency=5, t1=100, t2=60)
    propagator = Propagator(Transmons((one,)), drive(0), Grid(30, 1), decay=True)
    channel = propagator(np.zeros((30, 2)))
    excited, coherent = np.zeros(4), np.array([0, 1, 0, 0])
    excited[3] = 1
    assert (channel @ excited)[3] == pytest.approx(np.exp(-30 / 100), abs=1e-12)
    assert (channel @ coherent)[1] == pytest.approx(np.exp(-30 / 60), abs=1e-12)


@pytest.mark.exhaustive
def test_decay_keeps_the_trace_and_long_times_equal_unitary() -> None:
    device = transmons("pair")
    grid = Grid(20, 0.5)
    pulse = Propagator(device, channels_of(device), grid, order=4)
    amplitudes = draw_amplitudes(pulse)
    unitary = pulse(amplitudes)
    channel = replace(pulse, decay=True)(amplitudes)
    np.testing.assert_allclose(channel, np.kron(unitary, unitary.conj()), atol=1e-10)
    short = replace(device, qubits=tuple(replace(one, t1=50, t2=20) for one in device.qubits))
    decayed = Propagator(short, pulse.channels, grid, order=4, decay=True)(amplitudes)
    trace = np.eye(9).ravel()
    np.testing.assert_allclose(trace @ decayed, trace, atol=1e-10)


def test_atoms_within_the_blockade_share_an_excitation() -> None:
    atoms = Atoms(((0, 0), (4, 0)))
    rate = 0.01  # rad/ns, far below the interaction of 1.3 rad/ns
    duration = np.pi / (np.sqrt(2) * rate)  # Rabi oscillations are faster by sqrt(2)
    grid = Grid(duration, duration / 8)
    propagator = Propagator(atoms, drive(0, 1), grid)
    found = propagator(np.tile([rate, 0], (8, 1)))[:, 0]
    np.testing.assert_allclose(np.abs(found) ** 2, [0, 0.5, 0.5, 0], atol=2e-3)


def test_within_refuses_an_error_that_steps_do_not_reach() -> None:
    device = transmons("qubit", rotating_wave=False)
    propagator = Propagator(device, drive(0), Grid(2, 1))
    with pytest.raises(ArgumentError, match="order=4"):
        propagator.within(1e-15, draw_amplitudes(propagator))


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("multiple of dt", lambda: Grid(10.3, 0.5)),
    ("duration", lambda: Grid(-1, 0.5)),
    ("seconds", lambda: Grid(16e-9, 0.5e-9)),
    ("which looks like Hz", lambda: Transmon(frequency=5e9)),
    ("anharmonicity", lambda: Transmon(5, -0.3e9, 3)),
    ("3 levels", lambda: Transmon(5, levels=3)),
    ("levels", lambda: Transmon(5, -0.3, levels=9)),
    ("twice t1", lambda: Transmon(5, t1=100, t2=201)),
    ("50 us", lambda: Transmon(5, t1=5e-5)),
    ("drive_strength", lambda: Transmon(5, drive_strength=0)),
    ("device is 1", lambda: Transmons((QUBIT, QUBIT), (Coupling(0, 2),))),
    ("again", lambda: Transmons((QUBIT, QUBIT), (Coupling(0, 1), Coupling(1, 0)))),
    ("itself", lambda: Coupling(1, 1)),
    ("exchange", lambda: Coupling(0, 1, exchange=5e6)),
    ("at most 27", lambda: Propagator(Transmons((QUTRIT,) * 4), drive(0), Grid(1, 1))),
    ("device is 0", lambda: Propagator(Transmons((QUBIT,)), drive(1), Grid(1, 1))),
    ("this device has", lambda: Propagator(Atoms(((0, 0), (5, 0))), [COUPLER], Grid(1, 1))),
    ("with decay", lambda: Propagator(Transmons((QUTRIT,) * 3), drive(0), Grid(1, 1), decay=True)),
    ("order", lambda: Propagator(Transmons((QUBIT,)), drive(0), Grid(1, 1), order=3)),  # type: ignore[arg-type]
    ("um apart", lambda: Atoms(((0, 0), (1e-6, 0)))),
    ("c6", lambda: Atoms(((0, 0),), c6=5e9)),
    ("bound", lambda: ControlChannel("in_phase", (0,), bound=0)),
    ("pass two", lambda: ControlChannel("coupler", (0,))),
    ("kind", lambda: ControlChannel("flux", (0,))),  # type: ignore[arg-type]
    (
        "other levels",
        lambda: Propagator([Transmons((QUBIT,)), Transmons((QUTRIT,))], drive(0), Grid(1, 1)),
    ),
]
COUPLER = ControlChannel("coupler", (0, 1))


@pytest.mark.parametrize(("words", "make"), WRONG, ids=[words for words, _ in WRONG])
def test_wrong_arguments_are_one_sentence(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


def test_amplitudes_above_the_bound_are_refused() -> None:
    propagator = Propagator(Transmons((QUBIT,)), drive(0, bound=0.5), Grid(4, 1))
    with pytest.raises(ArgumentError, match=r"above the bound of 0\.5"):
        propagator(np.full((4, 2), 0.6))
    with pytest.raises(ArgumentError, match="4 samples and 2 channels"):
        propagator(np.zeros((3, 2)))
