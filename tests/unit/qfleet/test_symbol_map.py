"""The map from symbols to exponents, and its derivatives, compared with sympy and differences."""

import pickle

import numpy as np
import pytest
import sympy

from qfleet.compiler.circuit import expressions
from qfleet.engine.exponent_map import ExponentMap
from qfleet.engine.symbol_map import SymbolMap
from qfleet.errors import ArgumentError

INPUTS, PARAMETERS = ("x", "y"), ("p", "q", "r")
X, Y, P, Q, R = sympy.symbols("x y p q r")
SHARED = {
    "affine": 2 * Q + P - 0.5,
    "scaled": P / sympy.pi,
    "a number": sympy.Rational(3, 4),
    "not affine": sympy.sin(P * Q) / (1 + R**2),
}
PER_EXAMPLE = {
    "scaled": X / sympy.pi,
    "a product": (X - 1) * (Y - 1),
    "its pattern again": (Y - 1) * (P - 1),
    "mixed": X * P,
    "mixed affine": X + 2 * P - 1,
    "Max": sympy.Max(X, Y, P**2),
    "Min": sympy.Min(X * Y, P + 3 * Y) ** 2,
    "Abs": sympy.Abs(X * Y) + sympy.sqrt(X**2 + P),
    "steps": sympy.sign(X - Y) * X + sympy.floor(3 * Y) * P**2 + sympy.ceiling(X) * X * Y,
    "powers": Y**3 - X**-2 + (Y**2 + 1) ** P + Y**11,
    "erf": sympy.erf(X * P),
    "nested": sympy.atan(sympy.exp(X * Y)) * sympy.tanh(X - Q),
}
ONE_OF_EACH = {
    name: getattr(sympy, name)(X / 4 + (2 if name == "acosh" else 0.5))
    for name in expressions.FUNCTIONS
}
MAP = SymbolMap(
    [*SHARED.values()], [*PER_EXAMPLE.values(), *ONE_OF_EACH.values()], INPUTS, PARAMETERS
)
RNG = np.random.default_rng(4)
ROWS = RNG.uniform(-0.9, 0.9, (5, 2))
VALUES = RNG.uniform(0.1, 1, 3)
DIRECTION = RNG.normal(size=ROWS.shape), RNG.normal(size=VALUES.shape)
STEP = 1e-5


