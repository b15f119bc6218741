"""Values of a circuit's symbols over a sweep."""

from collections.abc import Sequence

import cirq
import numpy as np
import sympy

from qfleet.errors import CircuitError


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
        for column, name in enumerate(names):
            value = resolver.value_of(sympy.Symbol(name))
            if isinstance(value, sympy.Basic) and not value.is_number:
                raise CircuitError(
                    f"the symbol {name} has no value at point {row} of the sweep: set it in the"
                    " parameters"
                )
            number = complex(value)
            if number.imag or not np.isfinite(number.real):
                raise CircuitError(
                    f"the symbol {name} has the value {value} at point {row} of the sweep: use a"
                    " finite real number"
                )
            values[row, column] = number.real
    return values
