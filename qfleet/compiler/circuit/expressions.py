"""Sympy expressions of symbols: affine maps, evaluation of all other expressions, derivatives.

Nearly every exponent of an ansatz is `coefficient * symbol + offset`. All affine exponents together
are one small matrix product; only the remaining ones are evaluated operation by operation.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from qfleet.compiler.circuit.numeric_functions import NumericResult

Affine = tuple[dict[str, float], float]
Evaluator = Callable[[Mapping[str, Any]], Any]

IMAGINARY_TOLERANCE = 1e-12
"""Imaginary part of a constant that is a rounding error."""

# Name of the function in sympy -> name in `tf.math`.
FUNCTIONS: Mapping[str, str] = {
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "exp": "exp",
    "log": "log",
    "Abs": "abs",
    "sign": "sign",
    "floor": "floor",
    "ceiling": "ceil",
    "erf": "erf",
}


# A wide circuit has many gates of few exponents, and sympy walks through an expression each time.
@functools.lru_cache(maxsize=1 << 16)
def symbol_names(expression: sympy.Expr) -> frozenset[str]:
    """Return the names of the symbols that an expression depends on."""
    return frozenset(str(symbol) for symbol in expression.free_symbols)


def used_names(wanted: Iterable[sympy.Expr], names: Iterable[str]) -> tuple[str, ...]:
    """Return those names, in their order, that an expression depends on.

    Args:
        wanted: Expressions.
        names: Names of symbols.
    """
    found = frozenset[str]().union(*map(symbol_names, wanted))
    return tuple(name for name in names if name in found)


def affine(expression: sympy.Expr) -> Affine | None:
    """Return an expression as an affine map.

    Args:
        expression: A real expression.

    Returns:
        The coefficients by symbol name, and the offset; None if the expression is not affine.
    """
    if not expression.free_symbols:
        value = number(expression)
        return ({}, value.real) if np.isfinite(value) and not value.imag else None
    if expression.is_Symbol:
        return {str(expression): 1.0}, 0.0
    if expression.is_Add:
        return _affine_sum(expression)
    if expression.is_Mul:
        return _affine_product(expression)
    return None


def _affine_sum(expression: sympy.Expr) -> Affine | None:
    coefficients: dict[str, float] = {}
    offset = 0.0
    for part in expression.args:
        found = affine(part)
        if found is None:
            return None
        for name, coefficient in found[0].items():
            coefficients[name] = coefficients.get(name, 0.0) + coefficient
        offset += found[1]
    return coefficients, offset


def _affine_product(expression: sympy.Expr) -> Affine | None:
    others = [part for part in expression.args if part.free_symbols]
    multiple = affine(sympy.Mul(*(part for part in expression.args if not part.free_symbols)))
    found = affine(others[0]) if len(others) == 1 else None
    if multiple is None or found is None:
        return None
    coefficients = {name: multiple[1] * each for name, each in found[0].items()}
    return coefficients, multiple[1] * found[1]


def real_number(constant: sympy.Expr) -> float:
    """Return the value of a real expression without symbols."""
    return number(constant).real


# Many expressions have the same constants, such as 1/pi, and sympy evaluates each slowly.
@functools.lru_cache(maxsize=1 << 12)
def number(constant: sympy.Expr) -> complex:
    """Return the value of an expression without symbols; NaN if it has none.

    An imaginary part that is a rounding error is 0.
    """
    try:
        value = complex(constant)
    except (TypeError, ValueError, ArithmeticError):
        return complex(np.nan)
    return complex(value.real) if abs(value.imag) <= IMAGINARY_TOLERANCE else value


def affine_matrix(
    wanted: Sequence[sympy.Expr], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, sympy.Expr]]]:
    """Return expressions as `values @ coefficients + offsets`, as far as they are affine.

    Args:
        wanted: G expressions; numbers are allowed.
        names: Names of the V symbols, in the order of the values.

    Returns:
        [V, G] coefficients, [G] offsets, and the columns and expressions that are not affine. Their
        coefficients and offsets are 0.
    """
    row_of = {name: row for row, name in enumerate(names)}
    coefficients = np.zeros((len(names), len(wanted)))
    offsets = np.zeros(len(wanted))
    others = []
    for column, expression in enumerate(wanted):
        found = affine(expression)
        if found is None:
            others.append((column, expression))
            continue
        for name, coefficient in found[0].items():
            coefficients[row_of[name], column] = coefficient
        offsets[column] = found[1]
    return coefficients, offsets, others


@functools.lru_cache(maxsize=1 << 16)
def unsupported(expression: sympy.Expr) -> str | None:
    """Return the name of an unsupported part of a real expression; None if all is supported."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if not node.free_symbols:
            value = number(node)
            if not np.isfinite(value) or value.imag:
                return str(node)
            continue
        if isinstance(node, NumericResult):
            waiting += reversed(node.arguments)
            continue
        is_function = node.is_Function and type(node).__name__ in FUNCTIONS
        is_operator = node.is_Symbol or node.is_Add or node.is_Mul or node.is_Pow
        if not (is_function or is_operator or isinstance(node, sympy.Min | sympy.Max)):
            return type(node).__name__
        waiting += reversed(node.args)
    return None


