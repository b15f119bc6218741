"""A program written down for the kernel, as kernel/program.cc reads it. No TensorFlow here."""

from collections.abc import Iterable, Sequence

import numpy as np
import sympy

from qfleet.compiler import cache_blocking, expressions, kernel_fusion
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.factor import Factor
from qfleet.compiler.program import Program

FORMAT = 1  # of what kernel/program.cc reads


class ProgramWriter:
    """A program as kernel/program.cc reads it, and what its exponents are.

    Args:
        program: What is written down.
        plan: The order of its qubits, its blocks and windows.
        prefix: How many blocks come before the first symbol.
        also: Blocks whose exponents are counted too, so that programs share one list of them.
        behind: Whether a gradient is wanted before the first block: by trained symbols alone, or
            by all; then every block is undone.

    Attributes:
        shared: Expressions of trained symbols alone.
        each: Expressions with a data symbol.
        wanted: Whether any block's gradient is wanted: by trained symbols alone, or by all.
    """

    def __init__(
        self,
        program: Program,
        plan: cache_blocking.BlockingPlan,
        prefix: int,
        *,
        also: Iterable[FusedBlock] = (),
        behind: tuple[bool, bool] = (False, False),
    ) -> None:
        self._inputs = frozenset(program.inputs)
        self._factors: dict[tuple, int] = {}
        self._runs: dict[tuple[int, ...], int] = {}
        self._exponents: dict[bool, dict[sympy.Expr, int]] = {False: {}, True: {}}
        self._factor_ints: list[int] = []
        self._reals: list[float] = []
        self._run_ints: list[int] = []
        self._bit = {position: bit for bit, position in enumerate(plan.order)}
        for factor in (factor for block in also for factor in block.factors):
            for expression in factor.exponents:
                self._exponent(expression)
        blocks = self._blocks(plan.blocks, behind)
        self.shared, self.each = list(self._exponents[False]), list(self._exponents[True])
        reals = self._reals
        ints = [FORMAT, len(program.qubits), len(self.shared), len(self.each)]
        ints += [len(self._factors), *self._factor_ints, len(self._runs), *self._run_ints]
        ints += [len(plan.blocks), *blocks, prefix, len(plan.windows)]
        for window in plan.windows:
            bits = sorted(self._bit[position] for position in window.qubits)
            ints += [window.blocks, len(bits), *bits]
        terms = program.readout.terms
        assert terms is not None
        groups: dict[int, list[tuple[int, int, np.ndarray]]] = {}
        for string, weights in zip(terms.strings, terms.weights, strict=True):
            # A position without a bit is what a split state's rank stands for.
            here = [(self._bit[at], pauli) for at, pauli in string.items() if at in self._bit]
            flip = sum(1 << bit for bit, pauli in here if pauli != "Z")
            signs = sum(1 << bit for bit, pauli in here if pauli != "X")
            turned = sum(pauli == "Y" for pauli in string.values())
            groups.setdefault(flip, []).append((signs, turned, weights))
        ints.append(len(groups))
        for flip, group in groups.items():
            ints += [flip, len(group), *(signs for signs, _, _ in group)]
            ints += [turned for _, turned, _ in group]
            for _, _, weights in group:
                reals += list(weights)
        ints.append(len(terms.offsets))
        reals += list(terms.offsets)
        ints.append(int(program.initial is not None))
        if program.initial is not None:
            # From Cirq's order, the first qubit highest, to the plan's.
            axes = program.initial.reshape((2,) * len(plan.order)).transpose(plan.order[::-1])
            reals += list(np.stack([axes.real.ravel(), axes.imag.ravel()], -1).ravel())
        self._ints = ints

    def bytes(self) -> bytes:
        """How many integers there are, the integers, and the real numbers."""
        ints = np.array([len(self._ints), *self._ints], np.int64)
        return ints.tobytes() + np.array(self._reals, np.float64).tobytes()

    def _blocks(self, blocks: Sequence[FusedBlock], behind: tuple[bool, bool]) -> list[int]:
        ints: list[int] = []
        # By what gradients are wanted: by trained symbols alone, or by all.
        wanted = [
            [any(self._wanted(factor, everything) for factor in block.factors) for block in blocks]
            for everything in (False, True)
        ]
        self.wanted = (any(wanted[0]), any(wanted[1]))
        undone = [
            [True] * len(blocks) if before else kernel_fusion.needs_uncompute(blocks, one)
            for one, before in zip(wanted, behind, strict=True)
        ]
        for block, *flags in zip(blocks, *wanted, *undone, strict=True):
            ints += [len(block.qubits), *(self._bit[position] for position in block.qubits)]
            items = self._items(block.factors)
            ints += [len(items), *items]
            ints += map(int, flags)
            ints += [
                _mask(kernel_fusion.block_entries(block)),
                _mask(kernel_fusion.gradient_entries(block)),
            ]
        return ints

    def _wanted(self, factor: Factor, everything: bool) -> bool:
        """Whether a gradient by one of its exponents is wanted."""
        if everything:
            return not factor.fixed
        return any(not self._names(one) & self._inputs for one in factor.exponents)

    def _items(self, factors: Sequence[Factor]) -> list[int]:
        """A block's factors: runs of shared ones, and single ones that differ by example."""
        items: list[int] = []
        run: list[int] = []
        size = len(factors[0].projectors[0])
        for factor in (*factors, None):
            if factor is not None and not factor.symbols & self._inputs:
                run.append(self._factor(factor))
                continue
            if run:
                items.append(self._run(tuple(run), size))
                run = []
            if factor is not None:
                items.append(~self._factor(factor))
        return items

    def _run(self, factors: tuple[int, ...], size: int) -> int:
        if factors not in self._runs:
            self._runs[factors] = len(self._runs)
            self._run_ints += [size, len(factors), *factors]
        return self._runs[factors]

    def _factor(self, factor: Factor) -> int:
        key = (factor.turns.tobytes(), factor.projectors.tobytes(), factor.exponents)
        if key not in self._factors:
            self._factors[key] = len(self._factors)
            self._factor_ints += [len(factor.projectors[0]), len(factor.projectors)]
            self._factor_ints += [len(factor.exponents), *map(self._exponent, factor.exponents)]
            self._reals += list(factor.turns.ravel())
            parts = np.stack([factor.projectors.real, factor.projectors.imag], axis=-1)
            self._reals += list(parts.ravel())
        return self._factors[key]

    def _exponent(self, expression: sympy.Expr) -> int:
        data = bool(self._names(expression) & self._inputs)
        table = self._exponents[data]
        index = table.setdefault(expression, len(table))
        return ~index if data else index

    @staticmethod
    def _names(expression: sympy.Expr) -> frozenset[str]:
        return expressions.symbol_names(expression)


def _mask(entries: np.ndarray) -> int:
    """Bit row * D + col for each entry."""
    return sum(1 << int(at) for at in np.flatnonzero(entries.ravel()))
