"""TensorFlow's operations on a device, compared with those on the CPU.

QFLEET_TEST_DEVICE names the device, as for test_device_engine.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from common.errors import (
    DeviceLost,
    QfleetError,
    SettingsError,
    SimulationError,
    as_qfleet_error,
)
from qfleet.engine import devices
from tests.support.device_library import DEVICE, build_device_library

if TYPE_CHECKING:
    from qfleet.tensorflow.layers import CircuitLayer

tensorflow = pytest.importorskip("tensorflow", exc_type=ImportError)

TOLERANCE = 1e-5  # of complex64
QUBITS = cirq.LineQubit.range(3)
A, B, C = QUBITS
X, P, Q = sympy.symbols("x p q")
CIRCUIT = cirq.Circuit(
    cirq.H.on_each(QUBITS),
    cirq.rx(X).on(A),
    cirq.CNOT(A, B),
    cirq.ry(P).on(B),
    cirq.ZZ(B, C) ** Q,
    cirq.rx(X + P).on(C),
)
OBSERVABLES = [cirq.Z(A) * cirq.X(B) + 0.5 * cirq.Y(C), cirq.Z(B) * cirq.Z(C)]
ROWS = np.array([[0.3], [-1.1], [0.8]], np.float32)
ANGLES = np.array([0.7, -0.4], np.float32)
WEIGHTS = np.array([[1, -2], [0.5, 1], [3, 0.25]], np.float32)


device_library = pytest.fixture(build_device_library, scope="module", autouse=True)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the device in the environment."""
    monkeypatch.setenv("QFLEET_DEVICE", DEVICE)


def build_layer(kind: str) -> "CircuitLayer":
    """Build a layer whose trained angles are ANGLES."""
    from qfleet.tensorflow.layers import Expectation, State
    from qfleet.tensorflow.runtime import keras

    initial = keras.initializers.Constant(ANGLES)
    if kind == "state":
        return State(CIRCUIT, ["x"], initializer=initial)
    if kind == "density":
        noisy = CIRCUIT + cirq.amplitude_damp(0.1).on_each(QUBITS)
        method = "density_matrix"
        return Expectation(noisy, ["x"], OBSERVABLES, initializer=initial, method=method)
    return Expectation(CIRCUIT, ["x"], OBSERVABLES, initializer=initial)


