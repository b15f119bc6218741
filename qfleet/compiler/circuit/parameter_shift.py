"""Circuits rewritten so that the parameter-shift rule is exact for every symbol.

Every parametrized gate becomes parity phases `exp(i pi h t Z...Z)` between fixed gates, each with a
shifted symbol of its own in place of t. Every readout is then
`a + b cos(2 pi h t) + c sin(2 pi h t)` in each of these symbols, so that

    df/dt = pi h (f(t + s) - f(t - s)),  s = 1 / (4 h)

with h in half-turns per unit of t. Sources: Mitarai, Negoro, Kitagawa and Fujii, arXiv:1803.00745;
Schuld, Bergholm, Gogolin, Izaac and Killoran, arXiv:1811.11184. The derivative of t by the
circuit's own symbols is left to automatic differentiation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit import lowering, parity
from qfleet.compiler.circuit.light_cone import light_cone


@dataclass(frozen=True)
class ShiftedSymbols:
    """The symbols of a shiftable circuit's parity phases.

    Attributes:
        names: Names of the G symbols.
        exponents: The expression that each symbol replaces.
        half_turns: [G] half-turns of each phase per unit of its symbol.
    """

    names: tuple[str, ...]
    exponents: tuple[sympy.Expr, ...]
    half_turns: np.ndarray

    @property
    def shifts(self) -> np.ndarray:
        """[G] shift of each symbol in either direction: a quarter of its period."""
        return 1 / (4 * self.half_turns)


@dataclass(frozen=True)
class ShiftableCircuit:
    """A circuit of parity phases with one symbol each, between fixed gates.

    Attributes:
        circuit: Has the readouts of the original; its global phase may differ.
        data: Symbols whose exponents contain a data symbol.
        shared: All other symbols.
    """

    circuit: cirq.Circuit
    data: ShiftedSymbols
    shared: ShiftedSymbols


def shiftable_circuit(
    circuit: cirq.AbstractCircuit, inputs: Iterable[str], readouts: Iterable[cirq.Qid]
) -> ShiftableCircuit:
    """Rewrite the gates that the readouts depend on as parity phases.

    Args:
        circuit: Unitary gates.
        inputs: Names of the data symbols.
        readouts: The measured qubits; the result contains all of them.

    Raises:
        CircuitError: The circuit contains an unsupported operation.
    """
    data, readouts = frozenset(inputs), frozenset(readouts)
    operations: list[cirq.Operation] = [cirq.I(qubit) for qubit in sorted(readouts)]
    by_data: dict[bool, list[tuple[str, sympy.Expr, float]]] = {True: [], False: []}
    # Shifting a gate outside the light cone would only add noise.
    for factor in light_cone(lowering.lower(circuit), readouts):
        for part in (factor,) if factor.fixed else parity.parity_phases(factor):
            if part.fixed:
                operations.append(cirq.MatrixGate(part.matrix).on(*part.qubits))
            elif part.qubits:
                phases = by_data[bool(part.symbols & data)]
                name = f"{'x' if part.symbols & data else 'p'}{len(phases)}"
                half_turns = float(part.half_turns[0, 0])
                phases.append((name, part.exponents[0], half_turns))
                kind = cirq.ZPowGate if len(part.qubits) == 1 else cirq.ZZPowGate
                # exp(i pi h t Z) is Z**(-2 h t), up to a global phase.
                exponent = -2 * half_turns * sympy.Symbol(name)
                operations.append(kind(exponent=exponent).on(*part.qubits))
    return ShiftableCircuit(
        cirq.Circuit(operations), _shifted_symbols(by_data[True]), _shifted_symbols(by_data[False])
    )


def _shifted_symbols(phases: Sequence[tuple[str, sympy.Expr, float]]) -> ShiftedSymbols:
    names, exponents, half_turns = zip(*phases, strict=True) if phases else ((), (), ())
    return ShiftedSymbols(names, exponents, np.array(half_turns))
