"""Functions of symbols that are computed in NumPy, as expressions: sympy has no formula for them.

An exponent may be a `NumericResult` of such a function, such as an angle of a pulse's unitary.
The maps of exponents compute all results of a function in one call, with `extract`.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import sympy

from qfleet.errors import CircuitError

NO_SECOND_DERIVATIVE = (
    "second derivatives by the numbers of a pulse are not available: differentiate at most once"
)


class NumericFunction(ABC):
    """A function of P real numbers with A results. Immutable. Abstract."""

    @property
    @abstractmethod
    def key(self) -> str:
        """A text that describes the function wholly: functions of equal keys are equal."""

    @property
    @abstractmethod
    def results(self) -> int:
        """The number of results, A."""

    @abstractmethod
    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the results [..., A] at values [..., P], both float64."""

    @abstractmethod
    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """Return the derivative of the results by the values, [..., A, P]."""


class _Handle(sympy.Atom):
    """A function as a part of an expression."""

    function: NumericFunction

    def __new__(cls, function: NumericFunction) -> "_Handle":
        made: _Handle = super().__new__(cls)
        made.function = function
        return made

    def __getnewargs__(self) -> tuple[NumericFunction]:
        return (self.function,)

    def _hashable_content(self) -> tuple[str]:
        return (self.function.key,)

    def _sympystr(self, printer: object) -> str:
        del printer
        return type(self.function).__name__


class NumericResult(sympy.Expr):
    """A result of a function of expressions: `NumericResult.of(function, index, arguments)`."""

    is_real: ClassVar[bool] = True

    @classmethod
    def of(
        cls, function: NumericFunction, index: int, arguments: Sequence[sympy.Expr]
    ) -> "NumericResult":
        """Return one result of a function.

        Args:
            function: The function.
            index: Number of the result.
            arguments: P expressions.
        """
        made: NumericResult = cls(_Handle(function), sympy.Integer(index), *arguments)
        return made

    @property
    def function(self) -> NumericFunction:
        """The function."""
        found: NumericFunction = self.args[0].function
        return found

    @property
    def index(self) -> int:
        """Number of the result."""
        return int(self.args[1])

    @property
    def arguments(self) -> tuple[sympy.Expr, ...]:
        """The P expressions."""
        found: tuple[sympy.Expr, ...] = self.args[2:]
        return found

    def _eval_evalf(self, precision: int) -> sympy.Float | None:
        del precision
        if self.free_symbols:
            return None
        values = np.array([float(one) for one in self.arguments])
        return sympy.Float(float(self.function(values)[self.index]))

    def _eval_derivative(self, symbol: sympy.Symbol) -> Any:
        raise CircuitError(f"{symbol} is a number of a pulse: {NO_SECOND_DERIVATIVE}")


@dataclass(frozen=True)
class Calls:
    """All calls of a function, which are computed together. Results are symbols of expressions.

    Attributes:
        function: The function.
        count: Number of calls, n.
        arguments: n * P expressions, call by call.
        names: Names of the symbols of the n * A results, call by call.
    """

    function: NumericFunction
    count: int
    arguments: tuple[sympy.Expr, ...]
    names: tuple[str, ...]


def extract(wanted: Sequence[sympy.Expr]) -> tuple[list[sympy.Expr], list[Calls]]:
    """Replace results of functions by symbols.

    Args:
        wanted: Expressions.

    Returns:
        The expressions with symbols in place of results, and the calls of each function. Equal
        calls are one.
    """
    by_function: dict[_Handle, dict[tuple[sympy.Expr, ...], tuple[str, ...]]] = {}
    numbers = itertools.count()

    def symbol(result: NumericResult) -> sympy.Symbol:
        calls = by_function.setdefault(result.args[0], {})
        if result.arguments not in calls:
            number = next(numbers)
            names = [f"result {at} of call {number}" for at in range(result.function.results)]
            calls[result.arguments] = tuple(names)
        return sympy.Symbol(calls[result.arguments][result.index])

    found = []
    for expression in wanted:
        results = () if expression.is_Atom else expression.atoms(NumericResult)
        replaced = {one: symbol(one) for one in sorted(results, key=lambda one: one.index)}
        found.append(expression.xreplace(replaced) if replaced else expression)
    return found, [
        Calls(
            handle.function,
            len(calls),
            tuple(itertools.chain.from_iterable(calls)),
            tuple(itertools.chain.from_iterable(calls.values())),
        )
        for handle, calls in by_function.items()
    ]
