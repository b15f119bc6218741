"""Values and derivatives of supported expressions, compared with sympy."""

import numpy as np
import pytest
import sympy

from qfleet.compiler.circuit import expressions
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.runtime import tf

X, Y = sympy.symbols("x y", real=True)
POINTS = np.array([[0.3, 0.8], [0.7, -0.4], [0.9, 0.2]])  # where all functions below are defined
FLAT = (sympy.sign, sympy.floor, sympy.ceiling)  # sympy has no number for their derivative
SHIFTED = {"acosh": X + 1, "log": X + Y**2}
SUPPORTED = {
    **{name: getattr(sympy, name)(SHIFTED.get(name, X)) for name in expressions.FUNCTIONS},
    "Min": sympy.Min(X, Y + 0.5, 2),
    "Max": sympy.Max(X, Y + 0.5, -1),
    "affine": 2 * X - Y / sympy.pi + sympy.sqrt(2),
    "of one": -X,
    "a number": sympy.Rational(3, 4),
    "constants": sympy.pi * sympy.E * sympy.GoldenRatio + sympy.EulerGamma * X,
    "not collected": (X + Y) * 2 - 3 * (X - 1),
    "a product": X * Y * (X - Y),
    "a quotient": X / (2 + Y),
    "a root": X ** sympy.Rational(1, 3),
    "a root below": 1 / sympy.sqrt(X),
    "a power": (Y - 1) ** 5,
    "a high power": (X - Y) ** 11,
    "a power below": (Y + 2) ** -3,
    "a low power": (X + 1) ** -10,
    "a symbol above": X**Y,
    "a number below": 2 ** (X - Y),
    "within each other": sympy.sin(sympy.exp(X * Y) - sympy.cos(Y) ** 2) / (1 + sympy.tanh(X) ** 2),
}


@pytest.mark.parametrize("expression", SUPPORTED.values(), ids=SUPPORTED)
def test_expression_matches_sympy(expression: sympy.Expr) -> None:
    assert expressions.unsupported(expression) is None
    exponents = GateExponents([Y, expression, X], ("x", "y"), tf.float64)
    values = tf.constant(POINTS)
    with tf.GradientTape() as tape:
        tape.watch(values)
        found = exponents(values)
        total = tf.reduce_sum(found[:, 1])
    gradients = tape.gradient(total, values)
    wanted = [float(expression.subs({X: x, Y: y})) for x, y in POINTS]
    np.testing.assert_allclose(found[:, 1], wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found.numpy()[:, [2, 0]], POINTS)
    for column, symbol in enumerate((X, Y)):
        derivative = sympy.Integer(0) if isinstance(expression, FLAT) else expression.diff(symbol)
        wanted = [float(derivative.subs({X: x, Y: y}).evalf()) for x, y in POINTS]
        np.testing.assert_allclose(gradients[:, column], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("power", [1, 2, 3, 8, 9, 20])
def test_power_is_differentiable_at_zero_and_below(power: int) -> None:
    exponents = GateExponents([X**power], ("x",), tf.float64)
    values = tf.constant([[0.0], [-0.5]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = tf.reduce_sum(exponents(values))
    wanted = [[float(power == 1)], [power * (-0.5) ** (power - 1)]]
    np.testing.assert_allclose(tape.gradient(total, values), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        (sympy.gamma(X), "gamma"),
        (sympy.I * X, "I"),
        (sympy.Mod(X, 2), "Mod"),
        (sympy.Piecewise((X, X > 0), (0, True)), "Piecewise"),
        (sympy.sin(sympy.zeta(X)), "zeta"),
        (X * sympy.oo, "oo"),
        (X + sympy.nan, "nan"),
    ],
)
def test_unsupported_names_the_part(expression: sympy.Expr, what: str) -> None:
    assert expressions.unsupported(expression) == what
