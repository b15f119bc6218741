"""Serialization of programs (read by native/program/program.cc). Needs no framework."""

from collections.abc import Iterable, Mapping

import numpy as np

from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.circuit.gate_tables import GateTables
from qfleet.compiler.circuit.observables import PauliTerms
from qfleet.compiler.state import cache_blocking, kernel_fusion
from qfleet.compiler.writer import Writer

FORMAT = 1  # version that native/program/program.cc reads


class ProgramWriter(Writer):
    """A serialized program and its exponents.

    Args:
        inputs: Names of the data symbols.
        terms: The Pauli strings of the readouts.
        plan: The order of the qubits, the blocks and the cache blocks.
        prefix: Number of blocks before the first symbol.
        initial: As of `Program`.
        takes_states: As of `Program`.
        extra_blocks: Blocks whose exponents are listed too, so that several programs share one
            list of exponents.
        gradient_before: If gradients are needed before the first block: by trained symbols only,
            and by all symbols. Then every block is uncomputed.

    Attributes:
        has_gradient: If any block has a gradient: by trained symbols only, and by all symbols.
    """

    def __init__(
        self,
        inputs: Iterable[str],
        terms: PauliTerms,
        plan: cache_blocking.BlockingPlan,
        *,
        prefix: int = 0,
        initial: np.ndarray | None = None,
        takes_states: bool = False,
        extra_blocks: Iterable[FusedBlock] = (),
        gradient_before: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__(inputs)
        self._gates = GateTables(self._exponent)
        self._reals = self._gates.reals
        self._bit = {position: bit for bit, position in enumerate(plan.order)}
        for factor in (factor for block in extra_blocks for factor in block.factors):
            for expression in factor.exponents:
                self._exponent(expression)
        blocks = self._write_blocks(plan, gradient_before)
        ints = [FORMAT, len(plan.order), len(self.shared), len(self.per_example)]
        ints += [*self._gates.ints(), len(plan.blocks), *blocks, prefix, len(plan.cache_blocks)]
        for cache_block in plan.cache_blocks:
            bits = sorted(self._bit[position] for position in cache_block.qubits)
            ints += [cache_block.block_count, len(bits), *bits]
        groups, weights = pauli_groups(terms, self._bit)
        ints += [*groups, len(terms.offsets)]
        self._reals += [*weights, *terms.offsets]
        ints.append(2 if takes_states else int(initial is not None))
        if initial is not None:
            # From Cirq's bit order, the first qubit highest, to the plan's.
            axes = initial.reshape((2,) * len(plan.order)).transpose(plan.order[::-1])
            self._reals += np.stack([axes.real.ravel(), axes.imag.ravel()], -1).ravel().tolist()
        self._ints = ints

    def _write_blocks(
        self, plan: cache_blocking.BlockingPlan, gradient_before: tuple[bool, bool]
    ) -> list[int]:
        blocks = plan.blocks
        ints: list[int] = []
        # For gradients by trained symbols only, and by all symbols.
        gradients = [
            [any(self._has_gradient(one, all_symbols) for one in block.factors) for block in blocks]
            for all_symbols in (False, True)
        ]
        self.has_gradient = (any(gradients[0]), any(gradients[1]))
        uncompute = [
            [True] * len(blocks)
            if before
            else kernel_fusion.needs_uncompute(blocks, gradient, from_zero=plan.from_zero)
            for gradient, before in zip(gradients, gradient_before, strict=True)
        ]
        for block, *flags in zip(blocks, *gradients, *uncompute, strict=True):
            ints += [len(block.qubits), *(self._bit[position] for position in block.qubits)]
            items = self._gates.items(block.factors)
            ints += [len(items), *items]
            ints += map(int, flags)
            ints += [
                _mask(kernel_fusion.block_entries(block)),
                _mask(kernel_fusion.gradient_entries(block)),
            ]
        return ints

    def _has_gradient(self, factor: Factor, all_symbols: bool) -> bool:
        """Return True if a gradient by one of the factor's exponents is needed."""
        if all_symbols:
            return not factor.fixed
        return any(not expressions.symbol_names(one) & self._inputs for one in factor.exponents)


def pauli_groups(terms: PauliTerms, bit: Mapping[int, int]) -> tuple[list[int], list[float]]:
    """Return the integers and the weights of Pauli strings, grouped by the bits that they flip.

    Args:
        terms: The strings.
        bit: Bit of each position; a global qubit of a sharded state, part of the process's rank,
            has none.
    """
    groups: dict[int, list[tuple[int, int, np.ndarray]]] = {}
    for string, weights in zip(terms.strings, terms.weights, strict=True):
        local = [(bit[at], pauli) for at, pauli in string.items() if at in bit]
        flip = sum(1 << bit for bit, pauli in local if pauli != "Z")
        signs = sum(1 << bit for bit, pauli in local if pauli != "X")
        y_count = sum(pauli == "Y" for pauli in string.values())
        groups.setdefault(flip, []).append((signs, y_count, weights))
    ints, reals = [len(groups)], list[float]()
    for flip, group in groups.items():
        ints += [flip, len(group), *(signs for signs, _, _ in group)]
        ints += [y_count for _, y_count, _ in group]
        for _, _, weights in group:
            reals += list(weights)
    return ints, reals


def _mask(entries: np.ndarray) -> int:
    """Return an integer whose bit row * D + column is set for each entry."""
    return sum(1 << int(at) for at in np.flatnonzero(entries.ravel()))
