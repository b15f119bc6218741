"""Forward and adjoint passes of one process through the stages of a sharded state."""

from collections.abc import Callable, Sequence
from typing import Any

from qfleet import native
from qfleet.distributed.stage_programs import StagePrograms
from qfleet.distributed.state_group import StateGroup
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.shard_transfers import (
    TRANSFER_BYTES,
    CrossingObservables,
    CrossingReadout,
    IndexBitSwap,
)

Pair = tuple[tf.Tensor, tf.Tensor]


class StageOps:
    """Runs the stages on the local part of each state.

    A single stage without crossing terms is one operation. Otherwise micro-batches go through
    stages and swaps, so that two states of one micro-batch are the peak memory.

    Args:
        stages: The programs of all stages.
        group: The processes that hold the states.
        dtype: tf.float32 or tf.float64.
        readouts: Number of observables.
    """

    def __init__(
        self, stages: StagePrograms, group: StateGroup, dtype: tf.DType, readouts: int
    ) -> None:
        self._stages, self._group = stages, group
        self._dtype, self._readouts = dtype, readouts
        self._single = len(stages.programs) == 1 and not stages.crossing

    def forward(self, exponents: Pair, seeds: tf.Tensor, keep: bool, room: int) -> Pair:
        """Compute this process's contribution to the readouts.

        Args:
            exponents: [E] shared and [B, F] per-example exponents.
            seeds: [B, 2 * 2**m] this process's part of the seed, real and imaginary interleaved.
            keep: If states are kept for the adjoint pass.
            room: Bytes that kept states may take.

        Returns:
            [B, readouts] values, and the kept states.
        """
        if self._single:
            values: Pair = native.ops().qfleet_shard_expectation(
                *exponents,
                seeds,
                program=self._stages.programs[0],
                T=self._dtype,
                bit_positions=list(self._stages.seed_bits),
                keep_states=keep,
                memory_limit=room,
            )
            return values
        # The order in which call sites are made is part of the protocol between processes.
        readout = CrossingReadout(self._stages, self._group, self._dtype)
        forward = _ForwardPass(self._stages, self._group, self._dtype)

        def read(shared: tf.Tensor, per_example: tf.Tensor, seeds: tf.Tensor) -> list[tf.Tensor]:
            states = forward(shared, per_example, seeds)
            values = native.ops().qfleet_stage_expectation(
                shared,
                per_example,
                states,
                program=self._stages.programs[-1],
                lane_qubits=self._stages.across,
            )
            return [readout(shared, per_example, states, values)]

        (values,) = self._map_micro_batches(
            read, exponents, seeds, widths=[self._readouts], dtype=self._dtype
        )
        return values, tf.zeros([0], self._dtype)

    def backward(
        self,
        exponents: Pair,
        seeds: tf.Tensor,
        upstream: tf.Tensor,
        kept: tf.Tensor,
        by_each: bool,
        room: int,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Compute this process's partial gradients.

        Args:
            exponents: As for `forward`.
            seeds: As for `forward`.
            upstream: [B, readouts] gradient by the readouts.
            kept: The states that `forward` kept.
            by_each: If gradients by the per-example exponents are needed.
            room: As for `forward`.

        Returns:
            Gradients by the shared exponents [E], the per-example exponents [B, F] and the seeds.
        """
        if self._single:
            found: tuple[tf.Tensor, tf.Tensor, tf.Tensor] = native.ops().qfleet_shard_gradient(
                *exponents,
                seeds,
                upstream,
                kept,
                program=self._stages.programs[0],
                bit_positions=list(self._stages.seed_bits),
                per_example_gradients=by_each,
                memory_limit=room,
            )
            return found
        forward = _ForwardPass(self._stages, self._group, self._dtype)
        backward = _AdjointPass(self._stages, self._group, self._dtype, by_each)

        def gradients(
            shared: tf.Tensor, per_example: tf.Tensor, seeds: tf.Tensor, upstream: tf.Tensor
        ) -> list[tf.Tensor]:
            states = forward(shared, per_example, seeds)
            return backward(shared, per_example, states, upstream)

        exponent_width = exponents[1].shape[1] if by_each else 0
        by_example, by_seeds, by_shared = self._map_micro_batches(
            gradients,
            exponents,
            seeds,
            upstream,
            widths=[exponent_width, seeds.shape[1]],
            dtype=tf.float64,
            with_sum=True,
        )
        if not by_each:
            by_example = tf.zeros([0, exponents[1].shape[1]], tf.float64)
        return by_shared, by_example, by_seeds

    def _map_micro_batches(
        self,
        function: Callable[..., list[tf.Tensor]],
        exponents: Pair,
        *by_row: tf.Tensor,
        widths: Sequence[int],
        dtype: tf.DType,
        with_sum: bool = False,
    ) -> list[tf.Tensor]:
        """Call a function on micro-batches.

        Args:
            function: Takes the shared exponents and a micro-batch of the other operands.
            exponents: [E] shared and [B, F] per-example exponents.
            by_row: Further operands of B rows.
            widths: Width of each result of the function; the results are concatenated.
            dtype: Of the results.
            with_sum: If the function's last result, [E] float64, is summed.

        Returns:
            The concatenated results, and the sum.
        """
        shared, per_example = exponents
        count = tf.shape(per_example)[0]
        part_bytes = 2 * self._dtype.size << self._stages.width
        size = tf.minimum(
            max(TRANSFER_BYTES * self._group.size // part_bytes, 1), tf.maximum(count, 1)
        )
        batches = tf.math.floordiv(count + size - 1, size)
        padding = batches * size - count
        padded = [tf.pad(one, [[0, padding], [0, 0]]) for one in (per_example, *by_row)]
        arrays = [
            tf.TensorArray(dtype, batches, element_shape=[None, width], infer_shape=False)
            for width in widths
        ]
        sums = [tf.zeros_like(shared)] if with_sum else []

        def step(at: tf.Tensor, arrays: Any, sums: Any) -> Any:
            rows = [one[at * size : (at + 1) * size] for one in padded]
            results = function(shared, *rows)
            written = [array.write(at, one) for array, one in zip(arrays, results, strict=False)]
            return at + 1, written, [one + results[-1] for one in sums]

        _, arrays, sums = tf.while_loop(
            lambda at, *_: at < batches, step, [0, arrays, sums], parallel_iterations=1
        )
        concatenated = [
            tf.reshape(array.concat(), [-1, width])[:count]
            if width
            else tf.zeros([count, 0], dtype)
            for array, width in zip(arrays, widths, strict=True)
        ]
        return [*concatenated, *sums]


class _ForwardPass:
    """From seeds to the states after the last stage. One call site; arguments as for StageOps."""

    def __init__(self, stages: StagePrograms, group: StateGroup, dtype: tf.DType) -> None:
        self._stages, self._dtype = stages, dtype
        self._swaps = [
            IndexBitSwap(stages, group, dtype, number) for number in range(len(stages.swap_bits))
        ]

    def __call__(self, shared: tf.Tensor, per_example: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        states = native.ops().qfleet_first_stage(
            shared,
            per_example,
            seeds,
            program=self._stages.programs[0],
            T=self._dtype,
            bit_positions=list(self._stages.seed_bits),
            lane_qubits=self._stages.across,
        )
        for swap, program in zip(self._swaps, self._stages.programs[1:], strict=True):
            states = swap(shared, per_example, states)
            states = native.ops().qfleet_stage(
                shared, per_example, states, program=program, lane_qubits=self._stages.across
            )
        return states


class _AdjointPass:
    """From the last states and upstream gradients to gradients. One call site.

    Args:
        stages: See StageOps.
        group: See StageOps.
        dtype: See StageOps.
        by_each: If gradients by the per-example exponents are needed.
    """

    def __init__(
        self, stages: StagePrograms, group: StateGroup, dtype: tf.DType, by_each: bool
    ) -> None:
        self._stages, self._by_each = stages, by_each
        self._swaps = [
            [IndexBitSwap(stages, group, dtype, number) for _ in range(2)]
            for number in range(len(stages.swap_bits))
        ]
        self._observables = CrossingObservables(stages, group, dtype)

    def __call__(
        self, shared: tf.Tensor, per_example: tf.Tensor, states: tf.Tensor, upstream: tf.Tensor
    ) -> list[tf.Tensor]:
        """Return gradients by the per-example exponents, the seeds and the shared exponents."""
        stages, by_each = self._stages, self._by_each
        adjoints = native.ops().qfleet_stage_apply_observables(
            shared,
            per_example,
            states,
            upstream,
            program=stages.programs[-1],
            lane_qubits=stages.across,
        )
        adjoints = self._observables(shared, per_example, states, adjoints, upstream)
        by_shared, by_example = tf.zeros_like(shared), tf.zeros_like(per_example)
        by_seeds = tf.zeros([tf.shape(per_example)[0], 2 << len(stages.seed_bits)], tf.float64)
        for at in reversed(range(len(stages.programs))):
            if not stages.gradient_before[at + 1][by_each]:
                break  # nothing before here has a gradient
            results = native.ops().qfleet_stage_adjoint(
                shared,
                per_example,
                states,
                adjoints,
                program=stages.programs[at],
                bit_positions=list(stages.seed_bits),
                per_example_gradients=by_each,
                first_stage=at == 0,
                lane_qubits=stages.across,
            )
            by_shared += results[0]
            if by_each:
                by_example += results[1]
            if at == 0:
                by_seeds = results[2]
                break
            states, adjoints = results[3:]
            if stages.gradient_before[at][by_each]:
                swap_states, swap_adjoints = self._swaps[at - 1]
                states = swap_states(shared, per_example, states)
                adjoints = swap_adjoints(shared, per_example, adjoints)
        return [by_example if by_each else by_example[:, :0], by_seeds, by_shared]
