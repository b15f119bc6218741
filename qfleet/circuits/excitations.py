"""Excitations of electrons between spin orbitals, which alternate between spin up and down."""

from collections.abc import Iterator, Sequence

import cirq

Excitation = tuple[tuple[int, ...], tuple[int, ...]]
"""Occupied and empty orbitals."""


def singles(qubits: int, electrons: int) -> Iterator[Excitation]:
    """Yield the excitations of one electron that keep its spin."""
    for i in range(electrons):
        for a in range(electrons, qubits):
            if i % 2 == a % 2:
                yield (i,), (a,)


def doubles(qubits: int, electrons: int) -> Iterator[Excitation]:
    """Yield the excitations of two electrons that keep the number of each spin."""
    for i in range(electrons):
        for j in range(i + 1, electrons):
            for a in range(electrons, qubits):
                for b in range(a + 1, qubits):
                    if sorted((i % 2, j % 2)) == sorted((a % 2, b % 2)):
                        yield (i, j), (a, b)


def excitation_words(
    line: Sequence[cirq.LineQubit], occupied: tuple[int, ...], empty: tuple[int, ...]
) -> Iterator[tuple[str, float]]:
    """Yield words P and factors f with exp(t (T - T^)) = product of exp(-i f t P / 2).

    T moves electrons from the occupied to the empty orbitals. All words of T - T^ commute.
    """
    operator = cirq.PauliSum() + 1.0
    for orbital in reversed(empty):
        operator *= _ladder(line, orbital, creates=True)
    for orbital in occupied:
        operator *= _ladder(line, orbital, creates=False)
    for term in operator:
        # T - T^ keeps twice the imaginary part of each coefficient.
        factor = -4 * term.coefficient.imag
        if abs(factor) > 1e-9:
            letters = {qubit: str(pauli) for qubit, pauli in term.items()}
            yield "".join(letters.get(qubit, "I") for qubit in line), factor


def _ladder(line: Sequence[cirq.LineQubit], orbital: int, *, creates: bool) -> cirq.PauliSum:
    """Return a creation or annihilation operator in the Jordan-Wigner encoding."""
    before = cirq.PauliString(dict.fromkeys(line[:orbital], cirq.Z))
    sign = -1j if creates else 1j
    half = 0.5 * cirq.X(line[orbital]) + 0.5 * sign * cirq.Y(line[orbital])
    return before * half