def moved(factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the point moved along DIRECTION by a multiple of STEP."""
    return ROWS + factor * STEP * DIRECTION[0], VALUES + factor * STEP * DIRECTION[1]


def draw_gradients() -> tuple[np.ndarray, np.ndarray]:
    """Draw gradients by the exponents."""
    rng = np.random.default_rng(6)
    return rng.normal(size=len(MAP.shared)), rng.normal(size=(len(ROWS), len(MAP.per_example)))


def test_exponents_match_sympy() -> None:
    shared, per_example = MAP(ROWS, VALUES)
    for row, found in zip(ROWS, per_example, strict=True):
        point = dict(zip((X, Y, P, Q, R), (*row, *VALUES), strict=True))
        wanted = [float(expression.subs(point)) for expression in MAP.per_example]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    wanted = [float(expression.subs(point)) for expression in MAP.shared]
    np.testing.assert_allclose(shared, wanted, rtol=1e-13)


def test_pushforward_matches_differences() -> None:
    found = MAP.pushforward(ROWS, VALUES, *DIRECTION)
    for tangents, after, before in zip(found, MAP(*moved(1)), MAP(*moved(-1)), strict=True):
        np.testing.assert_allclose(tangents, (after - before) / (2 * STEP), rtol=1e-7, atol=1e-8)


def test_pullback_is_the_transpose_of_pushforward() -> None:
    gradients = draw_gradients()
    tangents = MAP.pushforward(ROWS, VALUES, *DIRECTION)
    wanted = sum((g * t).sum() for g, t in zip(gradients, tangents, strict=True))
    found = MAP.pullback(ROWS, VALUES, *gradients)
    assert found[0] is not None
    assert np.isclose((found[0] * DIRECTION[0]).sum() + found[1] @ DIRECTION[1], wanted, rtol=1e-12)
    shared_only = MAP.pullback(ROWS, VALUES, gradients[0], None)
    assert shared_only[0] is None
    zeros = MAP.pullback(ROWS, VALUES, gradients[0], np.zeros_like(gradients[1]))
    np.testing.assert_array_equal(shared_only[1], zeros[1])


def test_second_pullback_matches_differences() -> None:
    gradients = draw_gradients()
    after, before = (MAP.pullback(*moved(sign), *gradients) for sign in (1, -1))
    found = MAP.second_pullback(ROWS, VALUES, *DIRECTION, *gradients)
    for one, plus, minus in zip(found, after, before, strict=True):
        np.testing.assert_allclose(one, (plus - minus) / (2 * STEP), rtol=1e-6, atol=1e-6)


def test_affine_map_has_no_second_derivative() -> None:
    affine = SymbolMap([2 * P - Q, P / 3], [X + P, Y], INPUTS, PARAMETERS)
    assert affine.affine
    assert affine.mixed
    found = affine.second_pullback(ROWS, VALUES, *DIRECTION, np.ones(2), np.ones((5, 2)))
    assert not found[0].any()
    assert not found[1].any()


def test_identity_returns_its_argument() -> None:
    identity = SymbolMap([P, Q, R], [X, Y], INPUTS, PARAMETERS)
    shared, per_example = identity(ROWS, VALUES)
    assert shared is VALUES
    assert per_example is ROWS
    swapped = SymbolMap([Q, P, R], [Y, X], INPUTS, PARAMETERS)
    np.testing.assert_array_equal(swapped(ROWS, VALUES)[0], VALUES[[1, 0, 2]])
    np.testing.assert_array_equal(swapped(ROWS, VALUES)[1], ROWS[:, ::-1])
    by_rows, by_values = swapped.pullback(ROWS, VALUES, VALUES, ROWS)
    np.testing.assert_array_equal(by_rows, ROWS[:, ::-1])
    np.testing.assert_array_equal(by_values, VALUES[[1, 0, 2]])


def test_map_without_expressions_or_symbols_is_empty() -> None:
    empty = SymbolMap([], [], INPUTS, ())
    shared, per_example = empty(ROWS, np.empty(0))
    assert (shared.shape, per_example.shape) == ((0,), (5, 0))
    by_rows, by_values = empty.pullback(ROWS, np.empty(0), shared, per_example)
    assert by_rows is not None
    assert (by_rows.shape, by_values.shape) == ((5, 2), (0,))
    assert not by_rows.any()


@pytest.mark.parametrize("expression", [sympy.log(X), sympy.sqrt(X), 1 / X, sympy.acosh(X - 1)])
def test_exponent_without_finite_value_is_named(expression: sympy.Expr) -> None:
    exponents = ExponentMap([2 * X, expression], ("x",))
    with pytest.raises(ArgumentError) as error:
        exponents(np.array([[2.5], [-1.0], [0.0]]))
    assert str(expression) in str(error.value)


def test_symbol_map_can_be_pickled() -> None:
    copied = pickle.loads(pickle.dumps(MAP))
    for one, other in zip(copied(ROWS, VALUES), MAP(ROWS, VALUES), strict=True):
        np.testing.assert_array_equal(one, other)


def test_derivative_at_a_kink_is_the_mean() -> None:
    x = sympy.Symbol("x", real=True)
    for expression, wanted in (
        (sympy.Abs(x), 0.0),
        (sympy.Max(x, 0), 0.5),
        (sympy.Min(3 * x, x), 2.0),
        (sympy.floor(x) * x, 0.0),
    ):
        derivative = expressions.partial_derivative(expression, x)
        assert float(derivative.subs(x, 0)) == wanted
