"""Shapes and dtypes of angles and parameters: errors name the argument; empty batches work."""

from collections.abc import Callable, Mapping
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

from qfleet import native
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.engine_simulator import NO_STATES
from qfleet.tensorflow.native import NativeSimulator
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import Simulator

SHAPE_ERRORS = (TypeError, ValueError, tf.errors.InvalidArgumentError)
BACKENDS = ("qfleet", "tensorflow", pytest.param("tfq", marks=pytest.mark.tfq))


def build(backend: str, *, observables: bool = True) -> Simulator:
    """Build a simulator of 2 inputs, 3 parameters and 2 readouts."""
    a, b = cirq.LineQubit.range(2)
    x, y, p, q, r = sympy.symbols("x y p q r")
    circuit = cirq.Circuit(
        cirq.rx(x).on(a), cirq.ry(p).on(b), (cirq.CZ**q).on(a, b), cirq.rx(y * r).on(b)
    )
    read = [cirq.PauliSum() + cirq.Z(a), cirq.X(a) * cirq.Y(b) + 0.5] if observables else []
    return build_simulator(circuit, ("x", "y"), ("p", "q", "r"), read, backend=backend)


WRONG: Mapping[str, tuple[str, Any, Any]] = {
    "a scalar": ("angles", 0.5, np.zeros(3, np.float32)),
    "one row": ("angles", np.zeros(2, np.float32), np.zeros(3, np.float32)),
    "too few inputs": ("angles", np.zeros((4, 1), np.float32), np.zeros(3, np.float32)),
    "too many inputs": ("angles", np.zeros((4, 3), np.float32), np.zeros(3, np.float32)),
    "no inputs": ("angles", np.zeros((4, 0), np.float32), np.zeros(3, np.float32)),
    "three axes": ("angles", np.zeros((1, 4, 2), np.float32), np.zeros(3, np.float32)),
    "a trained scalar": ("parameters", np.zeros((4, 2), np.float32), 0.5),
    "too few": ("parameters", np.zeros((4, 2), np.float32), np.zeros(2, np.float32)),
    "one": ("parameters", np.zeros((4, 2), np.float32), np.zeros(1, np.float32)),
    "too many": ("parameters", np.zeros((4, 2), np.float32), np.zeros(4, np.float32)),
    "a row each": ("parameters", np.zeros((4, 2), np.float32), np.zeros((4, 3), np.float32)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_expectation_wrong_shape_raises(backend: str, wrong: str) -> None:
    name, angles, parameters = WRONG[wrong]
    with pytest.raises(SHAPE_ERRORS, match=name):
        build(backend).expectation(tf.constant(angles), tf.constant(parameters))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_expectation_wrong_dynamic_shape_raises(backend: str, wrong: str) -> None:
    name, angles, parameters = WRONG[wrong]
    anything = tf.TensorSpec(None, tf.float32)
    late = tf.function(build(backend).expectation, input_signature=[anything, anything])
    with pytest.raises(SHAPE_ERRORS, match=name):
        late(tf.constant(angles), tf.constant(parameters))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64", "string", "bool"])
@pytest.mark.parametrize("name", ["angles", "parameters"])
def test_expectation_wrong_dtype_raises(backend: str, dtype: str, name: str) -> None:
    shapes = {"angles": (4, 2), "parameters": (3,)}
    given = {one: tf.zeros(shape) for one, shape in shapes.items()}
    given[name] = (
        tf.fill(shapes[name], "0.5") if dtype == "string" else tf.zeros(shapes[name], dtype)
    )
    with pytest.raises(SHAPE_ERRORS, match=name):
        build(backend).expectation(**given)


@pytest.mark.parametrize("backend", ["qfleet", "tensorflow"])
def test_state_wrong_shape_raises(backend: str) -> None:
    simulator = build(backend, observables=False)
    for name, angles, parameters in WRONG.values():
        with pytest.raises(SHAPE_ERRORS, match=name):
            simulator.state(tf.constant(angles), tf.constant(parameters))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrap", [lambda call: call, tf.function], ids=["eager", "graph"])
def test_expectation_empty_batch_has_empty_results(backend: str, wrap: Callable) -> None:
    simulator = build(backend)
    angles, parameters = tf.zeros([0, 2]), tf.ones([3])

    @wrap
    def run(angles: tf.Tensor, parameters: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch([angles, parameters])
            values = simulator.expectation(angles, parameters)
            loss = tf.reduce_sum(values)
        return values, tape.gradient(loss, [angles, parameters])

    values, (by_angle, by_parameter) = run(angles, parameters)
    assert values.shape == (0, 2)
    assert by_angle.shape == (0, 2)
    np.testing.assert_array_equal(by_parameter, np.zeros(3))


def test_native_ops_mismatched_operands_raise() -> None:
    simulator = build("qfleet")
    assert isinstance(simulator, NativeSimulator), "the native engine is not built"
    ops, program = native.ops(), simulator._serialized
    shared, each = simulator._exponents(tf.zeros([4, 2]), tf.zeros([3]))
    plan = {"allow_subspace": False, "memory_limit": 1 << 30}

    def values(shared: Any = shared, each: Any = each, program: bytes = program) -> Any:
        return ops.qfleet_expectation(
            shared, each, NO_STATES, program=program, T=tf.float32, keep_states=True, **plan
        )

    def gradients(upstream: Any, kept: Any, each: Any = each) -> Any:
        return ops.qfleet_expectation_gradient(
            shared,
            each,
            upstream,
            kept,
            NO_STATES,
            program=program,
            per_example_gradients=True,
            **plan,
        )

    result, kept = values()
    gradients(result, kept)
    wider = tf.zeros([4, each.shape[1] + 1], tf.float64)
    rejected: list[Callable[[], Any]] = [
        lambda: values(shared=tf.zeros([shared.shape[0] + 1], tf.float64)),
        lambda: values(shared=tf.zeros([0], tf.float64)),
        lambda: values(shared=shared[None]),
        lambda: values(shared=tf.zeros([], tf.float64)),
        lambda: values(each=wider),
        lambda: values(each=each[0]),
        lambda: values(each=each[None]),
        lambda: values(program=b""),
        lambda: values(program=b"\x00" * 64),
        lambda: values(program=program[:-8]),
        lambda: values(program=program + b"\x00" * 8),
        lambda: values(program=program[: len(program) // 2]),
        lambda: values(program=program[1:]),
        lambda: gradients(result[:2], kept),
        lambda: gradients(result[:, :1], kept),
        lambda: gradients(result[0], kept),
        lambda: gradients(result, kept[:-1]),
        lambda: gradients(result, tf.concat([kept] * 9, axis=0)),
        lambda: gradients(result, kept, each=wider),
    ]
    for call in rejected:
        with pytest.raises(tf.errors.InvalidArgumentError):
            call()
    for wrong in (tf.cast(shared, tf.float32), tf.cast(shared, tf.int64)):
        with pytest.raises(SHAPE_ERRORS):
            values(shared=wrong)


def test_native_op_damaged_program_does_not_crash() -> None:
    """Change numbers of a serialized program at random: errors are allowed, crashes are not."""
    simulator = build("qfleet")
    assert isinstance(simulator, NativeSimulator), "the native engine is not built"
    operands = simulator._exponents(tf.zeros([4, 2]), tf.zeros([3]))
    random = np.random.default_rng(0)
    words = np.frombuffer(simulator._serialized, np.int64)
    refused = 0
    for _ in range(300):
        damaged = words.copy()
        at = random.integers(len(damaged))
        damaged[at] = random.choice([-1, 0, 1, 2, 7, 2**31, 2**62, -(2**62), damaged[at] + 1])
        try:
            native.ops().qfleet_expectation(
                *operands, NO_STATES, program=damaged.tobytes(), T=tf.float32, keep_states=False,
                allow_subspace=True, memory_limit=1 << 30,
            )  # fmt: skip
        except (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError):
            refused += 1
    assert refused > 30
