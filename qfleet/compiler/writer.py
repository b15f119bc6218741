"""Serialization that all kinds of programs share (see native/program/program_reader.h)."""

from collections.abc import Iterable, Sequence

import numpy as np
import sympy

from qfleet.compiler.any_program import SerializedProgram
from qfleet.compiler.circuit import expressions


class Writer:
    """A serialized program and its exponents. Abstract.

    Args:
        inputs: Names of the data symbols.
    """

    def __init__(self, inputs: Iterable[str]) -> None:
        self._inputs = frozenset(inputs)
        self._exponents: dict[bool, dict[sympy.Expr, int]] = {False: {}, True: {}}
        self._ints: list[int] = []
        self._reals: list[float] = []

    @property
    def shared(self) -> list[sympy.Expr]:
        """Expressions of trained symbols only."""
        return list(self._exponents[False])

    @property
    def per_example(self) -> list[sympy.Expr]:
        """Expressions that contain a data symbol."""
        return list(self._exponents[True])

    def bytes(self) -> bytes:
        """Return the number of integers, the integers (int64) and the real numbers (float64)."""
        ints = np.array([len(self._ints), *self._ints], np.int64)
        return ints.tobytes() + np.array(self._reals, np.float64).tobytes()

    def program(self, bit_order: Sequence[int] = ()) -> SerializedProgram:
        """Return the bytes and the exponents.

        Args:
            bit_order: As of `SerializedProgram`.
        """
        exponents = tuple(self.shared), tuple(self.per_example)
        return SerializedProgram(self.bytes(), *exponents, tuple(bit_order))

    def _exponent(self, expression: sympy.Expr) -> int:
        """Return the index of an expression; the complement if it differs per example."""
        per_example = bool(expressions.symbol_names(expression) & self._inputs)
        table = self._exponents[per_example]
        index = table.setdefault(expression, len(table))
        return ~index if per_example else index
