"""The map from symbols to exponents where some exponents are results of numeric functions."""

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import sympy

from qfleet.compiler.circuit import numeric_functions
from qfleet.compiler.circuit.numeric_functions import NO_SECOND_DERIVATIVE, NumericFunction
from qfleet.engine.exponent_map import ExponentMap
from qfleet.errors import ArgumentError


class DifferentiableMap(Protocol):
    """Exponents as functions of symbols, with derivatives: `ExponentMap` or `FunctionMap`.

    Attributes:
        affine: True if all expressions are affine.
        is_scaling: True if each expression is one symbol times a number.
    """

    affine: bool
    is_scaling: bool

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the exponents [..., G] for values [..., V], both float64."""
        ...

    def derivatives(self, values: np.ndarray) -> Any:
        """Return the derivative at values [..., V], for `push` and `pull`."""
        ...

    def second_derivatives(self, values: np.ndarray, tangents: np.ndarray) -> Any:
        """Return the derivative of `derivatives` in a direction [..., V]."""
        ...

    def push(self, derivatives: Any, tangents: np.ndarray) -> np.ndarray:
        """Return the exponents' tangents [..., G] for tangents [..., V] of the values."""
        ...

    def pull(self, derivatives: Any, gradients: np.ndarray) -> np.ndarray:
        """Return gradients [..., V] by the values, given gradients [..., G] by the exponents."""
        ...


def exponent_map(wanted: Sequence[sympy.Expr], names: Sequence[str]) -> DifferentiableMap:
    """Return the map from symbols to exponents.

    Args:
        wanted: G expressions; numbers are allowed.
        names: Names of the V symbols, in the order of the values.
    """
    rest, calls = numeric_functions.extract(wanted)
    return FunctionMap(rest, calls, names) if calls else ExponentMap(rest, names)


class _Calls(NamedTuple):
    """Calls of a function. `arguments` are those of all of them, [..., n * P]."""

    function: NumericFunction
    number: int
    arguments: ExponentMap

    def rows(self, of_all: np.ndarray) -> np.ndarray:
        """Return numbers of all calls, [..., n * K], call by call: [..., n, K]."""
        return of_all.reshape(*of_all.shape[:-1], self.number, of_all.shape[-1] // self.number)

    def results(self, values: np.ndarray) -> np.ndarray:
        """Return the results of all calls, [..., n * A]."""
        return _together(self.function(self.rows(self.arguments(values))))

    def jacobians(self, values: np.ndarray) -> np.ndarray:
        """Return the derivative of each call by its arguments, [..., n, A, P]."""
        return self.function.jacobian(self.rows(self.arguments(values)))


class _Derivatives(NamedTuple):
    """Of the exponents by symbols and results; of calls: of arguments, and the Jacobians."""

    outer: np.ndarray
    inner: list[tuple[np.ndarray, np.ndarray]]


class FunctionMap:
    """Expressions of symbols and of results of functions, which are computed once per call.

    Args:
        wanted: G expressions, from `numeric_functions.extract`.
        calls: The calls, from there.
        names: Names of the V symbols, in the order of the values.

    Attributes:
        affine: False.
        is_scaling: False.
    """

    def __init__(
        self,
        wanted: Sequence[sympy.Expr],
        calls: Sequence[numeric_functions.Calls],
        names: Sequence[str],
    ) -> None:
        self.affine = self.is_scaling = False
        self._width = len(names)
        self._calls = [
            _Calls(one.function, one.count, ExponentMap(one.arguments, names)) for one in calls
        ]
        results = [name for one in calls for name in one.names]
        self._outer = ExponentMap(wanted, (*names, *results))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the exponents [..., G] for values [..., V], both float64.

        Raises:
            ArgumentError: A function is not defined at its arguments, such as a pulse above the
                bound of its channel, or an expression has no finite value.
        """
        return self._outer(self._extended(values))

    def derivatives(self, values: np.ndarray) -> _Derivatives:
        """Return the derivative at values [..., V]."""
        extended = values if self._outer.affine else self._extended(values)
        inner = [(one.arguments.derivatives(values), one.jacobians(values)) for one in self._calls]
        return _Derivatives(self._outer.derivatives(extended), inner)

    def second_derivatives(self, values: np.ndarray, tangents: np.ndarray) -> NoReturn:
        """Refuse: functions have first derivatives only.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(NO_SECOND_DERIVATIVE)

    def push(self, derivatives: _Derivatives, tangents: np.ndarray) -> np.ndarray:
        """Return the exponents' tangents [..., G] for tangents [..., V] of the values."""
        parts = [tangents]
        for one, (entries, jacobian) in zip(self._calls, derivatives.inner, strict=True):
            change = one.rows(one.arguments.push(entries, tangents))
            parts.append(_together(np.einsum("...ap,...p->...a", jacobian, change)))
        return self._outer.push(derivatives.outer, np.concatenate(parts, axis=-1))

    def pull(self, derivatives: _Derivatives, gradients: np.ndarray) -> np.ndarray:
        """Return gradients [..., V] by the values, given gradients [..., G] by the exponents."""
        extended = self._outer.pull(derivatives.outer, gradients)
        total = extended[..., : self._width].copy()
        at = self._width
        for one, (entries, jacobian) in zip(self._calls, derivatives.inner, strict=True):
            size = jacobian.shape[-2] * one.number
            results = one.rows(extended[..., at : at + size])
            at += size
            by_argument = _together(np.einsum("...ap,...a->...p", jacobian, results))
            total += one.arguments.pull(entries, by_argument)
        return total

    def _extended(self, values: np.ndarray) -> np.ndarray:
        """Return symbols and results, [..., V + sum A]."""
        results = [one.results(values) for one in self._calls]
        return np.concatenate([values, *results], axis=-1)


def _together(by_call: np.ndarray) -> np.ndarray:
    """Return numbers [..., n, K] of calls as [..., n * K]."""
    *outer, calls, width = by_call.shape
    return by_call.reshape(*outer, calls * width)
