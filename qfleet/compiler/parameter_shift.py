"""A circuit cut into turns of two eigenvalues each, of which the parameter-shift rule is exact.

Every gate with symbols becomes parity turns `exp(i pi turn t Z...Z)` between fixed gates, each with
a symbol of its own for t. Any readout is then a + b cos(2 pi turn t) + c sin(2 pi turn t) in each
of these symbols, so that

    df/dt = pi turn (f(t + s) - f(t - s)),  s = 1 / (4 turn)

(Mitarai, Negoro, Kitagawa and Fujii, arXiv:1803.00745; Schuld, Bergholm, Gogolin, Izaac and
Killoran, arXiv:1811.11184). What t is in terms of the circuit's own symbols is TensorFlow's affair.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from qfleet.compiler import lowering, parity, program


@dataclass(frozen=True)
class ShiftedSymbols:
    """The symbols of a circuit's turns.

    Attributes:
        names: Of the symbols.
        exponents: What each stands for.
        turns: [G] half-turns of each per unit of its exponent.
    """

    names: tuple[str, ...]
    exponents: tuple[sympy.Expr, ...]
    turns: np.ndarray

    @property
    def shifts(self) -> np.ndarray:
        """[G] how far each is shifted either way, a quarter of its period."""
        return 1 / (4 * self.turns)


@dataclass(frozen=True)
class ShiftableCircuit:
    """A circuit of turns with a symbol each.

    Attributes:
        circuit: What to simulate; the same as the original where observables are read, up to a
            global phase.
        data: The turns whose exponents have a data symbol.
        shared: The others.
    """

    circuit: cirq.Circuit
    data: ShiftedSymbols
    shared: ShiftedSymbols


def shiftable_circuit(
    circuit: cirq.AbstractCircuit, inputs: Iterable[str], readouts: Iterable[cirq.Qid]
) -> ShiftableCircuit:
    """Cut what the readouts depend on into turns.

    Args:
        circuit: Unitary gates.
        inputs: Names of the data symbols.
        readouts: The qubits that are measured; all of them are in the cut circuit.

    Raises:
        CircuitError: The circuit holds what can't be taken.
    """
    data, readouts = frozenset(inputs), frozenset(readouts)
    operations: list[cirq.Operation] = [cirq.I(qubit) for qubit in sorted(readouts)]
    found: dict[bool, list[tuple[str, sympy.Expr, float]]] = {True: [], False: []}
    # A shift of what the readouts don't depend on would give nothing but noise.
    for factor in program.light_cone(lowering.lower(circuit), readouts):
        for part in (factor,) if factor.fixed else parity.parity_phases(factor):
            if part.fixed:
                operations.append(cirq.MatrixGate(part.matrix).on(*part.qubits))
            elif part.qubits:
                turns = found[bool(part.symbols & data)]
                name = f"{'x' if part.symbols & data else 'p'}{len(turns)}"
                turn = float(part.turns[0, 0])
                turns.append((name, part.exponents[0], turn))
                kind = cirq.ZPowGate if len(part.qubits) == 1 else cirq.ZZPowGate
                # exp(i pi turn t Z) is Z**(-2 turn t), up to a phase.
                operations.append(kind(exponent=-2 * turn * sympy.Symbol(name)).on(*part.qubits))
    return ShiftableCircuit(cirq.Circuit(operations), _listed(found[True]), _listed(found[False]))


def _listed(found: Sequence[tuple[str, sympy.Expr, float]]) -> ShiftedSymbols:
    names, exponents, turns = zip(*found, strict=True) if found else ((), (), ())
    return ShiftedSymbols(names, exponents, np.array(turns))
