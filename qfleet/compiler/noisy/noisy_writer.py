"""Serialization of programs with noise (read by native/noisy/noisy_program.cc)."""

import abc
from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic

import numpy as np
import sympy

from qfleet.compiler.circuit.gate_tables import GateTables
from qfleet.compiler.circuit.numeric_functions import NumericResult
from qfleet.compiler.circuit.sampling import Sampling
from qfleet.compiler.noisy.noisy_blocks import Channel, NoisyProgram, Unitary
from qfleet.compiler.writer import Writer


class NoisyWriter(Writer, abc.ABC, Generic[Channel]):
    """A serialized program and its exponents. Abstract.

    Args:
        program: The program.
        order: Positions from the lowest bit or digit of an index to the highest.
        keys: Names of data symbols that random numbers depend on.

    Attributes:
        bit_order: As of `SerializedProgram`.
    """

    format: ClassVar[int]
    """The version that the engine reads."""

    def __init__(
        self, program: NoisyProgram[Channel], order: Iterable[int], keys: Sequence[str]
    ) -> None:
        super().__init__(program.inputs)
        self._gates = GateTables(self._exponent)
        self._channels: dict[bytes, int] = {}
        self._channel_ints: list[int] = []
        self._channel_reals: list[float] = []
        self._place = {position: place for place, position in enumerate(order)}
        self.bit_order = [len(program.qubits) - 1 - position for position in self._place]
        blocks: list[int] = []
        for number, block in enumerate(program.blocks):
            places = [self._place[position] for position in block.qubits]
            blocks += [*self._block_header(number), len(places), *places, len(block.items)]
            for item in block.items:
                if isinstance(item, tuple):
                    blocks += self._unitary(item, block.qubits)
                else:
                    blocks += self._channel_words(item, block.qubits)
        sampling = self._sampling(program.sampling, keys)
        readouts, weights = self._readouts(program)
        self._ints = [
            *(self.format, max(1, len(program.qubits)), len(self.shared), len(self.per_example)),
            *(program.readouts, int(program.takes_states), *sampling, *self._gates.ints()),
            *(len(self._channels), *self._channel_ints),
            *(len(program.blocks), *blocks, *readouts),
        ]
        self._reals = [*self._gates.reals, *self._channel_reals, *weights, *program.terms.offsets]

    def _block_header(self, number: int) -> list[int]:
        """Return the integers before a block."""
        return []

    @abc.abstractmethod
    def _channel_words(self, channel: Channel, block: tuple[int, ...]) -> list[int]:
        """Write a channel of a block."""

    @abc.abstractmethod
    def _readouts(self, program: NoisyProgram[Channel]) -> tuple[list[int], Iterable[float]]:
        """Return the integers and the weights of the readouts."""

    def _sampling(self, sampling: Sampling, keys: Sequence[str]) -> list[int]:
        """Return shots, seed, if the random numbers are fresh, and what else they depend on.

        Args:
            sampling: The numbers of samples.
            keys: Names of data symbols: random numbers depend on their values.
        """
        known = {name: one for one in self._exponents[True] if (name := _line_in(one))}
        symbols = [known.get(name, sympy.Symbol(name)) for name in keys]
        numbers = [~self._exponent(symbol) for symbol in symbols]
        return [sampling.shots or 0, sampling.seed, int(sampling.fresh), len(numbers), *numbers]

    def _unitary(self, factors: Unitary, block: tuple[int, ...]) -> list[int]:
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


def _line_in(expression: sympy.Expr) -> str:
    """Return the only symbol of a linear expression; "" for others."""
    names = expression.free_symbols
    if len(names) != 1 or expression.has(NumericResult):
        return ""
    (symbol,) = names
    slope = sympy.diff(expression, symbol)
    return str(symbol) if slope.is_number and slope != 0 else ""