def real_and_imaginary(expression: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Split an expression of real symbols.

    Args:
        expression: Functions of symbols are real, unless `unsupported` names a part of the result.

    Returns:
        The real and the imaginary part.
    """
    zero = sympy.Integer(0)
    if not expression.free_symbols:
        value = number(expression)
        if not value.imag:
            return expression, zero
        return sympy.Float(value.real) if value.real else zero, sympy.Float(value.imag)
    if expression.is_Symbol:
        return expression, zero
    parts = [real_and_imaginary(part) for part in expression.args]
    if not (expression.is_Add or expression.is_Mul):
        is_real = all(imaginary == 0 for _, imaginary in parts)
        return expression.func(*(real for real, _ in parts)) if is_real else expression, zero
    if expression.is_Add:
        return sympy.Add(*(real for real, _ in parts)), sympy.Add(*(imag for _, imag in parts))
    real, imaginary = parts[0]
    for other, turned in parts[1:]:
        real, imaginary = (
            real * other - imaginary * turned,
            real * turned + imaginary * other,
        )
    return real, imaginary


def evaluate(
    expression: sympy.Expr,
    values: Mapping[str, Any],
    *,
    constant: Callable[[float], Any],
    math: Any,
) -> Any:
    """Evaluate an expression with the operations of an array library.

    Args:
        expression: An expression for which `unsupported` returned None.
        values: The array of each symbol, by name; all of one shape.
        constant: Converts a number to an array.
        math: A namespace with the functions of FUNCTIONS, `pow`, `minimum` and `maximum`, such as
            `tf.math`.

    Returns:
        An array of the shape of the values.
    """
    return evaluator(expression, constant=constant, math=math)(values)


def evaluator(expression: sympy.Expr, *, constant: Callable[[float], Any], math: Any) -> Evaluator:
    """Return a function that evaluates an expression, without the cost of sympy in each call.

    Args:
        expression: As for `evaluate`.
        constant: As for `evaluate`.
        math: As for `evaluate`.
    """

    def build(node: sympy.Expr) -> Evaluator:
        if node.is_Symbol:
            name = str(node)
            return lambda values: values[name]
        if not node.free_symbols:
            value = real_number(node)
            return lambda values: constant(value)
        if node.is_Pow:
            return _power(build, node, math, constant)
        parts = [build(part) for part in node.args]
        if node.is_Function and type(node).__name__ in FUNCTIONS:
            function = getattr(math, FUNCTIONS[type(node).__name__])
            return lambda values: function(*(part(values) for part in parts))
        if node.is_Add:
            fold = operator.add
        elif node.is_Mul:
            fold = operator.mul
        else:
            fold = math.minimum if isinstance(node, sympy.Min) else math.maximum
        return lambda values: functools.reduce(fold, (part(values) for part in parts))

    return build(expression)


def _power(
    build: Callable[[sympy.Expr], Evaluator],
    node: sympy.Expr,
    math: Any,
    constant: Callable[[float], Any],
) -> Evaluator:
    base, exponent = build(node.args[0]), node.args[1]
    if exponent.is_Integer and 0 < abs(int(exponent)) <= 8:
        # Products are differentiable at a base <= 0; the gradient of pow is NaN there.
        count = abs(int(exponent))

        def product(values: Mapping[str, Any]) -> Any:
            return functools.reduce(operator.mul, [base(values)] * count)

        if int(exponent) > 0:
            return product
        return lambda values: constant(1.0) / product(values)
    power = build(exponent)
    return lambda values: math.pow(base(values), power(values))


def partial_derivative(expression: sympy.Expr, symbol: sympy.Symbol) -> sympy.Expr:
    """Differentiate an expression.

    Args:
        expression: An expression for which `unsupported` returned None.
        symbol: The symbol.

    Returns:
        The derivative, in supported functions. Where a function has a kink or a step, it is the
        mean of the derivatives on both sides.
    """
    signs: dict[sympy.Symbol, sympy.Expr] = {}
    return _smooth(expression, signs).diff(symbol).xreplace(signs)


def _smooth(node: sympy.Expr, constants: dict[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """Replace steps by constants, and kinks by linear functions with such a coefficient."""

    def step(value: sympy.Expr) -> sympy.Symbol:
        dummy = sympy.Dummy()
        constants[dummy] = value
        return dummy

    if node.is_Atom:
        return node
    if isinstance(node, sympy.sign | sympy.floor | sympy.ceiling):
        return step(node)
    parts = [_smooth(part, constants) for part in node.args]
    if isinstance(node, sympy.Abs):
        return step(sympy.sign(node.args[0])) * parts[0]
    if isinstance(node, sympy.Min | sympy.Max):
        result, value = parts[0], node.args[0]
        direction = 1 if isinstance(node, sympy.Max) else -1
        for part, other in zip(parts[1:], node.args[1:], strict=True):
            sign = direction * step(sympy.sign(value - other))
            result = (result + part + sign * (result - part)) / 2
            value = node.func(value, other)
        return result
    return node.func(*parts)
