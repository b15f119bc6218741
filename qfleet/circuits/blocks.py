"""The blocks that ansatz circuits are built from.

Every symbol is an angle in radians: a gate's Cirq exponent is symbol / pi. Powers of Pauli gates
differ from rotations by a global phase alone.
"""

from collections.abc import Sequence

import cirq
import sympy

ONE_QUBIT = 3
TWO_QUBIT = 15
POOL = 2 * ONE_QUBIT


def _exponents(symbols: Sequence[sympy.Expr], count: int) -> list[sympy.Expr]:
    if len(symbols) != count:
        raise ValueError(f"the block takes {count} symbols, not {len(symbols)}")
    return [symbol / sympy.pi for symbol in symbols]


def one_qubit_unitary(qubit: cirq.Qid, symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Any one-qubit unitary up to its phase: turns about X, then Y, then Z.

    Args:
        qubit: The qubit.
        symbols: 3 angles in radians.
    """
    x, y, z = _exponents(symbols, ONE_QUBIT)
    return cirq.Circuit(cirq.X(qubit) ** x, cirq.Y(qubit) ** y, cirq.Z(qubit) ** z)


def two_qubit_unitary(a: cirq.Qid, b: cirq.Qid, symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Any two-qubit unitary up to its phase: the KAK form with all of its 15 angles.

    One-qubit unitaries on both, powers of ZZ, YY and XX, one-qubit unitaries on both. Kraus and
    Cirac, "Optimal creation of entanglement using a two-qubit gate" (arXiv:quant-ph/0011050).

    Args:
        a: The first qubit.
        b: The second qubit.
        symbols: 15 angles in radians: 3 for `a`, 3 for `b`, ZZ, YY, XX, 3 for `a`, 3 for `b`.
    """
    zz, yy, xx = _exponents(symbols, TWO_QUBIT)[6:9]
    return (
        one_qubit_unitary(a, symbols[0:3])
        + one_qubit_unitary(b, symbols[3:6])
        + cirq.Circuit(cirq.ZZ(a, b) ** zz, cirq.YY(a, b) ** yy, cirq.XX(a, b) ** xx)
        + one_qubit_unitary(a, symbols[9:12])
        + one_qubit_unitary(b, symbols[12:15])
    )


def two_qubit_pool(source: cirq.Qid, sink: cirq.Qid, symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Pool the source into the sink; the source is not used afterwards.

    A unitary on each qubit chooses a basis, CNOT acts in it, the sink's choice is undone. Cong,
    Choi and Lukin, "Quantum convolutional neural networks" (arXiv:1810.03787).

    Args:
        source: The control, which is left behind.
        sink: The target, which stays active.
        symbols: 6 angles in radians: 3 for the sink, 3 for the source.
    """
    on_sink = one_qubit_unitary(sink, symbols[:ONE_QUBIT])
    # The source's turns come Z, Y, X: were Z the last, it would commute with the control of the
    # CNOT and go untrained.
    on_source = cirq.inverse(one_qubit_unitary(source, symbols[ONE_QUBIT:]))
    return on_sink + on_source + cirq.Circuit(cirq.CNOT(source, sink)) + cirq.inverse(on_sink)
