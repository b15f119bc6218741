"""The native engine on states that the processes of a group hold together (see state_group.py).

distributed/plan.py divides the circuit into a seed, which every process simulates, and stages, in
which each process applies blocks to its part of the state. A circuit with one stage, such as a
QCNN, communicates only the sums of its readouts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, final

import cirq
import numpy as np

from qfleet import native
from qfleet.compiler.state import cache_blocking
from qfleet.compiler.state.program import compile_program
from qfleet.distributed import plan
from qfleet.distributed.stage_programs import seed_program, stage_programs
from qfleet.distributed.state_group import StateGroup
from qfleet.engine import library, memory
from qfleet.errors import ShardingError
from qfleet.tensorflow.engine_simulator import NO_STATES
from qfleet.tensorflow.exponents import BatchGateExponents
from qfleet.tensorflow.framework import is_watched, tf
from qfleet.tensorflow.shard_exchange import ShardExchange
from qfleet.tensorflow.sharded_stages import StageOps
from qfleet.tensorflow.simulator import COMPLEX_DTYPES, REAL_DTYPES, Gradient, Simulator


@final
class ShardedSimulator(Simulator):
    """One process's part of a circuit's simulation.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients, at least one.
        group: The processes that hold the states.
        dtype: "complex64" or "complex128".
        takes_states: If each example starts at a state of its own.

    Raises:
        CircuitError: The circuit, its symbols or the observables are not supported.
        ShardingError: There are no observables, or too few qubits for the group.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        readouts: Sequence[cirq.PauliSum],
        group: StateGroup,
        *,
        dtype: str = "complex64",
        takes_states: bool = False,
    ) -> None:
        if not readouts:
            raise ShardingError(
                "state vectors and shots are not available for a circuit that is sharded over"
                f" {group.size} processes: read expectation values, or do not shard the state"
            )
        self.group = group
        self.takes_states = takes_states
        self.program = compile_program(
            *(circuit, inputs, parameters, readouts), target="sharded", takes_states=takes_states
        )
        self.inputs, self.parameters = self.program.inputs, self.program.parameters
        self.qubits = self.program.qubits
        self.readouts = len(readouts)
        self.dtype = REAL_DTYPES[dtype]
        self._complex = COMPLEX_DTYPES[dtype]
        self.plan = plan.plan_for_program(self.program, group.bits)
        self.require_memory(1)
        # Forward and adjoint pass must make the same decisions, so they get the same number.
        self._room = memory.available_bytes() // 4
        chunk_qubits = cache_blocking.CACHE_BLOCK_QUBITS[dtype]
        self._seed = seed_program(self.program, self.plan, group, chunk_qubits)
        writer = self._seed.writer
        self._seed_bytes = writer.bytes()
        before = (True, True) if takes_states else writer.has_gradient
        stages = stage_programs(self.program, self.plan, group, chunk_qubits, before)
        self._reads_other_shards = bool(stages.crossing)
        self._stages = StageOps(stages, group, self.dtype, self.readouts)
        self._exponents = BatchGateExponents(
            writer.shared, writer.per_example, self.inputs, self.parameters
        )

    def require_memory(self, states: int, processes: int = 1) -> None:
        """Check the memory as Simulator.require_memory; the group's processes share each state."""
        memory.require_memory(
            len(self.qubits), self._complex.size, states, processes, self.group.size
        )

    def describe(self, batch: int | None = None) -> str:
        """Describe the stages and the communication; see Simulator.describe."""
        return "\n".join(self._description(batch or 1))

    def _description(self, batch: int) -> Iterator[str]:
        plan, size, width = self.plan, self.group.size, len(self.qubits)
        part_bytes = memory.state_bytes(width, self._complex.size) // size
        yield (
            f"{width} qubits sharded over {size} processes: {part_bytes:,} bytes per state in each,"
            f" twice that ({2 * part_bytes:,} bytes) per example in training"
        )
        yield (
            f"seed of {len(plan.seed)} qubits and {len(plan.seed_blocks)} blocks, simulated by"
            " every process"
        )
        for stage in plan.stages:
            where = ", ".join(str(self.qubits[position]) for position in stage.globals)
            yield f"stage of {len(stage.blocks)} blocks with global qubits {where}"
        inference, training = self.bytes_sent(batch)
        yield (
            f"{len(plan.swaps)} index-bit swaps in the forward pass; bytes sent per process and"
            f" batch of {batch}: {inference:,} in inference, {training:,} in training"
        )

    def bytes_sent(self, batch: int) -> tuple[int, int]:
        """Return the bytes of states that each process sends, in inference and in training.

        Args:
            batch: Number of examples.
        """
        state = memory.state_bytes(len(self.qubits), self._complex.size, batch) // self.group.size
        once = state * (self.group.size - 1) // self.group.size * len(self.plan.swaps)
        crossing = state * (self.group.size - 1) * self._reads_other_shards
        # In training the states are evolved twice, and states and adjoint states return.
        return once + crossing, (4 * once + 2 * crossing)

    @tf.autograph.experimental.do_not_convert
    def expectation(
        self, angles: tf.Tensor, parameters: tf.Tensor, *initial_states: tf.Tensor
    ) -> tf.Tensor:
        """Compute the readouts; see Simulator.expectation, and state_group.py for gradients."""
        symbols = self._checked_arguments(angles, parameters, *initial_states)
        watched = [is_watched(one) for one in symbols]
        by_angles, keep = watched[0], any(watched)
        if keep:
            self.require_memory(2)
        by_each = self._exponents.mixed or by_angles is not False

        @tf.custom_gradient
        def values(*symbols: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
            exponents = self._exponents(*symbols[:2])
            whole = self._seeds(exponents, *symbols[2:])
            partial, kept = self._stages.forward(exponents, self._own_part(whole), keep, self._room)
            result = self._sum_over_processes(partial)

            def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
                @tf.custom_gradient
                def first(
                    upstream: tf.Tensor, *symbols: tf.Tensor
                ) -> tuple[list[tf.Tensor], Callable[..., NoReturn]]:
                    gradients = self._gradients(
                        symbols[0], symbols[1], upstream, whole=whole, kept=kept, by_each=by_each
                    )
                    return gradients, self._refuse_second_derivative

                by_symbols: tuple[tf.Tensor, ...] = first(
                    self._sum_over_processes(upstream), *symbols
                )
                return by_symbols

            return result, gradient

        result = values(*symbols)
        return tf.ensure_shape(result, [symbols[0].shape[0], self.readouts])

    def _seeds(self, exponents: tuple[tf.Tensor, tf.Tensor], *states: tf.Tensor) -> tf.Tensor:
        """Return the seeds [B, 2**m], or the initial states in the order of the plan."""
        if states:
            return tf.gather(states[0], self._seed.amplitudes, axis=1)
        return native.ops().qfleet_state(
            *exponents,
            initial_states=NO_STATES,
            program=self._seed_bytes,
            T=self._complex,
            order=list(self._seed.order),
        )

    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Raise ValueError: no process has the whole state."""
        self._require_state_output()
        raise AssertionError("a sharded simulator reads observables")

    def _sum_over_processes(self, rows: tf.Tensor) -> tf.Tensor:
        """Sum [B, readouts] over the processes, and check that their SIMD widths are equal."""
        # The additional row holds the SIMD width, and makes an empty batch nonempty.
        lanes = library.simd_lanes(self.dtype.size)
        mark = tf.fill([1, self.readouts], tf.constant(lanes, self.dtype))
        total = ShardExchange(self.group).all_reduce_sum(tf.concat([rows, mark], axis=0))
        if self.plan.swaps:
            equal = tf.debugging.assert_equal(
                total[-1],
                mark[0] * self.group.size,
                "the processes that hold a state together have CPUs of different SIMD widths: run"
                " them on machines of one kind, or do not shard the state",
            )
            with tf.control_dependencies([equal] if equal is not None else []):
                return tf.identity(total[:-1])
        return total[:-1]

    def _own_part(self, whole: tf.Tensor) -> tf.Tensor:
        """Take this process's part [B, 2 * amplitudes] of [B, 2**m] seeds, as (re, im)."""
        own = whole[:, self._seed.own]
        parts = tf.stack([tf.math.real(own), tf.math.imag(own)], axis=-1)
        reals = 2 * (self._seed.own.stop - self._seed.own.start)
        return tf.cast(tf.reshape(parts, [-1, reals]), tf.float64)

    def _refuse_second_derivative(self, *_: tf.Tensor) -> NoReturn:
        raise ShardingError(
            f"a circuit that is sharded over {self.group.size} processes has no second"
            " derivatives: do not shard the state"
        )

    def _gradients(
        self,
        angles: tf.Tensor,
        parameters: tf.Tensor,
        upstream: tf.Tensor,
        *,
        whole: tf.Tensor,
        kept: tf.Tensor,
        by_each: bool,
    ) -> list[tf.Tensor]:
        """Compute this process's partial gradients by angles and parameters."""
        with tf.GradientTape() as tape:
            tape.watch([angles, parameters])
            exponents = self._exponents(angles, parameters)
        shared, per_example, by_seeds = self._stages.backward(
            exponents, self._own_part(whole), upstream, kept, by_each, self._room
        )
        if not self.takes_states and self._seed.writer.has_gradient[by_each]:
            by_shared, by_example, _ = native.ops().qfleet_state_gradient(
                *exponents,
                whole,
                self._in_whole_seed(by_seeds),
                initial_states=NO_STATES,
                program=self._seed_bytes,
                order=list(self._seed.order),
                per_example_gradients=by_each,
            )
            shared, per_example = shared + by_shared, per_example + by_example
        targets, gradients = [exponents[0]], [shared]
        if by_each:
            targets.append(exponents[1])
            gradients.append(per_example)
        result: list[tf.Tensor] = tape.gradient(
            targets, [angles, parameters], gradients, unconnected_gradients="zero"
        )
        if self.takes_states:
            inverse = np.argsort(self._seed.amplitudes)
            result.append(tf.gather(self._in_whole_seed(by_seeds), inverse, axis=1))
        return result

    def _in_whole_seed(self, by_seeds: tf.Tensor) -> tf.Tensor:
        """Pad gradients by this process's part of the seeds to [B, 2**m] complex."""
        own = self._seed.own
        pairs = tf.cast(tf.reshape(by_seeds, [-1, own.stop - own.start, 2]), self.dtype)
        return tf.pad(
            tf.complex(pairs[..., 0], pairs[..., 1]),
            [[0, 0], [own.start, self._seed.size - own.stop]],
        )