def trace(layer: "CircuitLayer", *, by_inputs: bool) -> Any:
    """Trace a function of ROWS that returns the layer's result and its gradients."""
    from qfleet.tensorflow.runtime import tf

    layer.build([None, 1])

    @tf.function
    def differentiate(rows: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            if by_inputs:
                tape.watch(rows)
            result = layer(rows)
            real = tf.math.real(result) + 2 * tf.math.imag(result)
            loss = tf.reduce_sum(real[:, :2] * WEIGHTS)
        return result, tape.gradient(loss, [layer.angles, *([rows] if by_inputs else [])])

    return differentiate.get_concrete_function(tf.TensorSpec([None, 1], tf.float32))


def libraries_of(function: Any) -> set[bytes]:
    """Return the device libraries of the engine's operations in a traced function."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    return {node.attr["device_library"].s for node in nodes if node.op.startswith("Qfleet")}


@pytest.mark.parametrize("by_inputs", [False, True])
@pytest.mark.parametrize("kind", ["expectation", "state", "density"])
def test_layer_and_gradients_equal_those_of_the_cpu(
    kind: str, by_inputs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QFLEET_DEVICE", raising=False)
    wanted = trace(build_layer(kind), by_inputs=by_inputs)
    monkeypatch.setenv("QFLEET_DEVICE", DEVICE)
    made = trace(build_layer(kind), by_inputs=by_inputs)
    assert libraries_of(wanted) == {b""}
    assert libraries_of(made) == {bytes(devices.library_path_of(devices.resolve(DEVICE)))}
    found, right = (
        tensorflow.nest.flatten(one(tensorflow.constant(ROWS))) for one in (made, wanted)
    )
    assert len(found) == 2 + by_inputs
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)


@pytest.mark.usefixtures("on_device")
def test_eager_layer_equals_the_compiled_circuit() -> None:
    compiled = qfleet.compile(CIRCUIT, ["x"], ["p", "q"], OBSERVABLES, device="cpu")
    found = build_layer("expectation")(ROWS)
    np.testing.assert_allclose(found, compiled.expectation(ROWS, ANGLES), rtol=0, atol=TOLERANCE)


@pytest.mark.usefixtures("on_device")
def test_description_begins_with_the_device() -> None:
    device = devices.resolve(DEVICE)
    assert build_layer("expectation").describe().startswith(f"device: {device}, ")


@pytest.mark.usefixtures("on_device")
def test_too_wide_state_exceeds_the_memory_of_the_device() -> None:
    from qfleet.tensorflow.backends import build_simulator

    wide = cirq.Circuit(cirq.rx(P).on_each(cirq.LineQubit.range(45)))
    with pytest.raises(qfleet.MemoryLimitError, match=f"45 qubits.*{DEVICE}"):
        build_simulator(wide, (), ["p"], ())


@pytest.mark.usefixtures("on_device")
def test_missing_library_is_one_device_error_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cuda", "host"):
        monkeypatch.setattr(devices, f"{name}_path", lambda: tmp_path / "libqfleet_none.so")
    with pytest.raises(qfleet.DeviceError) as caught:
        build_layer("expectation")
    text = str(caught.value)
    assert text.startswith("the library libqfleet_none.so of the device ")
    assert "\n" not in text


def test_operation_without_its_library_is_a_users_mistake(tmp_path: Path) -> None:
    from qfleet import native
    from qfleet.tensorflow.engine_simulator import NO_STATES
    from qfleet.tensorflow.native import NativeSimulator
    from qfleet.tensorflow.runtime import tf

    simulator = NativeSimulator(CIRCUIT, ["x"], ["p", "q"], ())
    missing = tmp_path / "libqfleet_none.so"
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"loaded: {missing}") as caught:
        native.ops().qfleet_state(
            *simulator._exponents(ROWS, ANGLES),
            initial_states=NO_STATES,
            program=simulator._serialized,
            T=tf.complex64,
            order=[0, 1, 2],
            device_library=str(missing),
        )
    assert isinstance(as_qfleet_error(caught.value), SettingsError)


def test_initial_states_have_the_gradients_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.runtime import keras, tf

    found = []
    for device in (DEVICE, "cpu"):
        monkeypatch.setenv("QFLEET_DEVICE", device)
        initial = keras.initializers.Constant(ANGLES)
        options = {"initializer": initial, "initial_states": True}
        layer = Expectation(CIRCUIT, ["x"], OBSERVABLES, **options)
        states = tf.constant(np.eye(8)[:3], tf.complex64)
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = tf.reduce_sum(WEIGHTS * layer([states, ROWS]))
        assert layer.describe().startswith("device: ") == (device == DEVICE)
        found.append((loss, *tape.gradient(loss, (states, layer.trainable_variables[0]))))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)


@pytest.mark.usefixtures("on_device")
@pytest.mark.skipif(DEVICE != "host", reason="a GPU is not lost")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("variable", "error", "words"),
    [
        ("HOST_EXECUTOR_LOST", DeviceLost, "worker 0: the device failed: .* start the process"),
        ("HOST_EXECUTOR_BYTES", SimulationError, "worker 0: .* of the device's memory, but 0 MiB"),
    ],
)
def test_failure_in_a_step_of_a_training_is_a_sentence(
    variable: str,
    error: type[QfleetError],
    words: str,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from training.cluster.spec import ClusterSpec, loopback_addresses
    from training.process.preemption import Preemption
    from training.process.watchdog import Watchdog
    from training.step.peer_errors import PeerErrorTranslator

    layer = build_layer("expectation")
    layer(ROWS)  # which makes its program
    # More than before: an operation of an equal program has kept its memory.
    rows = np.tile(ROWS, [100 * workers * (4 if error is SimulationError else 1), 1])
    cluster = ClusterSpec(loopback_addresses(range(1, workers + 1)), 0)
    committed: list[int] = []
    monkeypatch.setenv(variable, "1")
    with (
        pytest.raises(error, match=words) as caught,
        PeerErrorTranslator(
            cluster,
            Preemption(Watchdog(), is_chief=True),
            commit_newest=lambda: committed.append(1),
        ),
    ):
        layer(rows)
    assert "\n" not in str(caught.value)
    with pytest.raises(tensorflow.errors.OpError) as original:  # as in an inference
        layer(rows)
    assert isinstance(as_qfleet_error(original.value), error)
    assert bool(committed) == (error is DeviceLost)
    monkeypatch.delenv(variable)
    assert len(layer(rows)) == len(rows)


@pytest.mark.usefixtures("on_device")
def test_tensor_networks_warn_and_use_the_cpu() -> None:
    from qfleet.tensorflow.layers import Expectation

    devices.warn_once.cache_clear()
    with pytest.warns(UserWarning, match=f"tensor_network.*{devices.resolve(DEVICE)}"):
        layer = Expectation(CIRCUIT, ["x"], OBSERVABLES, method="tensor_network")
    assert layer(ROWS).shape == (3, 2)
