"""Points of a sweep, and values of a circuit's symbols at them."""

import math
from collections.abc import Mapping, Sequence

import cirq
import numpy as np
import sympy

from qfleet.argument_checks import shown
from qfleet.compiler.circuit import expressions
from qfleet.errors import ArgumentError, CircuitError


def sweep_points(params: cirq.Sweepable) -> list[cirq.ParamResolver]:
    """Return the points of a sweep, as `cirq.to_resolvers` does.

    Args:
        params: Values of the symbols.

    Raises:
        ArgumentError: They are no values of symbols.
    """
    is_resolver = isinstance(params, cirq.ParamResolver) and isinstance(params.param_dict, Mapping)
    if is_resolver and all(isinstance(key, str) for key in params):
        # Cirq makes a sweep of each symbol, which takes 1 us per symbol.
        return [cirq.ParamResolver(dict(params.param_dict))]
    try:
        return list(cirq.to_resolvers(params))
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(
            f"params (or param_resolver) is {shown(params)}: pass values by symbol, or a cirq.Sweep"
        ) from error


def symbol_values(names: Sequence[str], resolvers: Sequence[cirq.ParamResolver]) -> np.ndarray:
    """Return the value of each symbol at each point of a sweep.

    Args:
        names: V names of symbols.
        resolvers: B points.

    Returns:
        [B, V] float64.

    Raises:
        CircuitError: A symbol has no value, or its value is not a finite real number.
    """
    values = np.zeros((len(resolvers), len(names)))
    for row, resolver in enumerate(resolvers):
        values[row] = [_symbol_value(name, resolver, row) for name in names]
    return values


def symbol_arguments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and parameters of a compiled circuit for the values of its symbols.

    Args:
        values: [B, V]; those of one point are parameters.
    """
    if len(values) == 1:
        return np.zeros((1, 0)), values[0]
    return values, np.zeros(0)


def _symbol_value(name: str, resolver: cirq.ParamResolver, row: int) -> float:
    value = resolver.param_dict.get(name)
    if isinstance(value, float) and math.isfinite(value):
        return value
    try:
        value = resolver.value_of(sympy.Symbol(name))
        if isinstance(value, sympy.Basic) and value.free_symbols:
            raise CircuitError(
                f"the symbol {name} has no value at point {row} of the sweep: set it in the"
                " parameters (params or param_resolver)"
            )
        number = expressions.number(value) if isinstance(value, sympy.Basic) else complex(value)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, CircuitError):
            raise
        number = complex(math.nan)
    if number.imag or not np.isfinite(number.real):
        raise CircuitError(
            f"the symbol {name} has the value {shown(value)} at point {row} of the sweep: use a"
            " finite real number (in params or param_resolver)"
        )
    return number.real
