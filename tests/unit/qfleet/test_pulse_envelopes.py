"""Envelopes: exact Jacobians, bounds, filters and pulses on channels."""

from collections.abc import Callable

import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.pulses import (
    BSplineSeries,
    CosineSeries,
    Drag,
    Envelope,
    FlatTop,
    Gaussian,
    GaussianFilter,
    Grid,
    PiecewiseConstant,
    Pulse,
    drive,
)

GRID = Grid(20, 0.5)
ENVELOPES: list[tuple[Envelope, list[float]]] = [
    (PiecewiseConstant(Grid(2, 0.5)), [0.1, -0.2, 0.3, 0.4]),
    (Gaussian(GRID), [0.3, 4.0]),
    (Drag(GRID, anharmonicity=-0.25), [0.3, 4.5, 0.7]),
    (FlatTop(GRID), [0.2, 11.0, 2.0]),
    (CosineSeries(GRID, 3), [0.2, -0.1, 0.05]),
    (BSplineSeries(GRID, 5), [0.2, -0.1, 0.05, 0.3, 0.1]),
]
NAMES = [type(envelope).__name__ for envelope, _ in ENVELOPES]


@pytest.mark.parametrize(("envelope", "values"), ENVELOPES, ids=NAMES)
def test_jacobian_agrees_with_differences(envelope: Envelope, values: list[float]) -> None:
    found = envelope.jacobian(values)
    assert found.shape == (envelope.grid.samples, envelope.width, len(values))
    for at in range(len(values)):
        moved = [np.array(values), np.array(values)]
        moved[0][at] += 1e-5
        moved[1][at] -= 1e-5
        wanted = (envelope.sample(moved[0]) - envelope.sample(moved[1])) / 2e-5
        np.testing.assert_allclose(found[..., at], wanted, atol=1e-9)


@pytest.mark.parametrize(("envelope", "values"), ENVELOPES, ids=NAMES)
def test_vjp_is_the_transposed_jacobian(envelope: Envelope, values: list[float]) -> None:
    upstream = np.random.default_rng(1).normal(size=envelope.sample(values).shape)
    wanted = np.tensordot(upstream, envelope.jacobian(values), 2)
    np.testing.assert_allclose(envelope.vjp(values, upstream), wanted, atol=1e-14)


@pytest.mark.parametrize(("envelope", "values"), ENVELOPES, ids=NAMES)
def test_numbers_within_bounds_keep_the_limit(envelope: Envelope, values: list[float]) -> None:
    random = np.random.default_rng(2)
    lows, highs = np.array(envelope.bounds(0.4)).T
    assert len(lows) == len(envelope.names) == len(values)
    for _ in range(20):
        drawn = random.uniform(lows, highs)
        assert np.abs(envelope.sample(drawn)[:, 0]).max() <= 0.4 + 1e-12


@pytest.mark.parametrize("make", [Gaussian, Drag, CosineSeries, BSplineSeries])
def test_smooth_envelopes_begin_and_end_near_zero(make: Callable[[Grid], Envelope]) -> None:
    envelope = make(Grid(20, 0.01))
    values = [0.3] * len(envelope.names)
    if isinstance(envelope, Gaussian):
        values[1] = 5.0
    samples = envelope.sample(values)[:, 0]
    assert np.abs(samples[[0, -1]]).max() < 1e-3
    np.testing.assert_allclose(samples, samples[::-1], atol=1e-12)


def test_b_splines_sum_to_one_inside() -> None:
    envelope = BSplineSeries(Grid(100, 1), 9)
    inside = envelope.sample(np.ones(9))[25:75]
    np.testing.assert_allclose(inside, 1, atol=1e-12)


def test_drag_has_the_derivative_on_q() -> None:
    envelope = Drag(Grid(20, 0.01), anharmonicity=-0.3)
    in_phase, quadrature = envelope.sample([0.2, 4.0, 0.5]).T
    slope = np.gradient(in_phase, 0.01)
    wanted = 0.5 * slope / (2 * np.pi * 0.3)
    np.testing.assert_allclose(quadrature[1:-1], wanted[1:-1], atol=1e-6)


def test_filter_halves_the_power_at_its_bandwidth() -> None:
    grid = Grid(400, 0.25)
    wave = np.cos(2 * np.pi * 0.2 * grid.times)
    filtered = GaussianFilter(0.2).matrix(grid) @ wave
    middle = slice(600, 1000)
    np.testing.assert_allclose(filtered[middle], wave[middle] / np.sqrt(2), atol=1e-6)


@pytest.mark.parametrize("low_pass", [None, GaussianFilter(0.3)])
def test_pulse_adds_envelopes_and_has_their_vjp(low_pass: GaussianFilter | None) -> None:
    i, q = drive(0, bound=0.7)
    parts = [(Drag(GRID), (i, q)), (CosineSeries(GRID, 2), q), (FlatTop(GRID), drive(1)[0])]
    pulse = Pulse(parts, low_pass)
    values = np.array([0.2, 4.0, 0.5, 0.1, -0.1, 0.3, 9.0, 2.0])
    assert pulse.channels == (i, q, drive(1)[0])
    assert pulse.names[3:6] == ("1.c1", "1.c2", "2.amplitude")
    assert pulse.bounds[0] == (-0.7, 0.7)
    upstream = np.random.default_rng(3).normal(size=pulse.sample(values).shape)
    gradient = pulse.vjp(values, upstream)
    for at in range(len(values)):
        step = np.zeros(len(values))
        step[at] = 1e-5
        change = (pulse.sample(values + step) - pulse.sample(values - step)) / 2e-5
        assert gradient[at] == pytest.approx(np.sum(upstream * change), abs=1e-8)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("2", lambda: Pulse([(Drag(GRID), drive(0)[0])])),
    (
        "one grid",
        lambda: Pulse([(Gaussian(GRID), drive(0)[0]), (Gaussian(Grid(5, 1)), drive(0)[1])]),
    ),
    ("empty", lambda: Pulse([])),
    ("GHz", lambda: GaussianFilter(3e8)),
    ("GHz", lambda: Drag(GRID, anharmonicity=-3e8)),
    ("at most 10,000", lambda: GaussianFilter(0.3).matrix(Grid(20_000, 1))),
    ("terms", lambda: CosineSeries(GRID, 0)),
    ("sigma", lambda: Gaussian(GRID).sample([0.1, 0])),
    ("rise", lambda: FlatTop(GRID).sample([0.1, 3, -1])),
    ("a Gaussian has 2", lambda: Gaussian(GRID).sample([0.1])),
]


@pytest.mark.parametrize(("words", "make"), WRONG)
def test_wrong_envelopes_are_one_sentence(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
