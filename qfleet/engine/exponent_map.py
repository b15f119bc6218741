"""Many expressions of the same symbols, evaluated and differentiated together in NumPy."""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import sympy

from qfleet.compiler.circuit import expressions
from qfleet.errors import ArgumentError

_ERF = np.frompyfunc(math.erf, 1, 1)
# NumPy 1 has no names such as `asin`.
_NAMES = {name: name.replace("a", "arc", 1) for name in expressions.FUNCTIONS if name[0] == "a"}
NUMPY_MATH = SimpleNamespace(
    pow=np.power,
    minimum=np.minimum,
    maximum=np.maximum,
    erf=lambda values: np.asarray(_ERF(values), np.float64),
    **{
        name: getattr(np, _NAMES.get(name, name))
        for name in expressions.FUNCTIONS.values()
        if name != "erf"
    },
)
"""The functions of `expressions.evaluator` in NumPy."""


class ExponentMap:
    """Expressions of symbols. The derivative is a sparse matrix with entries in a fixed order.

    Args:
        wanted: G expressions; numbers are allowed.
        names: Names of the V symbols, in the order of the values.

    Attributes:
        affine: True if all expressions are affine.
        is_scaling: True if each expression is one symbol times a number.
    """

    def __init__(self, wanted: Sequence[sympy.Expr], names: Sequence[str]) -> None:
        column_of = {name: column for column, name in enumerate(names)}
        self._wanted = tuple(wanted)
        self._offset = np.zeros(len(wanted))
        entries: list[tuple[int, int, float]] = []  # exponent, symbol, coefficient
        groups: dict[sympy.Expr, tuple[list[int], list[list[int]]]] = {}
        for target, expression in enumerate(wanted):
            affine = expressions.affine(expression)
            if affine is None:
                template, symbols = _template(expression)
                targets, columns = groups.setdefault(template, ([], []))
                targets.append(target)
                columns.append([column_of[name] for name in symbols])
            else:
                self._offset[target] = affine[1]
                entries += [(target, column_of[name], c) for name, c in affine[0].items() if c]
        self._groups: list[_Group] = []
        at = self._affine_count = len(entries)
        for template, (targets, columns) in groups.items():
            group = _Group(template, np.array(targets), np.array(columns).T, at)
            self._groups.append(group)
            entries += [
                (t, s, 0.0) for row in group.symbols for t, s in zip(targets, row, strict=True)
            ]
            at = len(entries)
        self.affine = not groups
        self._targets = np.array([entry[0] for entry in entries], np.intp)
        self._symbols = np.array([entry[1] for entry in entries], np.intp)
        self._coefficients = np.array([entry[2] for entry in entries], np.float64)
        self._affine_coefficients = self._coefficients[: self._affine_count]
        self._take_affine = _Take(self._symbols[: self._affine_count], len(names))
        self._take_symbols = _Take(self._symbols, len(names))
        self._take_targets = _Take(self._targets, len(wanted))
        self._sum_affine = _IndexSum(self._targets[: self._affine_count], len(wanted))
        self._sum_by_target = _IndexSum(self._targets, len(wanted))
        self._sum_by_symbol = _IndexSum(self._symbols, len(names))
        self._has_offset = bool(self._offset.any())
        self.is_scaling = self.affine and self._take_targets.all_in_order and not self._has_offset
        self._is_identity = (
            self.is_scaling
            and self._take_symbols.all_in_order
            and bool((self._coefficients == 1).all())
        )

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the exponents [..., G] for values [..., V], both float64.

        Raises:
            ArgumentError: An expression has no finite value.
        """
        if self._is_identity:
            return values
        exponents = self._sum_affine(self._take_affine.scaled(values, self._affine_coefficients))
        if self._has_offset:
            exponents += self._offset
        for group in self._groups:
            results = group.evaluate(group.value, values)
            self._require_finite(group, results)
            exponents[..., group.targets] = results
        return exponents

    def derivatives(self, values: np.ndarray) -> np.ndarray:
        """Return the entries of the derivative, [M] or [..., M], at values [..., V]."""
        if self.affine:
            return self._coefficients
        result = np.empty((*values.shape[:-1], len(self._coefficients)))
        result[..., : self._affine_count] = self._affine_coefficients
        for group in self._groups:
            for at, derivative in zip(group.slices, group.first, strict=True):
                result[..., at] = group.evaluate(derivative, values)
        return result

    def second_derivatives(self, values: np.ndarray, tangents: np.ndarray) -> np.ndarray:
        """Return the derivative [M] or [..., M] of `derivatives` in a direction [..., V]."""
        if self.affine:
            return np.zeros_like(self._coefficients)
        result = np.zeros((*values.shape[:-1], len(self._coefficients)))
        for group in self._groups:
            for at, row in zip(group.slices, group.second, strict=True):
                for symbols, derivative in zip(group.symbols, row, strict=True):
                    change = group.evaluate(derivative, values)
                    result[..., at] += change * tangents.take(symbols, axis=-1)
        return result

    def push(self, derivatives: np.ndarray, tangents: np.ndarray) -> np.ndarray:
        """Return the exponents' tangents [..., G] for tangents [..., V] of the values."""
        return self._sum_by_target(self._take_symbols.scaled(tangents, derivatives))

    def pull(self, derivatives: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return gradients [..., V] by the values, given gradients [..., G] by the exponents."""
        return self._sum_by_symbol(self._take_targets.scaled(gradients, derivatives))

    def _require_finite(self, group: "_Group", results: np.ndarray) -> None:
        finite = np.isfinite(results)
        if not finite.all():
            column = int(np.argwhere(~finite)[0, -1])
            raise ArgumentError(
                f"the exponent {self._wanted[group.targets[column]]} is"
                f" {results[~finite][0]} for these inputs and parameters: use values for which it"
                " is finite"
            )


class _Take:
    """Values at indices of the last axis, which has `size` numbers.

    Attributes:
        all_in_order: True if the indices are 0 to size - 1: then nothing is moved.
    """

    def __init__(self, indices: np.ndarray, size: int) -> None:
        self._indices = indices
        self.all_in_order = np.array_equal(indices, np.arange(size))

    def scaled(self, values: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return values [..., size] at the indices times factors, as a new array [..., M]."""
        if self.all_in_order:
            result: np.ndarray = values * factors
            return result
        taken = values.take(self._indices, axis=-1, mode="clip")  # "raise" takes twice the time
        taken *= factors  # in place: memory for a batch is slow to get
        return taken


class _IndexSum:
    """Sums of the entries [..., M] that have the same index, of `size` indices."""

    def __init__(self, indices: np.ndarray, size: int) -> None:
        self._indices, self._size = indices, size
        self._in_order = np.array_equal(indices, np.arange(size))
        self._order = np.argsort(indices, kind="stable")
        ordered = indices[self._order]
        self._starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self._found = ordered[self._starts]

    def __call__(self, entries: np.ndarray) -> np.ndarray:
        """Return the sums [..., size]."""
        if self._in_order:
            return entries
        result = np.zeros((*entries.shape[:-1], self._size))
        if not len(self._starts):
            return result
        if entries.ndim == 1:
            return np.bincount(self._indices, entries, self._size)
        ordered = entries.take(self._order, axis=-1)
        result[..., self._found] = np.add.reduceat(ordered, self._starts, axis=-1)
        return result


class _Group:
    """Expressions that differ in their symbols only.

    Args:
        template: One of them, with placeholders for its symbols.
        targets: [n] indices of the exponents.
        symbols: [k, n] index of the symbol that each placeholder is.
        start: Position of the group's entries in the derivative.
    """

    def __init__(
        self, template: sympy.Expr, targets: np.ndarray, symbols: np.ndarray, start: int
    ) -> None:
        self._template = template
        self._placeholders = [_placeholder(at) for at in range(len(symbols))]
        self.targets, self.symbols = targets, symbols
        ends = [start + at * len(targets) for at in range(len(symbols) + 1)]
        self.slices = [slice(*pair) for pair in pairwise(ends)]
        self.value = _evaluator(template)

    @cached_property
    def _derivatives(self) -> list[sympy.Expr]:
        return [expressions.partial_derivative(self._template, one) for one in self._placeholders]

    @cached_property
    def first(self) -> list[expressions.Evaluator]:
        """[k] the derivative by each placeholder."""
        return [_evaluator(one) for one in self._derivatives]

    @cached_property
    def second(self) -> list[list[expressions.Evaluator]]:
        """[k, k] the second derivatives."""
        return [
            [_evaluator(expressions.partial_derivative(one, by)) for by in self._placeholders]
            for one in self._derivatives
        ]

    def evaluate(self, function: expressions.Evaluator, values: np.ndarray) -> np.ndarray:
        """Evaluate a function of the placeholders for all expressions: [..., n]."""
        columns = {
            str(placeholder): values.take(symbols, axis=-1)
            for placeholder, symbols in zip(self._placeholders, self.symbols, strict=True)
        }
        with np.errstate(all="ignore"):  # the caller checks the results
            return np.asarray(function(columns))


def _placeholder(at: int) -> sympy.Symbol:
    return sympy.Symbol(f"placeholder{at}", real=True)


def _template(expression: sympy.Expr) -> tuple[sympy.Expr, list[str]]:
    """Return an expression with placeholders for its symbols, and the names of these symbols."""
    names = [str(node) for node in sympy.preorder_traversal(expression) if node.is_Symbol]
    ordered = list(dict.fromkeys(names))
    replaced = {
        symbol: _placeholder(ordered.index(str(symbol))) for symbol in expression.free_symbols
    }
    return expression.xreplace(replaced), ordered


def _evaluator(expression: sympy.Expr) -> expressions.Evaluator:
    return expressions.evaluator(expression, constant=float, math=NUMPY_MATH)
