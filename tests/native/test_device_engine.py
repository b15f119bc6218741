"""The engine on a device, compared with the engine on the CPU.

QFLEET_TEST_DEVICE names the device: "host" unless set, or "cuda" on a machine with a GPU. These
tests need no framework and no hypothesis.
"""

import pickle

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.engine import devices
from qfleet.engine.devices import Device
from tests.support.device_circuits import (
    HVP_TOLERANCE,
    TOLERANCE,
    assert_close,
    check_gradients,
    compile_both,
    compile_pair,
    draw_circuit,
    draw_point,
)
from tests.support.device_library import DEVICE, build_device_library
from tests.support.random_circuits import INPUTS, PARAMETERS

NARROW, WIDE = tuple(range(1, 8)), tuple(range(8, 15))
WIDEST = (15, 16, 17, 18)
"""Of a GPU: the larger clusters, and a state in the device's memory."""
BATCHES = (1, 3, 17)
CIRCUITS = 2  # of each width
DIRECTIONS = ((3, "both"), (1, "inputs"), (17, "parameters"))  # batches and tangents of hvp
POINT = np.array([[0.3, -0.8, 1.1]]), np.array([0.7, -0.2, 0.4, -1.3])


device_library = pytest.fixture(build_device_library, scope="session", autouse=True)


def check_values(width: int, seed: int, batch: int, dtype: str) -> None:
    """Compare values and gradients of one circuit and batch."""
    made, wanted = compile_pair(width, seed, dtype=dtype)
    point = draw_point(seed, batch)
    upstream = np.random.default_rng(seed + 1).normal(size=(batch, made.readouts))
    assert_close(made.expectation(*point), wanted.expectation(*point), dtype)
    for by_inputs in (True, False):
        check_gradients((made, wanted), point, upstream, dtype, input_gradients=by_inputs)


def check_states(width: int, seed: int, batch: int, dtype: str) -> None:
    """Compare states and their gradients of one circuit and batch."""
    made, wanted = compile_pair(width, seed, dtype=dtype, state=True)
    point = draw_point(seed, batch)
    states = wanted.state(*point)
    assert_close(made.state(*point), states, dtype)
    rng = np.random.default_rng(seed + 1)
    upstream = rng.normal(size=states.shape) + 1j * rng.normal(size=states.shape)
    upstream /= np.linalg.norm(upstream, axis=1, keepdims=True)
    gradients = made.state_vjp(*point, upstream)
    right = wanted.state_vjp(*point, upstream)
    assert_close(gradients.inputs, right.inputs, dtype)
    assert_close(gradients.parameters, right.parameters, dtype)


def check_hvp(width: int, seed: int, batch: int, dtype: str, by: str) -> None:
    """Compare Hessian-vector products of a direction of inputs, parameters or both."""
    made, wanted = compile_pair(width, seed, dtype=dtype)
    inputs, parameters = draw_point(seed, batch)
    rng = np.random.default_rng(seed + 1)
    upstream = rng.normal(size=(batch, made.readouts))
    along_inputs = None if by == "parameters" else rng.normal(size=inputs.shape)
    along_parameters = None if by == "inputs" else rng.normal(size=parameters.shape)
    arguments = inputs, parameters, upstream, along_inputs, along_parameters
    values, products = made.hvp(*arguments)
    right_values, right = wanted.hvp(*arguments)
    assert_close(values, right_values, dtype, HVP_TOLERANCE)
    assert_close(products.parameters, right.parameters, dtype, HVP_TOLERANCE)
    assert_close(products.inputs, right.inputs, dtype, HVP_TOLERANCE)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("width", NARROW)
