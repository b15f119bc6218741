"""Blocks of ansatz circuits.

Every symbol is an angle in radians: a gate's Cirq exponent is symbol / pi. Powers of Pauli gates
differ from rotations by a global phase only.
"""

from collections.abc import Sequence

import cirq
import sympy

from qfleet.argument_checks import checked
from qfleet.circuit_checks import ANGLES, qubit
from qfleet.errors import ArgumentError

ONE_QUBIT = 3
TWO_QUBIT = 15
POOL = 2 * ONE_QUBIT


def _exponents(symbols: Sequence[sympy.Expr], count: int) -> list[sympy.Expr]:
    if len(symbols) != count:
        raise ArgumentError(
            f"the block takes {count} symbols, but {len(symbols)} symbols are given"
        )
    return [symbol / sympy.pi for symbol in symbols]


@checked(qubit=qubit, symbols=ANGLES)
def one_qubit_unitary(qubit: cirq.Qid, symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Build any one-qubit unitary up to a global phase: powers of X, then Y, then Z.

    Args:
        qubit: The qubit.
        symbols: 3 angles in radians.

    Returns:
        A circuit of 3 gates.

    Raises:
        ArgumentError: The number of symbols is not 3, or an argument has the wrong type.

    Examples:
        >>> import cirq, sympy
        >>> circuit = one_qubit_unitary(cirq.LineQubit(0), sympy.symbols("a b c"))
        >>> len(list(circuit.all_operations()))
        3
    """
    x, y, z = _exponents(symbols, ONE_QUBIT)
    return cirq.Circuit(cirq.X(qubit) ** x, cirq.Y(qubit) ** y, cirq.Z(qubit) ** z)


@checked(a=qubit, b=qubit, symbols=ANGLES)
def two_qubit_unitary(a: cirq.Qid, b: cirq.Qid, symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Build any two-qubit unitary up to a global phase: the KAK form with 15 angles.

    One-qubit unitaries on both qubits, powers of ZZ, YY and XX, one-qubit unitaries on both qubits.
    Kraus and Cirac, "Optimal creation of entanglement using a two-qubit gate"
    (arXiv:quant-ph/0011050).

    Args:
        a: The first qubit.
        b: The second qubit.
        symbols: 15 angles in radians: 3 for `a`, 3 for `b`, ZZ, YY, XX, 3 for `a`, 3 for `b`.

    Returns:
        A circuit of 15 gates.

    Raises:
        ArgumentError: The number of symbols is not 15, or an argument has the wrong type.

    Examples:
        >>> import cirq, sympy
        >>> circuit = two_qubit_unitary(*cirq.LineQubit.range(2), sympy.symbols("s:15"))
        >>> len(list(circuit.all_operations()))
        15
    """
    zz, yy, xx = _exponents(symbols, TWO_QUBIT)[6:9]
    return (
        one_qubit_unitary(a, symbols[0:3])
        + one_qubit_unitary(b, symbols[3:6])
        + cirq.Circuit(cirq.ZZ(a, b) ** zz, cirq.YY(a, b) ** yy, cirq.XX(a, b) ** xx)
        + one_qubit_unitary(a, symbols[9:12])
        + one_qubit_unitary(b, symbols[12:15])
    )


@checked(source=qubit, sink=qubit, symbols=ANGLES)
def two_qubit_pool(source: cirq.Qid, sink: cirq.Qid, symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Build the pooling of a source qubit into a sink qubit.

    A unitary on each qubit changes the basis, CNOT acts in it, and the sink's change is reverted.
    The source is not used afterwards. Cong, Choi and Lukin, "Quantum convolutional neural networks"
    (arXiv:1810.03787).

    Args:
        source: The control, which becomes inactive.
        sink: The target, which stays active.
        symbols: 6 angles in radians: 3 for the sink, 3 for the source.

    Returns:
        A circuit of 10 gates.

    Raises:
        ArgumentError: The number of symbols is not 6, or an argument has the wrong type.

    Examples:
        >>> import cirq, sympy
        >>> circuit = two_qubit_pool(*cirq.LineQubit.range(2), sympy.symbols("s:6"))
        >>> len(list(circuit.all_operations()))
        10
    """
    on_sink = one_qubit_unitary(sink, symbols[:ONE_QUBIT])
    # The source's gates are Z, Y, X: a last Z would commute with the control of the CNOT and have
    # no gradient.
    on_source = cirq.inverse(one_qubit_unitary(source, symbols[ONE_QUBIT:]))
    return on_sink + on_source + cirq.Circuit(cirq.CNOT(source, sink)) + cirq.inverse(on_sink)
