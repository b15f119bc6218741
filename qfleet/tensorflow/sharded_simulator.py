"""The backend of a state that the members of a group hold together; see split.py.

split_plan.py cuts the circuit into a seed, which every member evolves by itself, and stages, in
each of which a member works on its part with the native kernel. Where there is one stage, as for a
QCNN, members exchange nothing but the sums of their readouts. Otherwise slices of the batch, small
enough that both states of one are all that there is at a time, go through stages and exchanges.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, final

import cirq
import numpy as np

from common.errors import CircuitError
from qfleet import native
from qfleet.compiler import cache_blocking
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.observables import PauliTerms, ReadoutPlan
from qfleet.compiler.program import Program, compile_program
from qfleet.compiler.serialize import ProgramWriter
from qfleet.distributed import plan
from qfleet.distributed.state_group import StateGroup
from qfleet.engine import memory
from qfleet.tensorflow.exponents import BatchGateExponents
from qfleet.tensorflow.runtime import is_watched, tf
from qfleet.tensorflow.shard_exchange import ShardExchange
from qfleet.tensorflow.sharded_stages import StageOps
from qfleet.tensorflow.simulator import COMPLEX_DTYPES, REAL_DTYPES, Simulator


@final
class ShardedSimulator(Simulator):
    """One member's part of a circuit's simulation.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients, at least one.
        group: Who hold the states.
        dtype: "complex64" or "complex128".

    Raises:
        CircuitError: The circuit, its symbols or the observables can't be taken, or the circuit has
            too few qubits to be split over the group.
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
    ) -> None:
        if not readouts:
            raise CircuitError(
                "a circuit whose state is wanted, or that is read by shots, can't be split over"
                f" {group.size} workers: read expectation values, or set STATE_SHARDS=1"
            )
        self.group = group
        self.program = compile_program(circuit, inputs, parameters, readouts, target="split")
        self.inputs, self.parameters = self.program.inputs, self.program.parameters
        self.qubits = self.program.qubits
        self.readouts = len(readouts)
        self.dtype = REAL_DTYPES[dtype]
        self._complex = COMPLEX_DTYPES[dtype]
        blocks = [step for step in self.program.steps if isinstance(step, FusedBlock)]
        self.plan = plan.plan_for_program(self.program, group.bits)
        self.require_memory(1)
        self._room = memory.available_bytes() // 4
        self._seed(blocks, dtype)
        self._stages = StageOps(self, blocks, self._seed_written.wanted, dtype)
        self._exponents = BatchGateExponents(
            self._seed_written.shared, self._seed_written.each, self.inputs, self.parameters
        )

    def _seed(self, blocks: Sequence[FusedBlock], dtype: str) -> None:
        """Write down the seed, with the first stage's global qubits as its index's highest bits."""
        plan, bits = self.plan, self.group.bits
        place = {position: at for at, position in enumerate(plan.seed)}
        moved = [
            FusedBlock(tuple(place[position] for position in block.qubits), block.factors)
            for block in plan.seed_blocks
        ]
        width = len(plan.seed)
        order = cache_blocking.plan_cache_blocks(
            [moved], width, cache_blocking.WINDOW_QUBITS[dtype]
        )
        none = np.zeros((0, 0)), np.zeros(0)
        program = shard_range(self.program, width, moved, PauliTerms((), *none))
        self._seed_written = ProgramWriter(program, order, 0, also=blocks)
        self._seed_bytes = self._seed_written.bytes()
        rest = width - bits
        self._order = [at - bits if at >= bits else rest + at for at in order.order]
        self._mine = slice(self.group.rank << rest, (self.group.rank + 1) << rest)
        self._own_reals = 2 << rest

    def require_memory(self, states: int, copies: int = 1) -> None:
        """See Simulator.require_memory; the group's members share each state."""
        amplitude = COMPLEX_DTYPES["complex64" if self.dtype == tf.float32 else "complex128"].size
        memory.require_memory(len(self.qubits), amplitude, states, copies, self.group.size)

    def describe(self, batch: int | None = None) -> str:
        """See Simulator.describe."""
        return "\n".join(self._lines(batch or 1))

    def _lines(self, batch: int) -> Iterator[str]:
        plan, size, width = self.plan, self.group.size, len(self.qubits)
        part_bytes = memory.state_bytes(width, self._complex.size, 1) // size
        yield (
            f"{width} qubits split over {size} workers: {part_bytes:,} bytes of a state in each,"
            f" two of them ({2 * part_bytes:,} bytes) for each example being trained"
        )
        yield (
            f"seed of {len(plan.seed)} qubits and {len(plan.seed_blocks)} blocks, which every"
            " worker evolves by itself"
        )
        for stage in plan.stages:
            where = ", ".join(str(self.qubits[position]) for position in stage.globals)
            yield f"stage of {len(stage.blocks)} blocks while {where} stand for the rank"
        sent = self.bytes_exchanged(batch)
        yield (
            f"{len(plan.exchanges)} exchanges forward: for {batch} example{'s'[: batch > 1]} each"
            f" worker sends {sent[0]:,} bytes to read, {sent[1]:,} to train"
        )

    def bytes_exchanged(self, batch: int) -> tuple[int, int]:
        """Bytes of states that each member sends to the others, to read and to train a batch."""
        state = memory.state_bytes(len(self.qubits), self._complex.size, batch) // self.group.size
        once = state * (self.group.size - 1) // self.group.size * len(self.plan.exchanges)
        crossed = state * (self.group.size - 1) * self._stages.crossed
        # To train, states are evolved once more, and both come back.
        return once + crossed, (4 * once + 2 * crossed)

    @tf.autograph.experimental.do_not_convert
    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """See Simulator.expectation; what the slopes are, split.py says."""
        angles, parameters = self._taken(angles, parameters)
        by_angles, by_parameters = is_watched(angles), is_watched(parameters)
        keep = bool(by_angles or by_parameters)
        if keep:
            self.require_memory(2)
        by_each = self._exponents.mixed or by_angles is not False

        @tf.custom_gradient
        def values(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            exponents = self._exponents(angles, parameters)
            whole = native.ops().qfleet_state(
                *exponents, program=self._seed_bytes, T=self._complex, order=self._order
            )
            mine, kept = self._stages.forward(exponents, self._own(whole), keep, self._room)
            found = self._total(mine)

            def slopes(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                @tf.custom_gradient
                def first(*symbols: tf.Tensor) -> tuple[Any, Callable]:
                    found = self._slopes(*symbols, whole=whole, kept=kept, by_each=by_each)
                    return found, self._second

                return first(angles, parameters, self._total(upstream))

            return found, slopes

        found = values(angles, parameters)
        return tf.ensure_shape(found, [angles.shape[0], self.readouts])

    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Refused: no member has all of it."""
        self._whole_state()
        raise AssertionError("a split simulator reads observables")

    def _total(self, rows: tf.Tensor) -> tf.Tensor:
        """[B, readouts] summed over the members, and a word on whether their kernels are alike."""
        # The row that is added says how wide a member's vectors are, and makes an empty batch none.
        lanes = native.simd_lanes(self.dtype.size)
        mark = tf.fill([1, self.readouts], tf.constant(lanes, self.dtype))
        total = ShardExchange(self.group).total(tf.concat([rows, mark], axis=0))
        if self.plan.exchanges:
            alike = tf.debugging.assert_equal(
                total[-1],
                mark[0] * self.group.size,
                "the workers that hold a state together have processors of different vector widths:"
                " place them on machines of one kind, or set STATE_SHARDS=1",
            )
            with tf.control_dependencies([alike] if alike is not None else []):
                return tf.identity(total[:-1])
        return total[:-1]

    def _own(self, whole: tf.Tensor) -> tf.Tensor:
        """Of [B, 2**m] states of the seed, own [B, 2 * 2**places] amplitudes as (re, im)."""
        mine = whole[:, self._mine]
        parts = tf.stack([tf.math.real(mine), tf.math.imag(mine)], axis=-1)
        return tf.cast(tf.reshape(parts, [-1, self._own_reals]), tf.float64)

    def _second(self, *_: tf.Tensor) -> Any:
        raise CircuitError(
            f"a circuit that is split over {self.group.size} workers has no second derivatives:"
            " set STATE_SHARDS=1 for them"
        )

    def _slopes(
        self,
        angles: tf.Tensor,
        parameters: tf.Tensor,
        upstream: tf.Tensor,
        *,
        whole: tf.Tensor,
        kept: tf.Tensor,
        by_each: bool,
    ) -> list[tf.Tensor]:
        """This member's part of the gradients by angles and parameters."""
        with tf.GradientTape() as tape:
            tape.watch([angles, parameters])
            exponents = self._exponents(angles, parameters)
        shared, each, by_seeds = self._stages.back(
            exponents, self._own(whole), upstream, kept, by_each, self._room
        )
        if self._seed_written.wanted[by_each]:
            pairs = tf.cast(tf.reshape(by_seeds, [-1, self._own_reals // 2, 2]), self.dtype)
            above = 2 ** len(self.plan.seed) - self._mine.stop
            upward = tf.pad(
                tf.complex(pairs[..., 0], pairs[..., 1]), [[0, 0], [self._mine.start, above]]
            )
            more = native.ops().qfleet_state_gradient(
                *exponents,
                whole,
                upward,
                program=self._seed_bytes,
                order=self._order,
                by_each=by_each,
            )
            shared, each = shared + more[0], each + more[1]
        targets, slopes = [exponents[0]], [shared]
        if by_each:
            targets.append(exponents[1])
            slopes.append(each)
        return tape.gradient(targets, [angles, parameters], slopes, unconnected_gradients="zero")


def shard_range(
    program: Program, width: int, blocks: Sequence[FusedBlock], terms: PauliTerms
) -> Program:
    """A program of its own, on positions 0 to width - 1, with some of another's blocks."""
    return replace(
        program,
        qubits=tuple(cirq.LineQubit.range(width)),
        steps=tuple(blocks),
        readout=ReadoutPlan(terms.offsets, terms=terms),
    )