def test_values_and_gradients_equal_those_of_the_cpu(width: int, batch: int, dtype: str) -> None:
    for seed in range(CIRCUITS):
        check_values(width, seed, batch, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("width", NARROW)
def test_states_and_gradients_equal_those_of_the_cpu(width: int, batch: int, dtype: str) -> None:
    for seed in range(CIRCUITS):
        check_states(width, seed, batch, dtype)


@pytest.mark.skipif(DEVICE == "host", reason="it has smaller classes, and needs minutes for these")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", WIDEST)
def test_widest_values_and_gradients_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    check_values(width, 0, 2, dtype)


@pytest.mark.skipif(DEVICE == "host", reason="its clusters have several examples in other tests")
@pytest.mark.parametrize(("width", "batch"), [(14, 300), (17, 40)])
def test_clusters_with_several_examples_equal_the_cpu(width: int, batch: int) -> None:
    check_values(width, 0, batch, "complex64")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", WIDE)
def test_wide_values_and_gradients_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    check_values(width, 0, 1, dtype)
    check_values(width, 1, 3, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", WIDE)
def test_wide_states_and_gradients_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    check_states(width, 0, 3, dtype)


@pytest.mark.parametrize("width", [1, 4, 7, WIDE[-1]])
def test_samples_with_equal_seeds_equal_those_of_the_cpu(width: int) -> None:
    made, wanted = compile_pair(width, 0, state=True)
    point = draw_point(5, 3)
    found = made.sample(*point, shots=50, seed=7)
    np.testing.assert_array_equal(found, wanted.sample(*point, shots=50, seed=7))


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("width", [3, WIDE[-1]])
def test_initial_state_is_evolved(width: int, state: bool) -> None:
    circuit, observables = draw_circuit(width, 2)
    start = cirq.testing.random_superposition(2**width, random_state=3)
    made, wanted = compile_both(circuit, () if state else observables, initial_state=start)
    if state:
        assert_close(made.state(*POINT), wanted.state(*POINT), "complex128")
    else:
        assert_close(made.expectation(*POINT), wanted.expectation(*POINT), "complex128")


@pytest.mark.parametrize("width", [5, 9, WIDE[-1]])
def test_calls_have_equal_bits(width: int) -> None:
    made, _ = compile_pair(width, 0, dtype="complex64")
    point = draw_point(3, 17)
    values, gradients = made.value_and_gradient(*point)
    for _ in range(2):
        again, repeated = made.value_and_gradient(*point)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(repeated.parameters, gradients.parameters)
        np.testing.assert_array_equal(repeated.inputs, gradients.inputs)


def test_forward_keeps_no_states_and_vjp_evolves_again() -> None:
    made, _ = compile_pair(4, 0)
    upstream = np.ones((1, made.readouts))
    values, residuals = made.forward(*POINT)
    assert residuals.kept.size == 0
    np.testing.assert_array_equal(values, made.expectation(*POINT))
    _, right = made.value_and_gradient(*POINT, upstream)
    for kept in (residuals, None):
        found = made.vjp(*POINT, upstream, residuals=kept)
        assert_close(found.parameters, right.parameters, "complex128")
        assert_close(found.inputs, right.inputs, "complex128")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", NARROW)
def test_hessian_vector_products_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    for seed, (batch, by) in enumerate(DIRECTIONS):
        check_hvp(width, seed, batch, dtype, by)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", WIDE)
def test_wide_hessian_products_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    check_hvp(width, 0, 3 if width < 11 else 1, dtype, "both")


def test_hessian_product_without_results_by_input_is_the_same() -> None:
    made, _ = compile_pair(5, 0)
    inputs, parameters = draw_point(5, 3)
    exponents = made.symbols(inputs, parameters)
    program = made.program
    wanted = program.hvp(*exponents, *exponents, np.ones((3, made.readouts)))[1]
    batch = program._batch(*exponents, False)
    values = np.empty((3, made.readouts))
    operands = *map(np.ascontiguousarray, exponents), np.ones_like(values), values
    found, none = program._core.gradients(
        program._library.qfleet_expectation_hvp, batch, *operands, per_example=False
    )
    assert none is None
    assert_close(found, wanted, "complex128")


@pytest.mark.parametrize("width", [5, 9, 11])
def test_hessian_products_between_gradients_have_equal_bits(width: int) -> None:
    made, _ = compile_pair(width, 0, dtype="complex64")
    inputs, parameters = draw_point(3, 3)
    wanted = made.value_and_gradient(inputs, parameters)[1].parameters
    values, products = made.hvp(inputs, parameters, None, inputs, parameters)
    for _ in range(2):
        found = made.value_and_gradient(inputs, parameters)[1].parameters
        np.testing.assert_array_equal(found, wanted)
        again, repeated = made.hvp(inputs, parameters, None, inputs, parameters)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(repeated.parameters, products.parameters)
        np.testing.assert_array_equal(repeated.inputs, products.inputs)


def test_hessian_product_with_initial_state_equals_the_cpus() -> None:
    circuit, observables = draw_circuit(3, 2)
    start = cirq.testing.random_superposition(8, random_state=3)
    (values, products), (right_values, right) = (
        qfleet.compile(
            circuit, INPUTS, PARAMETERS, observables, initial_state=start, device=device
        ).hvp(*POINT, None, *POINT)
        for device in (DEVICE, "cpu")
    )
    assert_close(values, right_values, "complex128")
    assert_close(products.parameters, right.parameters, "complex128")


def test_hessian_product_of_empty_batch_is_empty() -> None:
    made, _ = compile_pair(3, 0)
    none = np.empty((0, len(INPUTS)))
    values, products = made.hvp(none, POINT[1], None, none, POINT[1])
    assert values.shape == (0, made.readouts)
    np.testing.assert_array_equal(products.parameters, np.zeros(len(PARAMETERS)))


def test_empty_batch_returns_empty_arrays() -> None:
    made, _ = compile_pair(3, 0)
    values, gradients = made.value_and_gradient(np.empty((0, len(INPUTS))), POINT[1])
    assert values.shape == (0, made.readouts)
    assert gradients.inputs is not None
    assert gradients.inputs.shape == (0, len(INPUTS))
    np.testing.assert_array_equal(gradients.parameters, np.zeros(len(PARAMETERS)))


def test_circuit_without_symbols_has_values_and_state() -> None:
    qubits = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(cirq.H(qubits[0]), cirq.CNOT(*qubits))
    state = qfleet.compile(circuit, device=DEVICE).state()
    np.testing.assert_allclose(state, np.array([1, 0, 0, 1]) / np.sqrt(2), atol=1e-15)
    observable = cirq.Z(qubits[0]) * cirq.Z(qubits[1]) + 0.25
    compiled = qfleet.compile(circuit, observables=observable, device=DEVICE)
    np.testing.assert_allclose(compiled.expectation(), [1.25], atol=1e-15)


def test_many_programs_are_created_and_freed() -> None:
    made, wanted = compile_pair(2, 0)
    for _ in range(20):
        copied = pickle.loads(pickle.dumps(made))
        assert copied.device == made.device
        assert_close(copied.expectation(*POINT), wanted.expectation(*POINT), "complex128")


def test_description_begins_with_the_device() -> None:
    made, wanted = compile_pair(3, 0)
    first, _, rest = made.describe(batch=4).partition("\n")
    assert first.startswith(f"device: {made.device}, ")
    assert first.endswith("GiB free)")
    # A GPU has a line about what was not run on one.
    assert wanted.describe(batch=4).splitlines()[0] in rest.splitlines()[:2]


def test_too_wide_state_exceeds_the_memory_of_the_device() -> None:
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("p")).on_each(cirq.LineQubit.range(45)))
    with pytest.raises(qfleet.MemoryLimitError, match=f"45 qubits.*{DEVICE}"):
        qfleet.compile(circuit, device=DEVICE)


