"""The native backend: a program written down for the kernel, and its ops as one function.

The kernel (kernel/*.cc) knows exponents, blocks and Pauli strings; what symbols mean, and their
derivatives, stay with TensorFlow: the exponents of all gates are a small matrix product.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import cirq
import numpy as np

from qfleet import native
from qfleet.compiler import cache_blocking
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.program import compile_program
from qfleet.compiler.serialize import ProgramWriter
from qfleet.distributed import plan
from qfleet.engine import memory
from qfleet.tensorflow import description
from qfleet.tensorflow.dense import TensorFlowSimulator
from qfleet.tensorflow.exponents import BatchGateExponents
from qfleet.tensorflow.runtime import is_watched, tf
from qfleet.tensorflow.simulator import COMPLEX_DTYPES, REAL_DTYPES, Simulator


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
        self.dtype = REAL_DTYPES[dtype]
        self._complex = COMPLEX_DTYPES[dtype]
        self._source = (circuit, tuple(inputs), tuple(parameters), tuple(readouts), dtype)
        self.require_memory(1)
        self._free = memory.available_bytes()
        blocks = [step for step in self.program.steps if isinstance(step, FusedBlock)]
        prefix = _prefix(blocks)
        stages = [blocks[:prefix], blocks[prefix:]]
        self.prefix = prefix
        self.plan = cache_blocking.plan_cache_blocks(
            stages, len(self.qubits), cache_blocking.WINDOW_QUBITS[dtype]
        )
        written = ProgramWriter(self.program, self.plan, prefix)
        self._written = written.bytes()
        self._exponents = BatchGateExponents(
            written.shared, written.each, self.inputs, self.parameters
        )
        self._mixed = self._exponents.mixed
        width = len(self.qubits)
        # Bit i of the kernel's index is this bit of Cirq's, where the first qubit is the highest.
        self._order = [width - 1 - position for position in self.plan.order]

    @cached_property
    def _dense(self) -> TensorFlowSimulator:
        """The same in plain TensorFlow, for the derivatives of derivatives."""
        *circuit, dtype = self._source
        return TensorFlowSimulator(compile_program(*circuit), dtype=dtype)

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
        found = native.ops().qfleet_span(*exponents, program=self._written, **self._room(True))
        return int(found)

    def split_exchanges(self, bits: int) -> int:
        """How often states that 2**bits workers hold together would be exchanged, to be read.

        Raises:
            CircuitError: There are too few qubits.
        """
        *circuit, _ = self._source
        return len(plan.plan_for_program(compile_program(*circuit, target="split"), bits).exchanges)

    @tf.autograph.experimental.do_not_convert  # which would take longer than all the rest
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """See Simulator.expectation."""
        angles, parameters = self._taken(angles, parameters)
        by_angles, by_parameters = is_watched(angles), is_watched(parameters)
        if by_angles or by_parameters:
            self.require_memory(2)

        @tf.custom_gradient
        def values(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            found, kept = native.ops().qfleet_expectation(
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
        by_angles = is_watched(angles)

        @tf.custom_gradient
        def states(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            found = native.ops().qfleet_state(
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
            by_shared, by_example = getattr(native.ops(), op)(
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


def _prefix(blocks: Sequence[FusedBlock]) -> int:
    """How many blocks come before the first symbol."""
    for at, block in enumerate(blocks):
        if any(factor.symbols for factor in block.factors):
            return at
    return len(blocks)
