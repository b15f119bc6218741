"""Random calls of every TensorFlow operation of the native engine, in a process of its own."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qfleet import native
from qfleet.engine import library
from tests.unit.qfleet.test_native_ops import program

# TensorFlow waits for 10 s before it reports a failed allocation.
pytestmark = pytest.mark.native

ROOT = Path(__file__).parents[3]
ROUNDS = 150
QUBITS, EXAMPLES = 5, 3
SHAPES = ((), (0,), (1,), (3,), (2, 3), (0, 0), (3, 0), (0, 7), (1, 1, 1))
NUMBERS = (-(2**63), -1, 0, 1, 2, 5, 64, 2**20, 2**63 - 1)
# Without connections a collective has no valid call; it reports that its peers are lost.
NEVER_ACCEPTED = {"QfleetAllReduce", "QfleetAllToAll"}


@pytest.mark.skipif(
    native.unavailable_reason() is not None, reason=str(native.unavailable_reason())
)
def test_ops_with_random_arguments_survive() -> None:
    code = f"from tests.unit.qfleet.test_op_fuzz import *; call_at_random({ROUNDS})"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]


def call_at_random(rounds: int, seed: int = 0) -> None:
    """Call all operations with random arguments; print each call before it is made.

    Args:
        rounds: Calls of each operation.
        seed: Seed of the arguments.

    Raises:
        AssertionError: An operation accepted less than a tenth of the calls, or all.
    """
    from qfleet.tensorflow.runtime import tf

    names = sorted(
        name
        for name in dir(native.ops())
        if name.startswith("qfleet_") and not name.endswith("_eager_fallback")
    )
    calls = [_RandomCalls(name, np.random.default_rng([seed, i])) for i, name in enumerate(names)]
    errors = (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)
    pool: dict[Any, list[Any]] = {}  # states and kept states, as operands of later calls
    accepted: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for _ in range(rounds):
        for call in calls:
            operands, attributes = call.arguments(pool)
            # Shape functions run in graphs only, and raise ValueError. So do wrong data types.
            # TensorFlow replaces the error of a lost peer in a graph.
            in_graph = call.random.random() < 0.1 and call.name not in NEVER_ACCEPTED
            function = tf.function(call.op) if in_graph else call.op
            shapes = tf.nest.map_structure(lambda one: one.shape, operands)
            print(call.name, shapes, attributes, flush=True)
            try:
                results = function(*operands, **attributes)
            except (*errors, TypeError, ValueError):
                rejected[call.name] += 1
            except (tf.errors.UnavailableError, tf.errors.FailedPreconditionError) as error:
                is_lost_peer = isinstance(error, tf.errors.UnavailableError)
                assert call.name in NEVER_ACCEPTED if is_lost_peer else attributes["device_library"]
                rejected[call.name] += 1
            else:
                accepted[call.name] += 1
                call.keep(results, pool)
    for call in calls:
        counts = f"{call.name}: {accepted[call.name]} accepted, {rejected[call.name]} rejected"
        assert accepted[call.name] >= rounds / 10 or call.name in NEVER_ACCEPTED, counts
        assert rejected[call.name] or not call.has_arguments, counts


class _RandomCalls:
    """Makes arguments for an operation, most of which are valid.

    Args:
        name: Name of the Python function.
        random: Source of the arguments.
    """

    def __init__(self, name: str, random: np.random.Generator) -> None:
        from tensorflow.python.framework import op_def_registry

        self.op = getattr(native.ops(), name)
        self.name = "".join(part.capitalize() for part in name.split("_"))
        self.random = random
        self._definition = op_def_registry.get(self.name)
        arguments = self._definition.input_arg
        inferred = {one.type_attr or one.type_list_attr for one in arguments}
        self._may_take_states = any(one.type_attr == "S" for one in arguments)
        self._attributes = [one for one in self._definition.attr if one.name not in inferred]
        self.has_arguments = bool(self._definition.input_arg or self._attributes)

    def arguments(self, pool: dict[Any, list[Any]]) -> tuple[list[Any], dict[str, Any]]:
        """Return operands and attributes."""
        from qfleet.tensorflow.runtime import tf

        real = self._one_of((tf.float32, tf.float64))
        takes_states = self._may_take_states and bool(self.random.integers(2))
        state = tf.complex64 if real == tf.float32 else tf.complex128
        has_order = any(one.name == "order" for one in self._attributes)
        typed = state if "State" in self.name and has_order else real
        attributes = {
            one.name: self._attribute(one, typed, takes_states) for one in self._attributes
        }
        operands = []
        for one in self._definition.input_arg:
            if one.type_list_attr:
                operands.append(self._list(attributes, pool))
                continue
            if one.type_attr == "S":
                operands.append(self._initial_states(state, takes_states))
                continue
            dtype = typed if one.type_attr else tf.as_dtype(one.type)
            if self._rarely():
                dtype = self._one_of((tf.float32, tf.float64, tf.int64, tf.complex64))
            operands.append(self._operand(one.name, dtype, attributes, pool))
        return operands, attributes

    def keep(self, results: Any, pool: dict[Any, list[Any]]) -> None:
        """Add vectors to the results of earlier calls."""
        every = results if isinstance(results, (tuple, list)) else [results]
        for one, result in zip(self._definition.output_arg, every, strict=True):
            if result.shape.rank == 1 and one.type_attr:
                known = pool.setdefault((result.dtype, one.name == "kept"), [])
                known.insert(0, result)
                del known[10:]

    def _list(self, attributes: dict[str, Any], pool: dict[Any, list[Any]]) -> list[Any]:
        """Return operands of any types, text among them."""
        from qfleet.tensorflow.runtime import tf

        types = (tf.float32, tf.float64, tf.int64, tf.complex64)
        count = self.random.integers(1, 5)
        made = [self._operand("", self._one_of(types), attributes, pool) for _ in range(count)]
        return [*made, tf.constant(["text"])] if self.random.random() < 0.2 else made

    def _one_of(self, values: Any) -> Any:
        return values[self.random.integers(len(values))]

    def _rarely(self) -> bool:
        return bool(self.random.random() < 0.03)

    def _attribute(self, attribute: Any, dtype: Any, takes_states: bool) -> Any:
        from qfleet.tensorflow.runtime import tf

        numbers = [int(one) for one in self.random.choice(NUMBERS, self.random.integers(4))]
        usual = {
            "program": self._program(takes_states),
            "T": dtype,
            "order": list(range(QUBITS)),
            "bit_positions": self._one_of(([QUBITS - 1], [QUBITS - 2, QUBITS - 1])),
            "sockets": [10**6, -1],  # no such file descriptor
            "hops": self._one_of((1, 2)),
            "first_rank": 0,
            "call_site": 0,
            "lane_qubits": 0,
            "memory_limit": 1 << 20,
            "device_library": b"",
            "device": 0,
        }
        if self._rarely():
            if attribute.type == "list(int)":
                return [
                    min(one, 2**31 - 1) if attribute.name == "sockets" else one for one in numbers
                ]
            if attribute.type == "int":
                return int(self._one_of(NUMBERS))
            if attribute.type == "type":
                return self._one_of((tf.int32, tf.float32, tf.complex128))
            if attribute.name == "device_library":
                return b"no_such_library.so"
        if attribute.type == "bool":
            return bool(self.random.integers(2))
        return usual[attribute.name]

    def _program(self, takes_states: bool) -> bytes:
        text = program(qubits=QUBITS, readouts=2, start=2 if takes_states else 0)
        if not self._rarely():
            return text
        words = np.frombuffer(text, np.int64).copy()
        words[self.random.integers(len(words))] = self._one_of((-1, 0, 1, 2, 7, 2**31, 2**62))
        return words.tobytes()

    def _operand(
        self, name: str, dtype: Any, attributes: dict[str, Any], pool: dict[Any, list[Any]]
    ) -> Any:
        from qfleet.tensorflow.runtime import tf
        from qfleet.tensorflow.shard_exchange import mesh_order

        if dtype == tf.resource:
            return mesh_order()
        workers = 2 ** min(len(attributes.get("bit_positions", ())), QUBITS)
        columns = 2**QUBITS if dtype.is_complex else 2
        group = 2 * library.simd_lanes(4 if dtype.size <= 4 else 8)
        usual: dict[str, tuple[int, ...]] = {
            "pieces": (workers, group),
            "shared": (1,),
            "per_example": (EXAMPLES, 1),
            "seeds": (EXAMPLES, 2 * workers),
            "upstream": (EXAMPLES, columns),
            "first": (),
            "count": (),
            "own": (4,),
            "rows": (2, 4),
        }
        if dtype.is_complex:
            usual["states"] = (EXAMPLES, columns)
        if self._rarely():
            return self._numbers(self._one_of(SHAPES), dtype)
        if name in usual:
            if name in ("first", "count"):
                usual_number = 0 if name == "first" else group
                number = self._one_of(
                    (usual_number, usual_number, 2 * group, self._one_of(NUMBERS))
                )
                return tf.constant(number, tf.int64)
            return self._numbers(usual[name], dtype)
        known = pool.get((dtype, name == "kept"), ())
        if name == "peer" and known:
            return self._one_of(known)[: 2 * library.simd_lanes(dtype.size)]
        return self._one_of(known) if known else tf.zeros([0], dtype)

    def _initial_states(self, dtype: Any, takes_states: bool) -> Any:
        from qfleet.tensorflow.runtime import tf

        if self._rarely():
            dtype = self._one_of((tf.float32, tf.complex64, tf.complex128))
        if self._rarely():
            return self._numbers(self._one_of(SHAPES), dtype)
        if takes_states == self._rarely():
            return tf.zeros([0], dtype)
        states = self._numbers((EXAMPLES, 2**QUBITS), dtype)
        return states if self._rarely() else states / tf.norm(states, axis=1, keepdims=True)

    def _numbers(self, shape: tuple[int, ...], dtype: Any) -> Any:
        from qfleet.tensorflow.runtime import tf

        values = self.random.uniform(-2, 2, shape)
        if self._rarely():
            values = values * np.nan
        return tf.cast(tf.constant(values, tf.float64), dtype)
