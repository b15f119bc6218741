"""Blocks of a tensor network: products of factors that keep the structure of their matrices.

A gate that is diagonal in a qubit, such as CZ in both and CNOT in its control, has one index for
that qubit instead of two. If such a qubit is not measured later, the state and its conjugate even
share the index. So factors are joined only if no block loses a diagonal qubit by it.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qfleet.compiler.circuit import fused_blocks
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.state.kernel_fusion import nonzero_pattern


@dataclass(eq=False)
class _Builder:
    qubits: tuple[int, ...]
    has_inputs: bool
    diagonal: frozenset[int]  # qubits
    factors: list[Factor] = field(default_factory=list)


def network_blocks(factors: Sequence[Factor], inputs: frozenset[str]) -> list[FusedBlock]:
    """Join factors to blocks on one and two qubits.

    Args:
        factors: In circuit order, with positions as qubits.
        inputs: Names of the data symbols. Factors with data are joined among themselves only, so
            that the matrices of all other blocks are shared by the batch.
    """
    blocks: list[_Builder] = []
    last: dict[int, _Builder] = {}  # the newest block on each qubit
    for factor in factors:
        has_inputs = bool(factor.symbols & inputs)
        block = _block_to_join(factor, has_inputs, last)
        if block is None:
            block = _Builder(factor.qubits, has_inputs, diagonal_qubits(factor))
            for qubit in factor.qubits:
                before = last.get(qubit)
                if before and before.qubits == (qubit,) and _joins(before, block, qubit):
                    block.factors += before.factors
                    blocks.remove(before)
            blocks.append(block)
            last.update(dict.fromkeys(factor.qubits, block))
        block.factors.append(factor)
    return [fused_blocks.make_block(one.qubits, one.factors, inputs) for one in blocks]


def _block_to_join(factor: Factor, has_inputs: bool, last: dict[int, _Builder]) -> _Builder | None:
    """Return the block before a factor if the factor can become a part of it."""
    found = {id(last.get(qubit)): last.get(qubit) for qubit in factor.qubits}
    block = next(iter(found.values()))
    if len(found) > 1 or block is None or block.has_inputs != has_inputs:
        return None
    if len(factor.qubits) == 1:
        alone = block.qubits == factor.qubits
        return block if alone or factor.qubits[0] not in block.diagonal else None
    same = set(block.qubits) == set(factor.qubits)
    return block if same and block.diagonal == diagonal_qubits(factor) else None


def _joins(single: _Builder, block: _Builder, qubit: int) -> bool:
    return (
        len(block.qubits) == 2
        and single.has_inputs == block.has_inputs
        and qubit not in block.diagonal
    )


def diagonal_qubits(factor: Factor) -> frozenset[int]:
    """Return the qubits in which a factor is diagonal for all symbol values."""
    projectors = factor.projectors
    legs = _factor_legs(projectors.tobytes(), projectors.dtype.str, projectors.shape)
    return frozenset(factor.qubits[at] for at in legs)


@functools.lru_cache(maxsize=256)
def _factor_legs(projectors: bytes, dtype: str, shape: tuple[int, ...]) -> list[int]:
    return diagonal_legs(nonzero_pattern(np.frombuffer(projectors, dtype).reshape(shape)))


def diagonal_legs(nonzero: np.ndarray) -> list[int]:
    """Return the qubits in which a matrix is diagonal.

    Args:
        nonzero: [D, D] bool, its possible nonzero entries.
    """
    rows, cols = np.nonzero(nonzero)
    changed = rows ^ cols
    width = len(nonzero).bit_length() - 1
    return [at for at in range(width) if not (changed >> (width - 1 - at) & 1).any()]
