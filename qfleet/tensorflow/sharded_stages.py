"""A member's way through the stages of a split state, forward and back, and its readouts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qfleet import native
from qfleet.compiler import cache_blocking
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.observables import PauliTerms
from qfleet.compiler.serialize import ProgramWriter
from qfleet.distributed.plan import ShardStage
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.shard_exchange import ShardExchange

if TYPE_CHECKING:
    from qfleet.tensorflow.sharded_simulator import ShardedSimulator

SLICE_BYTES = 1 << 20  # bytes for each member that are exchanged at a time

Pair = tuple[tf.Tensor, tf.Tensor]


class StageOps:
    """The programs of all stages, written down, and what runs them.

    Args:
        simulator: Whose.
        blocks: All of the circuit.
        behind: Whether the seed's gradient is wanted: by trained symbols alone, or by all.
        dtype: "complex64" or "complex128".

    Attributes:
        crossed: Whether a readout needs other members' amplitudes.
    """

    def __init__(
        self,
        simulator: "ShardedSimulator",
        blocks: Sequence[FusedBlock],
        behind: tuple[bool, bool],
        dtype: str,
    ) -> None:
        self._group, self._dtype = simulator.group, simulator.dtype
        self._readouts = simulator.readouts
        plan = simulator.plan
        width = len(simulator.qubits) - self._group.bits
        self._width = width
        high = sorted({slot for exchange in plan.exchanges for slot in exchange})
        moved = [_moved(stage) for stage in plan.stages]
        whole = cache_blocking.plan_cache_blocks(
            moved, width, cache_blocking.WINDOW_QUBITS[dtype], high
        )
        bit = {slot: at for at, slot in enumerate(whole.order)}
        self._across = min([cache_blocking.SIMD_LANES, *(bit[slot] for slot in high)])
        self._exchanges = [[bit[slot] for slot in exchange] for exchange in plan.exchanges]
        first = plan.stages[0]
        self._places = [bit[first.slots.index(q)] for q in plan.seed[self._group.bits :]]

        # A string that flips global qubits of the last stage takes another member's amplitudes.
        terms = simulator.program.readout.terms
        assert terms is not None
        found = _by_flip(terms, plan.stages[-1], self._group.rank)
        mine = found.pop(0, _none(terms))
        self.crossed = bool(found)
        self._single = len(plan.stages) == 1 and not self.crossed
        self._wanted: list[tuple[bool, bool]] = [behind]  # by stage, of all that lies before it
        self._programs: list[bytes] = []
        from qfleet.tensorflow.sharded_simulator import shard_range

        for at, (taken, count) in enumerate(zip(_cut(whole, moved), moved, strict=True)):
            last = at == len(moved) - 1
            program = shard_range(simulator.program, width, count, mine if last else _none(terms))
            written = ProgramWriter(program, taken, 0, also=blocks, behind=self._wanted[-1])
            self._programs.append(written.bytes())
            before, own = self._wanted[-1], written.wanted
            self._wanted.append((before[0] or own[0], before[1] or own[1]))
        empty = cache_blocking.BlockingPlan(whole.order, (), ())
        self._crossed = {
            flip: ProgramWriter(
                shard_range(simulator.program, width, (), one), empty, 0, also=blocks
            ).bytes()
            for flip, one in found.items()
        }

    def forward(self, exponents: Pair, seeds: tf.Tensor, keep: bool, room: int) -> Pair:
        """What this member adds to the [B, readouts] values; what `back` wants to be kept."""
        if self._single:
            return native.ops().qfleet_part_expectation(
                *exponents,
                seeds,
                program=self._programs[0],
                T=self._dtype,
                places=self._places,
                keep=keep,
                room=room,
            )
        read = self._read_once()
        passing = self._passing()

        def values(shared: tf.Tensor, each: tf.Tensor, seeds: tf.Tensor) -> list[tf.Tensor]:
            return [read(shared, each, passing(shared, each, seeds))]

        (found,) = self._sliced(values, exponents, seeds, rows=[self._readouts])
        return found, tf.zeros([0], self._dtype)

    def back(
        self,
        exponents: Pair,
        seeds: tf.Tensor,
        upstream: tf.Tensor,
        kept: tf.Tensor,
        by_each: bool,
        room: int,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Slopes by the shared exponents [E], each example's [B, F] and the seeds."""
        if self._single:
            return native.ops().qfleet_part_gradient(
                *exponents,
                seeds,
                upstream,
                kept,
                program=self._programs[0],
                places=self._places,
                by_each=by_each,
                room=room,
            )
        passing, returning = self._passing(), self._returning(by_each)

        def slopes(
            shared: tf.Tensor, each: tf.Tensor, seeds: tf.Tensor, upstream: tf.Tensor
        ) -> list[tf.Tensor]:
            return returning(shared, each, passing(shared, each, seeds), upstream)

        exponent_rows = exponents[1].shape[1] if by_each else 0
        by_each_example, by_seeds, by_shared = self._sliced(
            slopes, exponents, seeds, upstream, rows=[exponent_rows, seeds.shape[1]], total=True
        )
        if not by_each:
            by_each_example = tf.zeros([0, exponents[1].shape[1]], tf.float64)
        return by_shared, by_each_example, by_seeds

    def _sliced(
        self,
        work: Callable[..., list[tf.Tensor]],
        exponents: Pair,
        *by_row: tf.Tensor,
        rows: Sequence[int],
        total: bool = False,
    ) -> list[tf.Tensor]:
        """Work on slices of the batch, whose rows are put together, and summed where `total`."""
        shared, each = exponents
        count = tf.shape(each)[0]
        part_bytes = 2 * self._dtype.size << self._width
        size = tf.minimum(
            max(SLICE_BYTES * self._group.size // part_bytes, 1), tf.maximum(count, 1)
        )
        slices = tf.math.floordiv(count + size - 1, size)
        padding = slices * size - count
        padded = [tf.pad(one, [[0, padding], [0, 0]]) for one in (each, *by_row)]
        types = [tf.float64 if total else self._dtype] * len(rows)
        arrays = [
            tf.TensorArray(kind, slices, element_shape=[None, width], infer_shape=False)
            for kind, width in zip(types, rows, strict=True)
        ]
        sums = [tf.zeros_like(shared)] if total else []

        def turn(at: tf.Tensor, arrays: Any, sums: Any) -> Any:
            ours = [one[at * size : (at + 1) * size] for one in padded]
            found = work(shared, *ours)
            written = [array.write(at, one) for array, one in zip(arrays, found, strict=False)]
            return at + 1, written, [one + found[-1] for one in sums]

        _, arrays, sums = tf.while_loop(
            lambda at, *_: at < slices, turn, [0, arrays, sums], parallel_iterations=1
        )
        together = [
            tf.reshape(array.concat(), [-1, width])[:count] if width else tf.zeros([count, 0], kind)
            for array, width, kind in zip(arrays, rows, types, strict=True)
        ]
        return [*together, *sums]

    def _passing(self) -> Callable[..., tf.Tensor]:
        """From seeds to the states after the last stage."""
        exchanges = [ShardExchange(self._group) for _ in self._exchanges]
        how = {"across": self._across}

        def through(shared: tf.Tensor, each: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
            states = native.ops().qfleet_stage_start(
                shared,
                each,
                seeds,
                program=self._programs[0],
                T=self._dtype,
                places=self._places,
                **how,
            )
            for at, exchange in enumerate(exchanges):
                states = self._swap(shared, each, states, at, exchange)
                states = native.ops().qfleet_stage(
                    shared, each, states, program=self._programs[at + 1], **how
                )
            return states

        return through

    def _returning(self, by_each: bool) -> Callable[..., list[tf.Tensor]]:
        """From the states after the last stage, and upstream, to slopes."""
        exchanges = [[ShardExchange(self._group) for _ in range(2)] for _ in self._exchanges]
        cross = self._cross_weighing()
        how = {"across": self._across}

        def back(
            shared: tf.Tensor, each: tf.Tensor, states: tf.Tensor, upstream: tf.Tensor
        ) -> list[tf.Tensor]:
            lambdas = native.ops().qfleet_stage_weigh(
                shared, each, states, upstream, program=self._programs[-1], **how
            )
            lambdas = cross(shared, each, states, lambdas, upstream)
            by_shared, by_example = tf.zeros_like(shared), tf.zeros_like(each)
            by_seeds = tf.zeros([tf.shape(each)[0], 2 << len(self._places)], tf.float64)
            for at in reversed(range(len(self._programs))):
                if not self._wanted[at + 1][by_each]:
                    break  # nothing before here has a gradient
                found = native.ops().qfleet_stage_back(
                    shared,
                    each,
                    states,
                    lambdas,
                    program=self._programs[at],
                    places=self._places,
                    by_each=by_each,
                    first=at == 0,
                    **how,
                )
                by_shared += found[0]
                if by_each:
                    by_example += found[1]
                if at == 0:
                    by_seeds = found[2]
                    break
                states, lambdas = found[3:]
                if self._wanted[at][by_each]:
                    first, second = exchanges[at - 1]
                    states = self._swap(shared, each, states, at - 1, first)
                    lambdas = self._swap(shared, each, lambdas, at - 1, second)
            return [by_example if by_each else by_example[:, :0], by_seeds, by_shared]

        return back

    def _swap(
        self,
        shared: tf.Tensor,
        each: tf.Tensor,
        states: tf.Tensor,
        at: int,
        exchange: ShardExchange,
    ) -> tf.Tensor:
        """The states after exchange number `at`, piece by piece and in place."""
        how = {
            "program": self._programs[-1],
            "places": self._exchanges[at],
            "across": self._across,
        }
        region = tf.size(states, tf.int64) // self._group.size
        # One example's part is a power of two; several are a single piece.
        alone = tf.shape(each)[0] == 1
        most = tf.constant(SLICE_BYTES // self._dtype.size, tf.int64)
        step = tf.where(alone, tf.minimum(region, most), region)

        def turn(first: tf.Tensor, states: tf.Tensor) -> Any:
            pieces = native.ops().qfleet_take_out(shared, each, states, first, step, **how)
            got = exchange.swapped(pieces)
            return first + step, native.ops().qfleet_put_in(shared, each, states, first, got, **how)

        return tf.while_loop(
            lambda first, _: first < region,
            turn,
            [tf.constant(0, tf.int64), states],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
            parallel_iterations=1,
        )[1]

    def _read_once(self) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]:
        """From the last states to what this member adds to the values."""
        exchange = ShardExchange(self._group)
        how = {"across": self._across}

        def read(shared: tf.Tensor, each: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
            values = native.ops().qfleet_stage_read(
                shared, each, states, program=self._programs[-1], **how
            )

            def add(values: tf.Tensor, others: tf.Tensor, first: tf.Tensor, text: bytes) -> Any:
                return values + native.ops().qfleet_cross_read(
                    shared, each, states, others, first, program=text, **how
                )

            return self._cross(states, exchange, values, add)

        return read

    def _cross_weighing(self) -> Callable[..., tf.Tensor]:
        """Adds to lambda what readouts that need other members' amplitudes give."""
        exchange = ShardExchange(self._group)

        def weigh(
            shared: tf.Tensor,
            each: tf.Tensor,
            states: tf.Tensor,
            lambdas: tf.Tensor,
            upstream: tf.Tensor,
        ) -> tf.Tensor:
            def add(lambdas: tf.Tensor, others: tf.Tensor, first: tf.Tensor, text: bytes) -> Any:
                return native.ops().qfleet_cross_weigh(
                    shared,
                    each,
                    lambdas,
                    others,
                    first,
                    upstream,
                    program=text,
                    across=self._across,
                )

            return self._cross(states, exchange, lambdas, add)

        return weigh

    def _cross(
        self,
        states: tf.Tensor,
        exchange: ShardExchange,
        begun: tf.Tensor,
        add: Callable[[tf.Tensor, tf.Tensor, tf.Tensor, bytes], tf.Tensor],
    ) -> tf.Tensor:
        """Give every member's states to all, piece by piece."""
        if not self._crossed:
            return begun
        least = 2 * native.simd_lanes(self._dtype.size)
        step = min(max(2 << self._width, least), SLICE_BYTES // self._dtype.size)
        end = tf.size(states, tf.int64)

        def turn(first: tf.Tensor, begun: tf.Tensor) -> Any:
            mine = tf.reshape(states[first : first + step], [1, step])
            got = exchange.swapped(tf.tile(mine, [self._group.size, 1]))
            for flip, text in self._crossed.items():
                begun = add(begun, got[self._group.rank ^ flip], first, text)
            return first + step, begun

        return tf.while_loop(
            lambda first, _: first < end,
            turn,
            [tf.constant(0, tf.int64), begun],
            shape_invariants=[tf.TensorShape([]), begun.shape],
            parallel_iterations=1,
        )[1]


def _moved(stage: ShardStage) -> list[FusedBlock]:
    """A stage's blocks, of slots."""
    slot = {position: at for at, position in enumerate(stage.slots)}
    return [
        FusedBlock(tuple(slot[q] for q in block.qubits), block.factors) for block in stage.blocks
    ]


def _cut(
    whole: cache_blocking.BlockingPlan, stages: Sequence[Sequence[FusedBlock]]
) -> list[cache_blocking.BlockingPlan]:
    """A plan for each stage, with the order of all."""
    plans, block, window = [], 0, 0
    for stage in stages:
        end, first = block + len(stage), window
        at = block
        while whole.windows and at < end:
            at += whole.windows[window].blocks
            window += 1
        plans.append(
            cache_blocking.BlockingPlan(
                whole.order, whole.blocks[block:end], whole.windows[first:window]
            )
        )
        block = end
    return plans


def _none(terms: PauliTerms) -> PauliTerms:
    readouts = len(terms.offsets)
    return PauliTerms((), np.zeros((0, readouts)), np.zeros(readouts))


def _by_flip(terms: PauliTerms, last: ShardStage, rank: int) -> dict[int, PauliTerms]:
    """The strings as this member reads them, of slots, by the member whose amplitudes they take.

    Keys are ranks to be xored with one's own. A string's sign on the global qubits is in its
    weight; their Ys stay in it, under positions below 0. Member 0 adds the offsets.
    """
    slot = {position: at for at, position in enumerate(last.slots)}
    slot |= {position: ~at for at, position in enumerate(last.globals)}
    found: dict[int, list[tuple[dict[int, str], np.ndarray]]] = {}
    for string, weights in zip(terms.strings, terms.weights, strict=True):
        flip = sign = 0
        for position, pauli in string.items():
            if slot[position] < 0:
                flip |= (pauli != "Z") << ~slot[position]
                sign ^= (pauli != "X") & rank >> ~slot[position]
        moved = {slot[position]: pauli for position, pauli in string.items()}
        found.setdefault(flip, []).append((moved, -weights if sign else weights))
    offsets = terms.offsets if rank == 0 else np.zeros_like(terms.offsets)
    made = {
        flip: PauliTerms(
            tuple(string for string, _ in ones),
            np.stack([weights for _, weights in ones]),
            np.zeros_like(offsets) if flip else offsets,
        )
        for flip, ones in found.items()
    }
    if 0 not in made:
        nothing = _none(terms)
        made[0] = PauliTerms(nothing.strings, nothing.weights, offsets)
    return made
