"""Parametrized gates as one factor: EigenGates, by their eigenspaces, and phases."""

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.factor import Factor, fixed_factor, parametrized_factor
from qfleet.compiler.circuit.location import Location
from qfleet.compiler.circuit.synthesis import decompose

MATRIX_QUBITS = 4
"""The widest gate without parameters that is synthesized from its unitary."""


def as_factor(
    gate: cirq.Gate | None, qubits: tuple[cirq.Qid, ...], location: Location
) -> Factor | None:
    """Return a parametrized gate as one factor; None if it cannot be one.

    Args:
        gate: Any gate.
        qubits: Its qubits.
        location: Names the operation in an error.

    Raises:
        CircuitError: An exponent is not supported, or a coefficient is not a phase.
    """
    if isinstance(gate, cirq.GlobalPhaseGate):
        return _phase_factor(gate, location)
    if isinstance(gate, cirq.EigenGate) and _only_exponent(gate):
        wide = len(qubits) > 2
        if not wide or (len(qubits) <= MATRIX_QUBITS and decompose(gate.on(*qubits)) is None):
            return _eigen_factor(qubits, gate, location)
    return None


def _only_exponent(gate: cirq.EigenGate) -> bool:
    """Return True if symbols occur in the exponent only (PhasedISwap also has a phase)."""
    if not cirq.is_parameterized(gate):
        return True
    try:
        return not cirq.is_parameterized(gate._with_exponent(1.0))
    except TypeError:
        return False


def _eigen_factor(qubits: tuple[cirq.Qid, ...], gate: cirq.EigenGate, location: Location) -> Factor:
    # The eigenspaces do not depend on the exponent, which may be a symbol.
    unit = gate._with_exponent(1.0)
    half_turns, projectors = _eigenspaces(unit, unit._global_shift)
    return _factor(qubits, half_turns, projectors, sympy.sympify(gate.exponent), location)


def _factor(
    qubits: tuple[cirq.Qid, ...],
    half_turns: np.ndarray,
    projectors: np.ndarray,
    exponent: sympy.Expr,
    location: Location,
) -> Factor:
    """Return a factor with an exponent, which may be a number."""
    exponent = _require_supported(exponent, location)
    if exponent.free_symbols:
        return parametrized_factor(qubits, half_turns, projectors, exponent)
    phases = np.exp(1j * np.pi * half_turns * expressions.real_number(exponent))
    return fixed_factor(qubits, np.einsum("k,kij->ij", phases, projectors))


def _eigenspaces(gate: cirq.EigenGate, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the half-turns [K], shifted, and the projectors [K, D, D] of a gate's eigenspaces."""
    components = gate._eigen_components()
    half_turns = np.array([float(one) + shift for one, _ in components])
    return half_turns, np.stack([np.asarray(p, np.complex128) for _, p in components])


def _phase_factor(gate: cirq.GlobalPhaseGate, location: Location) -> Factor:
    """Return `exp(i pi t)` on no qubit, from powers such as `I**s` and `exp(I*s)`."""
    exponent = sympy.Integer(0)
    coefficient = sympy.sympify(gate.coefficient)
    constant, rest = coefficient.as_independent(*coefficient.free_symbols, as_Add=False)
    for part in (constant, *sympy.Mul.make_args(rest)):
        base, power = part.as_base_exp() if part.free_symbols else (part, sympy.Integer(1))
        if base == sympy.E:
            real, imaginary = expressions.real_and_imaginary(power)
            exponent += (imaginary - sympy.I * real) / sympy.pi
        elif base.free_symbols or not np.isclose(abs(expressions.number(base)), 1):
            raise location.error(
                f"{part} is not a phase; write phases as powers of numbers of absolute value 1"
            )
        else:
            exponent += float(np.angle(expressions.number(base)) / np.pi) * power
    return _factor((), np.ones(1), np.ones((1, 1, 1)), exponent, location)


def _require_supported(exponent: sympy.Expr, location: Location) -> sympy.Expr:
    """Return a real exponent if all of it can be evaluated."""
    unsupported = expressions.unsupported(exponent)
    if unsupported is not None:
        real, imaginary = expressions.real_and_imaginary(exponent)
        if imaginary == 0 and expressions.unsupported(real) is None:
            exponent, unsupported = real, None
    if unsupported is not None:
        raise location.error(
            f"its exponent {exponent} contains {unsupported}; allowed are + - * / **, numbers and"
            f" {', '.join(sorted(expressions.FUNCTIONS))}, Min, Max"
        )
    # Symbols are known by name: those of one name but other assumptions are one symbol.
    plain = {symbol: sympy.Symbol(symbol.name) for symbol in exponent.free_symbols}
    different = {symbol: other for symbol, other in plain.items() if symbol != other}
    return exponent.xreplace(different) if different else exponent
