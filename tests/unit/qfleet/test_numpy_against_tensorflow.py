"""The NumPy interface and the TensorFlow layer, which share the core, have equal results."""

import numpy as np
import pytest

import qfleet
from qfleet.circuits.qcnn import qcnn
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.native import NativeSimulator
from qfleet.tensorflow.runtime import tf
from tests.support.random_circuits import INPUTS, PARAMETERS, Case, check_each, draw_cases


@pytest.fixture(autouse=True)
def _equal_threads() -> None:
    """Use TensorFlow's number of threads: rounding depends on it."""
    qfleet.set_num_threads(tf.config.threading.get_intra_op_parallelism_threads() or 2)


def compare(case: Case, inputs: tuple[str, ...], parameters: tuple[str, ...], dtype: str) -> None:
    """Compare values, gradients and states."""
    rng = np.random.default_rng(case.seed)
    real = {"complex64": np.float32, "complex128": np.float64}[dtype]
    rows = rng.uniform(-1.5, 1.5, (case.batch, len(inputs))).astype(real)
    shared = rng.uniform(-1.5, 1.5, len(parameters)).astype(real)
    upstream = rng.normal(size=(case.batch, len(case.observables))).astype(real)
    arguments = case.circuit, inputs, parameters
    compiled = qfleet.compile(*arguments, case.observables, dtype=dtype)
    simulator = build_simulator(*arguments, case.observables, dtype=dtype)
    assert isinstance(simulator, NativeSimulator), "the native engine is not built"
    angles, variables = tf.constant(rows), tf.constant(shared)
    with tf.GradientTape() as tape:
        tape.watch([angles, variables])
        wanted = simulator.expectation(angles, variables)
    by_angles, by_variables = tape.gradient(
        wanted, [angles, variables], upstream, unconnected_gradients="zero"
    )
    values, gradients = compiled.value_and_gradient(rows, shared, upstream)
    epsilon = 100 * np.finfo(real).eps * max(1, np.abs(wanted).max())
    np.testing.assert_allclose(values, wanted, rtol=0, atol=epsilon)
    scale = 1 + np.abs(by_variables).sum()
    np.testing.assert_allclose(gradients.inputs, by_angles, rtol=0, atol=epsilon * scale)
    np.testing.assert_allclose(gradients.parameters, by_variables, rtol=0, atol=epsilon * scale)
    states = qfleet.compile(*arguments, dtype=dtype).state(rows, shared)
    wanted = build_simulator(*arguments, (), dtype=dtype).state(angles, variables)
    np.testing.assert_allclose(states, wanted, rtol=0, atol=epsilon)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_random_circuits_equal_tensorflow(dtype: str) -> None:
    drawn = draw_cases(22, 4, most_qubits=7)
    check_each(drawn, lambda case: compare(case, INPUTS, PARAMETERS, dtype))


@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_values_of_affine_circuit_equal_bit_for_bit(dtype: str, batch: int) -> None:
    model = qcnn(6, encoder="reupload", features=6)
    arguments = model.circuit, model.inputs, model.parameters, model.observables
    compiled = qfleet.compile(*arguments, dtype=dtype)
    simulator = build_simulator(*arguments, dtype=dtype)
    rng = np.random.default_rng(batch)
    rows = rng.normal(size=(batch, 6)).astype(compiled.real_dtype)
    shared = rng.normal(size=len(model.parameters)).astype(compiled.real_dtype)
    np.testing.assert_array_equal(
        compiled.expectation(rows, shared),
        simulator.expectation(tf.constant(rows), tf.constant(shared)),
    )
