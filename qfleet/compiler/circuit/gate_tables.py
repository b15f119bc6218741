"""The factors of a serialized program, each once (see native/program/program_reader.cc)."""

from collections.abc import Callable, Sequence

import numpy as np
import sympy

from qfleet.compiler.circuit.factor import Factor


class GateTables:
    """Factors, and sequences of factors that all examples share.

    Args:
        number: Returns the number of an exponent, negative if it differs per example.

    Attributes:
        reals: Numbers of the factors.
    """

    def __init__(self, number: Callable[[sympy.Expr], int]) -> None:
        self._number = number
        self._factors: dict[tuple[object, ...], tuple[int, bool]] = {}
        self._sequences: dict[tuple[int, ...], int] = {}
        self._factor_ints: list[int] = []
        self._sequence_ints: list[int] = []
        self.reals: list[float] = []

    def ints(self) -> list[int]:
        """Return the tables of factors and of sequences."""
        factors, sequences = len(self._factors), len(self._sequences)
        return [factors, *self._factor_ints, sequences, *self._sequence_ints]

    def items(self, factors: Sequence[Factor]) -> list[int]:
        """Return a product's items: sequences of shared factors, and ~ the numbers of others."""
        items: list[int] = []
        run: list[int] = []
        size = len(factors[0].projectors[0])
        for factor in factors:
            number, differs = self._write_factor(factor)
            if not differs:
                run.append(number)
                continue
            if run:
                items.append(self._write_sequence(tuple(run), size))
                run = []
            items.append(~number)
        if run:
            items.append(self._write_sequence(tuple(run), size))
        return items

    def _write_sequence(self, factors: tuple[int, ...], size: int) -> int:
        if factors not in self._sequences:
            self._sequences[factors] = len(self._sequences)
            self._sequence_ints += [size, len(factors), *factors]
        return self._sequences[factors]

    def _write_factor(self, factor: Factor) -> tuple[int, bool]:
        """Return a factor's number, and if it differs per example."""
        if factor.key not in self._factors:
            exponents = [self._number(expression) for expression in factor.exponents]
            self._factors[factor.key] = len(self._factors), any(one < 0 for one in exponents)
            self._factor_ints += [len(factor.projectors[0]), len(factor.projectors)]
            self._factor_ints += [len(exponents), *exponents]
            self.reals += list(factor.half_turns.ravel())
            parts = np.stack([factor.projectors.real, factor.projectors.imag], axis=-1)
            self.reals += list(parts.ravel())
        return self._factors[factor.key]
