"""Sympy expressions of symbols: affine maps, and evaluation of all other expressions.

Nearly every exponent of an ansatz is `coefficient * symbol + offset`. All affine exponents together
are one small matrix product; only the remaining ones are evaluated operation by operation.
"""

from collections.abc import Callable, Mapping
from typing import Any

import sympy

Affine = tuple[dict[str, float], float]

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


def symbol_names(expression: sympy.Expr) -> frozenset[str]:
    """Return the names of the symbols that an expression depends on."""
    return frozenset(str(symbol) for symbol in expression.free_symbols)


def affine(expression: sympy.Expr) -> Affine | None:
    """Return an expression as an affine map.

    Args:
        expression: A real expression.

    Returns:
        The coefficients by symbol name, and the offset; None if the expression is not affine.
    """
    symbols = sorted(expression.free_symbols, key=str)
    if not symbols:
        return {}, float(expression)
    try:
        poly = sympy.Poly(expression, *symbols)
    except sympy.PolynomialError:
        return None
    if poly.total_degree() > 1:
        return None
    try:
        coefficients = {str(s): float(poly.coeff_monomial(s)) for s in symbols}
        return coefficients, float(poly.coeff_monomial(1))
    except TypeError:  # complex or not a number
        return None


def unsupported(expression: sympy.Expr) -> str | None:
    """Return the name of an unsupported part of a real expression; None if all is supported."""
    for node in sympy.preorder_traversal(expression):
        if node.is_Symbol or node.is_Add or node.is_Mul or node.is_Pow:
            continue
        if node.is_Number and node.is_finite:
            continue
        if isinstance(node, sympy.NumberSymbol | sympy.Min | sympy.Max):
            continue
        if node.is_Function and type(node).__name__ in FUNCTIONS:
            continue
        return str(node) if node.is_Atom else type(node).__name__
    return None


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

    def walk(node: sympy.Expr) -> Any:
        if node.is_Symbol:
            return values[str(node)]
        if not node.free_symbols:
            return constant(float(node))
        if node.is_Pow:
            return _power(walk, node, math, constant)
        parts = [walk(part) for part in node.args]
        if node.is_Function and type(node).__name__ in FUNCTIONS:
            return getattr(math, FUNCTIONS[type(node).__name__])(*parts)
        result = parts[0]
        for part in parts[1:]:
            if node.is_Add:
                result = result + part
            elif node.is_Mul:
                result = result * part
            else:
                fold = math.minimum if isinstance(node, sympy.Min) else math.maximum
                result = fold(result, part)
        return result

    return walk(expression)


def _power(walk: Callable, node: sympy.Expr, math: Any, constant: Callable) -> Any:
    base, exponent = node.args
    if exponent.is_Integer and 0 < abs(int(exponent)) <= 8:
        # Products are differentiable at a base <= 0; the gradient of pow is NaN there.
        factor = walk(base)
        result = factor
        for _ in range(abs(int(exponent)) - 1):
            result = result * factor
        return result if int(exponent) > 0 else constant(1.0) / result
    return math.pow(walk(base), walk(exponent))
