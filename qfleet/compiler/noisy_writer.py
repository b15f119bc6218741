"""What density and trajectory programs share when serialized: native/program/noisy_block.cc."""

import numpy as np
import sympy

from qfleet.compiler import expressions
from qfleet.compiler.factor import Factor
from qfleet.compiler.gate_tables import GateTables
from qfleet.compiler.sampling import Sampling


class NoisyWriter:
    """A serialized program and its exponents; see `serialize.ProgramWriter`. Abstract.

    Args:
        inputs: Names of the data symbols.

    Attributes:
        shared: Expressions of trained symbols only.
        per_example: Expressions that contain a data symbol.
    """

    shared: list[sympy.Expr]
    per_example: list[sympy.Expr]

    def __init__(self, inputs: tuple[str, ...]) -> None:
        self._inputs = frozenset(inputs)
        self._exponents: dict[bool, dict[sympy.Expr, int]] = {False: {}, True: {}}
        self._gates = GateTables(self._exponent)
        self._channels: dict[bytes, int] = {}
        self._channel_ints: list[int] = []
        self._channel_reals: list[float] = []
        self._ints: list[int] = []
        self._reals: list[float] = []

    def bytes(self) -> bytes:
        """Return the number of integers, the integers (int64) and the real numbers (float64)."""
        ints = np.array([len(self._ints), *self._ints], np.int64)
        return ints.tobytes() + np.array(self._reals, np.float64).tobytes()

    def _list_exponents(self) -> None:
        self.shared, self.per_example = list(self._exponents[False]), list(self._exponents[True])

    def _sampling(self, sampling: Sampling, keys: tuple[str, ...]) -> list[int]:
        """Return shots, seed, if the random numbers are fresh, and what else they depend on.

        Args:
            sampling: The numbers of samples.
            keys: Names of data symbols: random numbers depend on their values.
        """
        known = {name: one for one in self._exponents[True] if (name := _line_in(one))}
        symbols = [known.get(name, sympy.Symbol(name)) for name in keys]
        numbers = [~self._exponent(symbol) for symbol in symbols]
        return [sampling.shots or 0, sampling.seed, int(sampling.fresh), len(numbers), *numbers]

    def _unitary(self, factors: tuple[Factor, ...], block: tuple[int, ...]) -> list[int]:
        """Write a unitary of a block."""
        qubits = factors[0].qubits
        place = block.index(qubits[0]) if len(qubits) < len(block) else 0
        parts = self._gates.items(factors)
        return [-1, len(qubits), place, len(parts), *parts]

    def _channel(self, ints: list[int], reals: list[float]) -> int:
        """Return the number of a channel with these integers and real numbers."""
        key = np.array([*ints, *reals]).tobytes()
        if key not in self._channels:
            self._channels[key] = len(self._channels)
            self._channel_ints += ints
            self._channel_reals += reals
        return self._channels[key]

    def _exponent(self, expression: sympy.Expr) -> int:
        per_example = bool(expressions.symbol_names(expression) & self._inputs)
        table = self._exponents[per_example]
        index = table.setdefault(expression, len(table))
        return ~index if per_example else index


def _line_in(expression: sympy.Expr) -> str:
    """Return the only symbol of a linear expression; "" for others."""
    names = expression.free_symbols
    if len(names) != 1:
        return ""
    (symbol,) = names
    slope = sympy.diff(expression, symbol)
    return str(symbol) if slope.is_number and slope != 0 else ""
