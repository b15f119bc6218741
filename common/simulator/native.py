"""The native backend: a program written down for the kernel, and its ops as one function.

The kernel (kernel/*.cc) knows exponents, blocks and Pauli strings; what symbols mean, and their
derivatives, stay with TensorFlow: the exponents of all gates are a small matrix product.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import cirq
import numpy as np
import sympy

from common.simulator import description, expressions, kernel, memory, weaving, windows
from common.simulator.dense import DenseSimulator
from common.simulator.exponents import Exponents
from common.simulator.factor import Factor
from common.simulator.fusion import Block
from common.simulator.interface import COMPLEX, REAL, Simulator
from common.simulator.program import Program, compile_program
from common.tensorflow import tf, watched

FORMAT = 1  # of what kernel/program.cc reads


@final
class NativeSimulator(Simulator):
    """Runs a program in the C++ kernel, differentiated by the adjoint method.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients; none for the state alone.
        dtype: "complex64" or "complex128".

    Raises:
        CircuitError: The circuit, its symbols or the observables can't be taken.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        readouts: Sequence[cirq.PauliSum],
        *,
        dtype: str = "complex64",
    ) -> None:
        self.program = compile_program(circuit, inputs, parameters, readouts, target="kernel")
        self.inputs, self.parameters = self.program.inputs, self.program.parameters
        self.qubits = self.program.qubits
        self.readouts = len(readouts)
        self.dtype = REAL[dtype]
        self._complex = COMPLEX[dtype]
        self._source = (circuit, tuple(inputs), tuple(parameters), tuple(readouts), dtype)
        self.require_memory(1)
        self._free = memory.available()
        blocks = [step for step in self.program.steps if isinstance(step, Block)]
        prefix = _prefix(blocks)
        stages = [blocks[:prefix], blocks[prefix:]]
        self.prefix = prefix
        self.plan = windows.plan(stages, len(self.qubits), windows.WINDOW[dtype])
        written = _Written(self.program, self.plan, prefix)
        self._written = written.bytes()
        # A trained symbol inside an exponent that differs by example has its gradient from there.
        trained = set(self.parameters)
        self._mixed = any(expressions.symbol_names(one) & trained for one in written.each)
        names = (*self.inputs, *self.parameters) if self._mixed else self.inputs
        self._shared = Exponents(written.shared, self.parameters, tf.float64)
        self._each = Exponents(written.each, names, tf.float64)
        width = len(self.qubits)
        # Bit i of the kernel's index is this bit of Cirq's, where the first qubit is the highest.
        self._order = [width - 1 - position for position in self.plan.order]

    @cached_property
    def _dense(self) -> DenseSimulator:
        """The same in plain TensorFlow, for the derivatives of derivatives."""
        *circuit, dtype = self._source
        return DenseSimulator(compile_program(*circuit), dtype=dtype)

    def describe(self, batch: int | None = None, angles: np.ndarray | None = None) -> str:
        """What will be computed, for a person to read.

        Args:
            batch: How many examples at once; a vector's full of them unless given.
            angles: [B, inputs] the examples themselves, where it is asked whether few states span
                them; then `batch` is their number.
        """
        return description.describe(self, batch, angles)

    def span(self, angles: np.ndarray) -> int:
        """How many states span examples with these [B, inputs] angles; 0 for the direct plan."""
        angles = tf.convert_to_tensor(angles, self.dtype)
        exponents = self._exponents(angles, tf.zeros([len(self.parameters)], self.dtype))
        found = kernel.ops().qfleet_span(*exponents, program=self._written, **self._room(True))
        return int(found)

    @tf.autograph.experimental.do_not_convert  # which would take longer than all the rest
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """See Simulator.expectation."""
        angles, parameters = self._taken(angles, parameters)
        by_angles, by_parameters = watched(angles), watched(parameters)
        if by_angles or by_parameters:
            self.require_memory(2)

        @tf.custom_gradient
        def values(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            found, kept = kernel.ops().qfleet_expectation(
                *self._exponents(angles, parameters),
                program=self._written,
                T=self.dtype,
                keep=bool(by_angles or by_parameters),
                **self._room(not by_angles),
            )

            def slopes(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return self._slopes(
                    "qfleet_expectation_gradient",
                    lambda *symbols: self._dense.expectation(*symbols),
                    angles,
                    parameters,
                    upstream,
                    operands=(upstream, kept),
                    by_each=self._mixed or by_angles is not False,
                    **self._room(by_angles is False),
                )

            return found, slopes

        found = values(angles, parameters)
        return tf.ensure_shape(found, [angles.shape[0], self.readouts])

    @tf.autograph.experimental.do_not_convert
    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """See Simulator.state."""
        self._whole_state()
        angles, parameters = self._taken(angles, parameters)
        by_angles = watched(angles)

        @tf.custom_gradient
        def states(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            found = kernel.ops().qfleet_state(
                *self._exponents(angles, parameters),
                program=self._written,
                T=self._complex,
                order=self._order,
            )

            def slopes(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return self._slopes(
                    "qfleet_state_gradient",
                    lambda *symbols: self._dense.state(*symbols),
                    angles,
                    parameters,
                    upstream,
                    operands=(found, upstream),
                    by_each=self._mixed or by_angles is not False,
                    order=self._order,
                )

            return found, slopes

        found = states(angles, parameters)
        return tf.ensure_shape(found, [angles.shape[0], 2 ** len(self.qubits)])

    def _room(self, span: bool) -> dict[str, Any]:
        """Whether the subspace plan may be taken, and the bytes that waiting states may take."""
        # It has no gradient by what differs from example to example.
        # The same number for forward and gradient, which must take the same plan.
        return {"span": span and not self._mixed, "room": self._free // 4}

    def _exponents(self, angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """[E] exponents that the batch shares and [B, F] those of each example, in float64."""
        symbols, parameters = tf.cast(angles, tf.float64), tf.cast(parameters, tf.float64)
        shared = self._shared(parameters[tf.newaxis])[0]
        if self._mixed:
            rows = tf.broadcast_to(parameters, [tf.shape(angles)[0], len(self.parameters)])
            symbols = tf.concat([symbols, rows], axis=1)
        return shared, self._each(symbols)

    def _slopes(
        self,
        op: str,
        plain: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        angles: tf.Tensor,
        parameters: tf.Tensor,
        upstream: tf.Tensor,
        *,
        operands: tuple[tf.Tensor, tf.Tensor],
        by_each: bool,
        **attributes: Any,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The gradients by angles and parameters, which can be differentiated once more."""

        @tf.custom_gradient
        def first(angles: tf.Tensor, parameters: tf.Tensor, upstream: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([angles, parameters])
                exponents = self._exponents(angles, parameters)
            by_shared, by_example = getattr(kernel.ops(), op)(
                *exponents, *operands, by_each=by_each, program=self._written, **attributes
            )
            targets, slopes = [exponents[0]], [by_shared]
            if by_each:
                targets.append(exponents[1])
                slopes.append(by_example)
            found = tape.gradient(
                targets, [angles, parameters], slopes, unconnected_gradients="zero"
            )

            def second(*onward: tf.Tensor) -> Any:
                sources = [angles, parameters, upstream]
                with tf.GradientTape() as outer:
                    outer.watch(sources)
                    with tf.GradientTape() as inner:
                        inner.watch(sources[:2])
                        values = plain(angles, parameters)
                    again = inner.gradient(
                        values, sources[:2], upstream, unconnected_gradients="zero"
                    )
                return outer.gradient(again, sources, onward, unconnected_gradients="zero")

            return found, second

        return tuple(first(angles, parameters, upstream))


def _prefix(blocks: Sequence[Block]) -> int:
    """How many blocks come before the first symbol."""
    for at, block in enumerate(blocks):
        if any(factor.symbols for factor in block.factors):
            return at
    return len(blocks)


class _Written:
    """A program as kernel/program.cc reads it, and what its exponents are.

    Attributes:
        shared: Expressions of trained symbols alone.
        each: Expressions with a data symbol.
    """

    def __init__(self, program: Program, plan: windows.Plan, prefix: int) -> None:
        self._inputs = frozenset(program.inputs)
        self._factors: dict[tuple, int] = {}
        self._runs: dict[tuple[int, ...], int] = {}
        self._exponents: dict[bool, dict[sympy.Expr, int]] = {False: {}, True: {}}
        self._factor_ints: list[int] = []
        self._reals: list[float] = []
        self._run_ints: list[int] = []
        self._bit = {position: bit for bit, position in enumerate(plan.order)}
        blocks = self._blocks(plan.blocks)
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
            flip = sum(1 << self._bit[at] for at, pauli in string.items() if pauli != "Z")
            signs = sum(1 << self._bit[at] for at, pauli in string.items() if pauli != "X")
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

    def _blocks(self, blocks: Sequence[Block]) -> list[int]:
        ints: list[int] = []
        # By what gradients are wanted: by trained symbols alone, or by all.
        wanted = [
            [any(self._wanted(factor, everything) for factor in block.factors) for block in blocks]
            for everything in (False, True)
        ]
        undone = [weaving.undone(blocks, one) for one in wanted]
        for block, *flags in zip(blocks, *wanted, *undone, strict=True):
            ints += [len(block.qubits), *(self._bit[position] for position in block.qubits)]
            items = self._items(block.factors)
            ints += [len(items), *items]
            ints += map(int, flags)
            ints += [_mask(weaving.entries(block)), _mask(weaving.closure(block))]
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