@pytest.mark.skipif(DEVICE != "host", reason="a GPU has more memory")
def test_states_with_tangents_exceed_the_memory_of_the_device() -> None:
    qubits = cirq.LineQubit.range(25)
    parity = cirq.PauliString(dict.fromkeys(qubits, cirq.Z))
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("p")).on_each(*qubits))
    compiled = qfleet.compile(
        circuit, (), ("p",), parity, dtype="complex128", method="state_vector", device=DEVICE
    )
    with pytest.raises(qfleet.MemoryLimitError, match=r"25 qubits needs .*, enough for 24 qubits"):
        compiled.hvp(None, [0.3], None, None, [1.0])


@pytest.mark.parametrize(("width", "dtype"), [(3, "complex128"), (5, "complex64")])
def test_hessian_products_in_chunks_equal_those_of_the_cpu(width: int, dtype: str) -> None:
    check_hvp(width, 0, 300, dtype, "both")


@pytest.mark.parametrize("number", [99, -1])
def test_missing_gpu_is_a_device_error(number: int) -> None:
    with pytest.raises(qfleet.DeviceError, match=f"no GPU {number}: this machine has [0-9]+, num"):
        devices.info_of(Device(devices.resolve(DEVICE).kind, number))


def test_complex128_on_a_gpu_for_graphics_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    info = devices.info_of(devices.resolve(DEVICE))
    info.double_ratio = 64
    monkeypatch.setattr(devices, "info_of", lambda device: info)
    devices.warn_of_few_units.cache_clear()
    circuit = cirq.Circuit(cirq.X(cirq.LineQubit(0)))
    qfleet.compile(circuit, dtype="complex64", device=DEVICE)
    with pytest.warns(UserWarning, match=f"^{DEVICE}.* per 64 for complex64: choose "):
        qfleet.compile(circuit, dtype="complex128", device=DEVICE)
    qfleet.compile(circuit, dtype="complex128", device=DEVICE)  # a warning is an error here
    devices.warn_of_few_units.cache_clear()
