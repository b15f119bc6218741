"""Points of a sweep, and values of a circuit's symbols at them."""

import math
from collections.abc import Sequence

import cirq
import numpy as np
import sympy

from qfleet.errors import CircuitError


def sweep_points(params: cirq.Sweepable) -> list[cirq.ParamResolver]:
    """Return the points of a sweep, as `cirq.to_resolvers` does.

    Args:
        params: Values of the symbols.
    """
    if isinstance(params, cirq.ParamResolver) and all(isinstance(key, str) for key in params):
        # Cirq makes a sweep of each symbol, which takes 1 us per symbol.
        return [cirq.ParamResolver(dict(params.param_dict))]
    return list(cirq.to_resolvers(params))


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


def _symbol_value(name: str, resolver: cirq.ParamResolver, row: int) -> float:
    value = resolver.value_of(name)
    if isinstance(value, float) and math.isfinite(value):
        return value
    value = resolver.value_of(sympy.Symbol(name))
    if isinstance(value, sympy.Basic) and not value.is_number:
        raise CircuitError(
            f"the symbol {name} has no value at point {row} of the sweep: set it in the parameters"
        )
    number = complex(value)
    if number.imag or not np.isfinite(number.real):
        raise CircuitError(
            f"the symbol {name} has the value {value} at point {row} of the sweep: use a finite"
            " real number"
        )
    return number.real
