"""Sympy expressions of symbols, as an affine map where they are one and as a tree where not.

Nearly every exponent in an ansatz is `coefficient * symbol + offset`. All of these together are
one small matrix product; only what is left over is walked operation by operation.
"""

from collections.abc import Callable, Mapping
from typing import Any

import sympy

Affine = tuple[dict[str, float], float]

# Name of the function in sympy -> (name in TensorFlow's `tf.math`, derivative known everywhere).
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
    """The names of the symbols that an expression depends on."""
    return frozenset(str(symbol) for symbol in expression.free_symbols)


def affine(expression: sympy.Expr) -> Affine | None:
    """An expression's coefficients by symbol name and its offset; None if it is not affine."""
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
    except TypeError:  # complex, or not a number at all
        return None


def unsupported(expression: sympy.Expr) -> str | None:
    """What in a real expression can't be evaluated, by name; None if all of it can."""
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
    """Walk an expression with the operations of an array library.

    Args:
        expression: An expression for which `unsupported` returned None.
        values: The array of each symbol, by name; all of one shape.
        constant: Makes an array of a number.
        math: Where the functions of FUNCTIONS live, with `pow`, `minimum` and `maximum`
            (`tf.math` is one).

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
        # Products have a derivative at a base of zero or below, where pow's is NaN.
        factor = walk(base)
        result = factor
        for _ in range(abs(int(exponent)) - 1):
            result = result * factor
        return result if int(exponent) > 0 else constant(1.0) / result
    return math.pow(walk(base), walk(exponent))
