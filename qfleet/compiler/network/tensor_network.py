"""The tensor network of a Pauli string's expectation value in its light cone.

<psi| P |psi> is the network of all matrices, once for the state and once conjugated, from |0...0>
to the string. Every index has dimension 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy

from qfleet.compiler.network.contraction_path import ContractionPath
from qfleet.compiler.network.light_cones import Cone
from qfleet.compiler.network.network_blocks import diagonal_legs
from qfleet.compiler.state.kernel_fusion import nonzero_entries

_Z = np.array([1, -1], np.complex128)
_OFF_DIAGONAL = {
    "X": np.array([0, 1, 1, 0], np.complex128),
    "Y": np.array([0, -1j, 1j, 0], np.complex128),
}
_START = np.array([1, 0], np.complex128)


@dataclass(frozen=True)
class Tensor:
    """Entries of a block's matrix, or constants.

    Attributes:
        indices: The first is the most significant bit of an element's number.
        block: Number of the block in the cone; None for constants.
        conjugate: If the entries are conjugated.
        entries: [2**rank] numbers row * D + column of the block's matrix, -1 for zero.
        values: [2**rank] constants.
    """

    indices: tuple[int, ...]
    block: int | None = None
    conjugate: bool = False
    entries: tuple[int, ...] = ()
    values: tuple[complex, ...] = ()


@dataclass(frozen=True)
class Instance:
    """A Pauli string whose cone has a network's shape.

    Attributes:
        expressions: The exponents that differ between instances or examples.
        weights: [K] of its value in the readouts.
    """

    expressions: tuple[sympy.Expr, ...]
    weights: np.ndarray


@dataclass(frozen=True)
class Network:
    """A tensor network and its instances."""

    cone: Cone
    tensors: tuple[Tensor, ...]
    path: ContractionPath
    instances: tuple[Instance, ...]


def tensor_network(cone: Cone) -> list[Tensor]:
    """Return the tensors, whose contraction to a number is the expectation value."""
    count = 0
    tensors: list[Tensor] = []
    ends: list[list[int | None]] = []  # the open index of each qubit; None: |0>
    patterns = [nonzero_entries(block) for block in cone.blocks]
    for conjugate in (False, True):
        open_index: list[int | None] = [None] * cone.qubits
        for number, (block, filled) in enumerate(zip(cone.blocks, patterns, strict=True)):
            diagonal = diagonal_legs(filled)
            legs: list[tuple[int | None, int | None]] = []  # (row, column); None: fixed at 0
            for at, qubit in enumerate(block.qubits):
                before = open_index[qubit]
                if at not in diagonal:
                    open_index[qubit] = count
                    count += 1
                legs.append((open_index[qubit], before))
            indices, entries = _elements(legs, filled)
            tensors.append(Tensor(indices, number, conjugate, entries))
        ends.append(open_index)
    renamed: dict[int, int] = {}
    for qubit, (ket, bra) in enumerate(zip(*ends, strict=True)):
        pauli = cone.string.get(qubit)
        if ket is None or bra is None:
            if pauli is None:
                continue
            ket, bra = count, count + 1
            count += 2
            tensors += [Tensor((index,), values=tuple(_START)) for index in (ket, bra)]
        if pauli in _OFF_DIAGONAL:
            tensors.append(Tensor((bra, ket), values=tuple(_OFF_DIAGONAL[pauli])))
            continue
        renamed[bra] = ket
        if pauli == "Z":
            tensors.append(Tensor((ket,), values=tuple(_Z)))
    return [
        replace(one, indices=tuple(renamed.get(index, index) for index in one.indices))
        for one in tensors
    ]


def _elements(
    legs: Sequence[tuple[int | None, int | None]], filled: np.ndarray
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the indices of a block's tensor, and the matrix entry of each element."""
    indices = tuple(
        dict.fromkeys(
            index for leg in zip(*legs, strict=True) for index in leg if index is not None
        )
    )
    size, entries = len(filled), []
    for element in range(2 ** len(indices)):
        bit = {index: element >> (len(indices) - 1 - at) & 1 for at, index in enumerate(indices)}
        row = col = 0
        for of_row, of_col in legs:
            row = 2 * row + (0 if of_row is None else bit[of_row])
            col = 2 * col + (0 if of_col is None else bit[of_col])
        entries.append(row * size + col if filled[row, col] else -1)
    return indices, tuple(entries)
