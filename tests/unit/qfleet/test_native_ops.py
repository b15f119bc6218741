"""Malformed calls of the native engine's TensorFlow operations."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qfleet import native
from qfleet.engine import library

# TensorFlow waits for 10 s before it reports a failed allocation.
pytestmark = pytest.mark.native

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(
    native.unavailable_reason() is not None, reason=str(native.unavailable_reason())
)
def test_ops_with_malformed_inputs_raise() -> None:
    code = "from tests.unit.qfleet import test_native_ops as ops; ops.call_with_malformed_inputs()"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def program(
    *,
    qubits: int = 2,
    each: int = 1,
    prefix: int = 0,
    window: Sequence[int] = (),
    readouts: int = 1,
    start: int = 0,
) -> bytes:
    """Serialize a program: X**shared[0] on bit 0, X**each[0] on the highest bit, Z of bit 0.

    A program with a start of 2 takes initial states.
    """
    ints, reals = [1, qubits, 1, each, 1 + each], []
    spaces = np.array([[[1, 1], [1, 1]], [[1, -1], [-1, 1]]]) / 2
    for exponent in (0, -1)[: 1 + each]:
        ints += [2, 2, 1, exponent]
        reals += [0, 1, *np.stack([spaces, 0 * spaces], axis=-1).ravel()]
    ints += [1, 2, 1, 0]
    blocks = [[1, 0, 1, 0], [1, qubits - 1, 1, ~1]][: 1 + each]
    ints += [len(blocks)]
    for block, wanted in zip(blocks, (1, 0), strict=False):
        ints += [*block, wanted, 1, 0, 0, 0b1111, 0b1111]
    ints += [prefix, 1, len(blocks), len(window), *window] if window else [prefix, 0]
    ints += [1, 0, 1, 1, 0, readouts, start]
    reals += [1] * readouts + [0] * readouts
    return np.array([len(ints), *ints]).tobytes() + np.array(reals, np.float64).tobytes()


def call_with_malformed_inputs() -> None:
    """Call the ops with malformed inputs, eagerly and in a graph; runs in a process of its own.

    Raises:
        AssertionError: A malformed call succeeded.
    """
    import resource

    # Larger allocations fail at once, also on systems that overcommit memory.
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
    from qfleet.tensorflow.engine_simulator import NO_STATES
    from qfleet.tensorflow.runtime import tf

    ops, real = native.ops(), tf.float64
    errors = tf.errors
    small, two = program(), program(readouts=2)
    shared, each = tf.constant([0.3], real), tf.zeros([3, 1], real)

    def values(
        text: Any = small,
        shared: Any = shared,
        each: Any = each,
        states: Any = NO_STATES,
        dtype: Any = tf.float32,
        **more: Any,
    ) -> Any:
        settings = {"keep_states": True, "allow_subspace": False, "memory_limit": 1 << 30} | more
        return ops.qfleet_expectation(shared, each, states, program=text, T=dtype, **settings)

    def gradients(
        upstream: Any,
        kept: Any,
        text: Any = small,
        shared: Any = shared,
        each: Any = each,
        states: Any = NO_STATES,
        **more: Any,
    ) -> Any:
        settings = {
            "per_example_gradients": True,
            "allow_subspace": False,
            "memory_limit": 1 << 30,
        } | more
        return ops.qfleet_expectation_gradient(
            shared, each, upstream, kept, states, program=text, **settings
        )

    def state(
        text: Any = small, shared: Any = shared, each: Any = each, order: Any = (0, 1)
    ) -> Any:
        return ops.qfleet_state(shared, each, NO_STATES, program=text, T=tf.complex64, order=order)

    def state_gradients(states: Any, upstream: Any, order: Any = (1, 0), each: Any = each) -> Any:
        return ops.qfleet_state_gradient(
            shared,
            each,
            states,
            upstream,
            NO_STATES,
            program=small,
            per_example_gradients=True,
            order=order,
        )

    def region(op: str, first: Any, last: Any, places: Any = (1,)) -> Any:
        """Pack or unpack a region of three examples' states, on a shard of two workers."""
        return getattr(ops, op)(
            shared,
            each,
            shard,
            first,
            last,
            program=shard_program,
            bit_positions=places,
            lane_qubits=0,
        )

    def cross(op: str, first: Any, *upstream: Any) -> Any:
        return getattr(ops, op)(
            shared, each, shard, shard, first, *upstream, program=shard_program, lane_qubits=0
        )

    one, none = tf.ones([3, 1]), tf.zeros([0])
    shard_program = program()
    shard = ops.qfleet_first_stage(
        shared,
        each,
        tf.ones([3, 4], real),
        program=shard_program,
        T=tf.float32,
        bit_positions=(1,),
        lane_qubits=0,
    )
    group = 2 * library.simd_lanes(4)
    packed, start = tf.ones([2, group]), tf.constant(0, tf.int64)
    length, empty = tf.constant(group, tf.int64), tf.zeros([0], tf.int64)
    kept = values()[1]
    many = tf.zeros([64, 1], real)
    half = tf.split(values(each=many)[1], 2)[0]
    waiting = tf.ones([3, 4], tf.complex64)
    wide = program(qubits=20, window=[bit for bit in range(20) if bit != 9])
    bare, far = program(each=0), program(each=0, qubits=40)
    nan, infinite = tf.constant([np.nan], real), tf.fill([3, 1], tf.constant(np.inf, real))
    takes, unit = program(start=2), tf.fill([3, 4], tf.constant(0.5, tf.complex64))
    starts = {"text": takes, "states": unit, "order": (1, 0)}
    no_row = tf.zeros([0, 1], real)
    examples = {count: tf.zeros([count, 0], real) for count in (2**24, 2**40, 2**62)}
    rejected: dict[str, Callable[[], Any]] = {
        "no program": lambda: values(b""),
        "a program cut short": lambda: values(small[:-8]),
        "exponents in the prefix": lambda: values(program(prefix=2)),
        "a window larger than a chunk": lambda: values(wide),
        "shared of rank 0": lambda: values(shared=shared[0]),
        "shared of rank 2": lambda: values(shared=shared[tf.newaxis]),
        "too many shared": lambda: values(shared=tf.zeros([2], real)),
        "no shared": lambda: values(shared=tf.zeros([0], real)),
        "each of rank 1": lambda: values(each=each[0]),
        "each of rank 3": lambda: values(each=each[tf.newaxis]),
        "too many each": lambda: values(each=tf.zeros([3, 2], real)),
        "no each": lambda: values(each=tf.zeros([3, 0], real)),
        "upstream of rank 1": lambda: gradients(one[0], none),
        "upstream of another batch": lambda: gradients(one[:2], none),
        "upstream of other readouts": lambda: gradients(one, none, two),
        "kept states of a larger batch": lambda: gradients(one, tf.concat([kept] * 9, axis=0)),
        "kept states of no batch": lambda: gradients(one, tf.ones([3])),
        "a part of the kept states": lambda: gradients(one, kept[:-1]),
        "half of the kept states": lambda: gradients(tf.ones([64, 1]), half, each=many),
        "kept states and no example": lambda: gradients(one[:0], kept, each=no_row),
        "gradients by each of a span": lambda: gradients(one, none, allow_subspace=True),
        "an order that is short": lambda: state(order=(0,)),
        "an order with a bit twice": lambda: state(order=(1, 1)),
        "an order beyond the bits": lambda: state(order=(0, 2)),
        "an order below 0": lambda: state(order=(0, -1)),
        "states of rank 1": lambda: state_gradients(waiting[0], waiting),
        "states of another batch": lambda: state_gradients(waiting[:2], waiting),
        "states of other qubits": lambda: state_gradients(waiting[:, :2], waiting),
        "the states' upstream of another batch": lambda: state_gradients(waiting, waiting[:2]),
        "initial states of |00>": lambda: values(states=unit),
        "no initial states": lambda: values(takes, order=(1, 0)),
        "initial states of another batch": lambda: values(**{**starts, "states": unit[:2]}),
        "initial states of rank 1": lambda: values(**{**starts, "states": unit[0]}),
        "initial states of norm 2": lambda: values(**{**starts, "states": waiting}),
        "initial states in complex128": lambda: values(
            **{**starts, "states": tf.cast(unit, tf.complex128)}
        ),
        "initial states without an order": lambda: values(takes, states=unit),
        "gradients by no initial states": lambda: gradients(one, none, takes, order=(1, 0)),
        "shared in float32": lambda: values(shared=tf.cast(shared, tf.float32)),
        "each in int64": lambda: values(each=tf.cast(each, tf.int64)),
        "values in int32": lambda: values(dtype=tf.int32),
        "upstream in float64": lambda: gradients(tf.cast(one, real), none),
        "more values than can be counted": lambda: values(
            program(each=0, readouts=4), each=examples[2**62]
        ),
        "more amplitudes than can be counted": lambda: state(
            far, each=examples[2**24], order=range(40)
        ),
        "40 qubits": lambda: values(program(qubits=40)),
        "40 qubits, no kept states": lambda: values(program(qubits=40), keep_states=False),
        "the gradients of 40 qubits": lambda: gradients(one, none, program(qubits=40)),
        "the state of 40 qubits": lambda: state(program(qubits=40), order=range(40)),
        "a position that is empty": lambda: region("qfleet_pack_region", empty, length),
        "a position that is a vector": lambda: region("qfleet_pack_region", [start], length),
        "a position below 0": lambda: region("qfleet_pack_region", start - 1, length),
        "a length that is empty": lambda: region("qfleet_pack_region", start, empty),
        "no places to pack": lambda: region("qfleet_pack_region", start, length, ()),
        "an empty position to unpack": lambda: region("qfleet_unpack_region", empty, packed),
        "no places to unpack": lambda: region("qfleet_unpack_region", start, packed[:1], ()),
        "packed groups of rank 0": lambda: region("qfleet_unpack_region", start, packed[0, 0]),
        "a peer's empty position": lambda: cross("qfleet_cross_shard_expectation", empty),
        "an empty position for lambda": lambda: cross(
            "qfleet_cross_shard_apply_observables", empty, one
        ),
        "a negative limit": lambda: values(memory_limit=-(2**63)),
        "2**40 examples": lambda: values(bare, each=examples[2**40]),
    }
    accepted: dict[str, Callable[[], Any]] = {
        "a call as it should be": values,
        "its gradients": lambda: gradients(one, kept),
        "initial states": lambda: values(**starts),
        "gradients by initial states": lambda: gradients(one, none, **starts, state_gradients=True),
        "gradients by states without any": lambda: gradients(one, kept, state_gradients=True),
        "no example with a state": lambda: values(**{**starts, "states": unit[:0]}, each=no_row),
        "NaN": lambda: values(shared=nan),
        "infinity": lambda: values(each=infinite, keep_states=False, allow_subspace=True),
        "the gradients of NaN": lambda: gradients(one * np.nan, none, shared=nan, each=infinite),
        "the state of NaN": lambda: state(shared=nan, each=infinite),
        "no example": lambda: values(each=no_row),
        "the gradients of no example": lambda: gradients(one[:0], none, each=no_row),
        "the state of no example": lambda: state(each=no_row),
        "gradients of no states": lambda: state_gradients(waiting[:0], waiting[:0], each=no_row),
        "a packed region": lambda: region("qfleet_pack_region", start, length),
        "an unpacked region": lambda: region("qfleet_unpack_region", start, packed),
        "a span and no room": lambda: values(allow_subspace=True, memory_limit=0),
        "a span and all room": lambda: values(allow_subspace=True, memory_limit=2**63 - 1),
    }
    # TensorFlow retries a failed allocation of an output for 10 s: once is enough.
    slow = {"40 qubits", "the state of 40 qubits", "2**40 examples"}
    # Shape functions of a graph raise ValueError.
    known = (errors.InvalidArgumentError, errors.ResourceExhaustedError, TypeError, ValueError)
    for name, call in {**rejected, **accepted}.items():
        for way in (call,) if name in slow else (call, tf.function(call)):
            print(name, flush=True)  # names the call if the process crashes
            if name in accepted:
                way()
                continue
            with pytest.raises(known):
                way()
