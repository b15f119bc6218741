"""Transfers of amplitudes between the processes of a state group, in pieces of bounded size."""

import abc

from qfleet import native
from qfleet.distributed.stage_programs import StagePrograms
from qfleet.distributed.state_group import StateGroup
from qfleet.engine import library
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.shard_exchange import ShardExchange

TRANSFER_BYTES = 1 << 20  # bytes that a process sends at a time


class IndexBitSwap:
    """Swaps the rank's bits with index bits of the local states. One call site.

    Args:
        stages: The programs of all stages.
        group: The processes that hold the states.
        dtype: tf.float32 or tf.float64.
        number: Index of the swap.
    """

    def __init__(
        self, stages: StagePrograms, group: StateGroup, dtype: tf.DType, number: int
    ) -> None:
        self._size = group.size
        self._reals = TRANSFER_BYTES // dtype.size
        self._exchange = ShardExchange(group)
        self._attributes = {
            "program": stages.programs[-1],
            "bit_positions": list(stages.swap_bits[number]),
            "lane_qubits": stages.across,
        }

    def __call__(self, shared: tf.Tensor, per_example: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Return the states after the swap, which is done in place."""
        region = tf.size(states, tf.int64) // self._size
        # The part of one example is a power of two; several examples are sent in one piece.
        single = tf.shape(per_example)[0] == 1
        most = tf.constant(self._reals, tf.int64)
        step = tf.where(single, tf.minimum(region, most), region)

        def transfer(first: tf.Tensor, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            sent = native.ops().qfleet_pack_region(
                shared, per_example, states, first, step, **self._attributes
            )
            received = self._exchange.all_to_all(sent)
            states = native.ops().qfleet_unpack_region(
                shared, per_example, states, first, received, **self._attributes
            )
            return first + step, states

        return tf.while_loop(
            lambda first, _: first < region,
            transfer,
            [tf.constant(0, tf.int64), states],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
            parallel_iterations=1,
        )[1]


class _CrossingTerms(abc.ABC):
    """Evaluates terms that need other processes' amplitudes. One call site. Abstract.

    Args:
        stages: The programs of all stages.
        group: The processes that hold the states.
        dtype: tf.float32 or tf.float64.
    """

    def __init__(self, stages: StagePrograms, group: StateGroup, dtype: tf.DType) -> None:
        self._stages, self._group = stages, group
        least = 2 * library.simd_lanes(dtype.size)
        self._step = min(max(2 << stages.width, least), TRANSFER_BYTES // dtype.size)
        self._exchange = ShardExchange(group)

    @abc.abstractmethod
    def _add(
        self,
        total: tf.Tensor,
        others: tf.Tensor,
        first: tf.Tensor,
        program: bytes,
        context: tuple[tf.Tensor, ...],
    ) -> tf.Tensor:
        """Add the contribution of a piece of another process's states.

        Args:
            total: The sum so far.
            others: The piece.
            first: Index of its first real number.
            program: The serialized terms.
            context: The operands of the call.
        """

    def _sum(
        self, states: tf.Tensor, total: tf.Tensor, context: tuple[tf.Tensor, ...]
    ) -> tf.Tensor:
        """Send every process's states to all others and add all contributions to `total`."""
        if not self._stages.crossing:
            return total
        end = tf.size(states, tf.int64)

        def transfer(first: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            own = tf.reshape(states[first : first + self._step], [1, self._step])
            received = self._exchange.all_to_all(tf.tile(own, [self._group.size, 1]))
            for flip, program in self._stages.crossing.items():
                others = received[self._group.rank ^ flip]
                total = self._add(total, others, first, program, context)
            return first + self._step, total

        return tf.while_loop(
            lambda first, _: first < end,
            transfer,
            [tf.constant(0, tf.int64), total],
            shape_invariants=[tf.TensorShape([]), total.shape],
            parallel_iterations=1,
        )[1]


class CrossingReadout(_CrossingTerms):
    """Adds crossing terms to the values that a process reads."""

    def __call__(
        self, shared: tf.Tensor, per_example: tf.Tensor, states: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Return [B, readouts] values with the crossing terms added."""
        return self._sum(states, values, (shared, per_example, states))

    def _add(
        self,
        total: tf.Tensor,
        others: tf.Tensor,
        first: tf.Tensor,
        program: bytes,
        context: tuple[tf.Tensor, ...],
    ) -> tf.Tensor:
        return total + native.ops().qfleet_cross_shard_expectation(
            *context, others, first, program=program, lane_qubits=self._stages.across
        )


class CrossingObservables(_CrossingTerms):
    """Adds crossing terms to the adjoint states: the weighted observables times the states."""

    def __call__(
        self,
        shared: tf.Tensor,
        per_example: tf.Tensor,
        states: tf.Tensor,
        adjoints: tf.Tensor,
        upstream: tf.Tensor,
    ) -> tf.Tensor:
        """Return the adjoint states with the crossing terms added."""
        return self._sum(states, adjoints, (shared, per_example, upstream))

    def _add(
        self,
        total: tf.Tensor,
        others: tf.Tensor,
        first: tf.Tensor,
        program: bytes,
        context: tuple[tf.Tensor, ...],
    ) -> tf.Tensor:
        shared, per_example, upstream = context
        return native.ops().qfleet_cross_shard_apply_observables(
            shared,
            per_example,
            total,
            others,
            first,
            upstream,
            program=program,
            lane_qubits=self._stages.across,
        )
