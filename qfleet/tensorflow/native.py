"""The native engine: a serialized program, and its C++ operations as one TensorFlow function.

The C++ engine takes exponents, blocks and Pauli strings. The map from symbols to exponents, and its
derivative, are TensorFlow operations: a small matrix product for the exponents of all gates.
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
from qfleet.engine.cpus import usable_cpu_count
from qfleet.tensorflow.dense import TensorFlowSimulator
from qfleet.tensorflow.description import describe_native
from qfleet.tensorflow.exponents import BatchGateExponents
from qfleet.tensorflow.runtime import is_watched, tf
from qfleet.tensorflow.simulator import COMPLEX_DTYPES, REAL_DTYPES, Simulator


@final
class NativeSimulator(Simulator):
    """Runs a program in the C++ engine, differentiated by the adjoint method.

    Jones and Gacon, "Efficient calculation of gradients in classical simulations of variational
    quantum algorithms" (arXiv:2009.02823).

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients; none for the state.
        dtype: "complex64" or "complex128".

    Raises:
        CircuitError: The circuit, its symbols or the observables are not supported.
        MemoryLimitError: A state does not fit into the free memory.
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
        self.program = compile_program(circuit, inputs, parameters, readouts, target="native")
        self.inputs, self.parameters = self.program.inputs, self.program.parameters
        self.qubits = self.program.qubits
        self.readouts = len(readouts)
        self.dtype = REAL_DTYPES[dtype]
        self._complex = COMPLEX_DTYPES[dtype]
        self._source = (circuit, tuple(inputs), tuple(parameters), tuple(readouts), dtype)
        self.require_memory(1)
        self._free = memory.available_bytes()
        blocks = self.program.blocks
        self.prefix = _count_prefix(blocks)
        width = len(self.qubits)
        self.plan = cache_blocking.plan_cache_blocks(
            [blocks[: self.prefix], blocks[self.prefix :]],
            width,
            cache_blocking.CACHE_BLOCK_QUBITS[dtype],
        )
        writer = ProgramWriter(self.program, self.plan, self.prefix)
        self._serialized = writer.bytes()
        self._exponents = BatchGateExponents(
            writer.shared, writer.per_example, self.inputs, self.parameters
        )
        self._mixed = self._exponents.mixed
        # Bit i of the engine's index is this bit of Cirq's, where the first qubit is the highest.
        self._order = [width - 1 - position for position in self.plan.order]

    @cached_property
    def _dense(self) -> TensorFlowSimulator:
        """The same circuit in plain TensorFlow, for second derivatives."""
        *circuit, dtype = self._source
        return TensorFlowSimulator(compile_program(*circuit), dtype=dtype)

    def describe(self, batch: int | None = None, angles: np.ndarray | None = None) -> str:
        """Describe the compiled program and the plan for a batch.

        Args:
            batch: Number of examples; those that fill a SIMD vector unless given.
            angles: [B, inputs] a batch, to report if the subspace plan applies; its length takes
                the place of `batch`.
        """
        lanes = native.simd_lanes(self.dtype.size)
        return describe_native(
            self.program,
            self.plan,
            prefix=self.prefix,
            real_bytes=self.dtype.size,
            batch=len(angles) if angles is not None else batch or lanes,
            threads=tf.config.threading.get_intra_op_parallelism_threads() or usable_cpu_count(),
            subspace=None if angles is None else self.subspace_size(angles),
        )

    def subspace_size(self, angles: np.ndarray) -> int:
        """Return the number of states that span the states of a batch.

        Args:
            angles: [B, inputs] values of the data symbols.

        Returns:
            The number of states; 0 if the engine evolves each example.
        """
        angles = tf.convert_to_tensor(angles, self.dtype)
        exponents = self._exponents(angles, tf.zeros([len(self.parameters)], self.dtype))
        size = native.ops().qfleet_subspace_size(
            *exponents, program=self._serialized, **self._plan_attributes(True)
        )
        return int(size)

    def swap_count(self, bits: int) -> int:
        """Return the index-bit swaps of a forward pass that is sharded over 2**bits processes.

        Raises:
            ShardingError: There are too few qubits.
        """
        *circuit, _ = self._source
        program = compile_program(*circuit, target="sharded")
        return len(plan.plan_for_program(program, bits).swaps)

    # AutoGraph would take longer than everything else in tracing.
    @tf.autograph.experimental.do_not_convert
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the readouts; see Simulator.expectation."""
        angles, parameters = self._checked_arguments(angles, parameters)
        by_angles, by_parameters = is_watched(angles), is_watched(parameters)
        if by_angles or by_parameters:
            self.require_memory(2)

        @tf.custom_gradient
        def values(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            result, kept = native.ops().qfleet_expectation(
                *self._exponents(angles, parameters),
                program=self._serialized,
                T=self.dtype,
                keep=bool(by_angles or by_parameters),
                **self._plan_attributes(not by_angles),
            )

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return self._gradients(
                    "qfleet_expectation_gradient",
                    lambda *symbols: self._dense.expectation(*symbols),
                    angles,
                    parameters,
                    upstream,
                    operands=(upstream, kept),
                    by_each=self._mixed or by_angles is not False,
                    **self._plan_attributes(by_angles is False),
                )

            return result, gradient

        result = values(angles, parameters)
        return tf.ensure_shape(result, [angles.shape[0], self.readouts])

    @tf.autograph.experimental.do_not_convert
    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the state vectors; see Simulator.state."""
        self._require_state_output()
        angles, parameters = self._checked_arguments(angles, parameters)
        by_angles = is_watched(angles)

        @tf.custom_gradient
        def states(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            result = native.ops().qfleet_state(
                *self._exponents(angles, parameters),
                program=self._serialized,
                T=self._complex,
                order=self._order,
            )

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return self._gradients(
                    "qfleet_state_gradient",
                    lambda *symbols: self._dense.state(*symbols),
                    angles,
                    parameters,
                    upstream,
                    operands=(result, upstream),
                    by_each=self._mixed or by_angles is not False,
                    order=self._order,
                )

            return result, gradient

        result = states(angles, parameters)
        return tf.ensure_shape(result, [angles.shape[0], 2 ** len(self.qubits)])

    def _plan_attributes(self, subspace: bool) -> dict[str, Any]:
        """Attributes of the plan: if the subspace plan is allowed, and bytes for kept states.

        The subspace plan has no gradient by what differs per example. Forward and adjoint pass must
        choose the same plan, so both get the free bytes at construction.
        """
        return {"span": subspace and not self._mixed, "room": self._free // 4}

    def _gradients(
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
        """Compute the gradients by angles and parameters, which are differentiable again.

        Args:
            op: Name of the adjoint operation.
            plain: The same function in plain TensorFlow, for second derivatives.
            angles: [B, inputs].
            parameters: [parameters].
            upstream: Gradient by the function's result.
            operands: Further operands of the operation.
            by_each: If gradients by the per-example exponents are needed.
            attributes: Further attributes of the operation.
        """

        @tf.custom_gradient
        def first(angles: tf.Tensor, parameters: tf.Tensor, upstream: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([angles, parameters])
                exponents = self._exponents(angles, parameters)
            by_shared, by_example = getattr(native.ops(), op)(
                *exponents, *operands, by_each=by_each, program=self._serialized, **attributes
            )
            targets, gradients = [exponents[0]], [by_shared]
            if by_each:
                targets.append(exponents[1])
                gradients.append(by_example)
            result = tape.gradient(
                targets, [angles, parameters], gradients, unconnected_gradients="zero"
            )

            def second(*second_upstream: tf.Tensor) -> Any:
                sources = [angles, parameters, upstream]
                with tf.GradientTape() as outer:
                    outer.watch(sources)
                    with tf.GradientTape() as inner:
                        inner.watch(sources[:2])
                        values = plain(angles, parameters)
                    gradients = inner.gradient(
                        values, sources[:2], upstream, unconnected_gradients="zero"
                    )
                return outer.gradient(
                    gradients, sources, second_upstream, unconnected_gradients="zero"
                )

            return result, second

        return tuple(first(angles, parameters, upstream))


def _count_prefix(blocks: Sequence[FusedBlock]) -> int:
    """Count the blocks before the first symbol."""
    for at, block in enumerate(blocks):
        if any(factor.symbols for factor in block.factors):
            return at
    return len(blocks)
