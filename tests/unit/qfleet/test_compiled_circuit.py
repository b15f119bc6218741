"""The NumPy interface, compared with cirq.Simulator: values, gradients, states, their gradients."""

import copy
import pickle
from dataclasses import replace

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits.qcnn import qcnn
from qfleet.compiler.circuit import lowering
from tests.support.random_circuits import INPUTS, PARAMETERS, Case, check_each, draw_cases
from tests.support.reference import Reference

NAMES = (*INPUTS, *PARAMETERS)
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-10}
A, B, C = cirq.LineQubit.range(3)
X, Y, P, R = sympy.symbols("x y p r")
# The exponents of y * p and r * p are mixed and not affine.
CIRCUIT = cirq.Circuit(
    [cirq.rx(X).on(A), cirq.ry(Y * P).on(B), cirq.CNOT(A, B), (cirq.ZZ**R).on(B, C)],
    [cirq.rx(P).on(C), cirq.H(C), cirq.CZ(C, A), cirq.ry(R * P - 1).on(A)],
)
OBSERVABLES = (cirq.Z(A), cirq.X(B) * cirq.Z(C) + 0.3 * cirq.Y(A) - 0.5)


def compile_example(**options: object) -> qfleet.CompiledCircuit:
    """Compile CIRCUIT with inputs x, y and parameters p, r."""
    return qfleet.compile(CIRCUIT, [X, "y"], observables=OBSERVABLES, **options)


def draw_point(seed: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs and parameters of the random circuits."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.5, 1.5, (batch, len(INPUTS))), rng.uniform(-1.5, 1.5, len(PARAMETERS))


def compare_expectation(case: Case, dtype: str) -> None:
    """Compare values and the gradient along a random direction with the reference."""
    compiled = qfleet.compile(
        case.circuit, INPUTS, PARAMETERS, observables=case.observables, dtype=dtype
    )
    inputs, parameters = draw_point(case.seed, min(case.batch, 3))
    reference = Reference(case.circuit, NAMES, case.observables)
    points = [np.concatenate([row, parameters]) for row in inputs]
    wanted = np.stack([reference.values(point) for point in points])
    tolerance = TOLERANCE[dtype] * reference.scale
    rng = np.random.default_rng(case.seed + 1)
    upstream = rng.normal(size=wanted.shape) / wanted.size
    values, gradients = compiled.value_and_gradient(inputs, parameters, upstream)
    assert values.dtype == compiled.real_dtype
    np.testing.assert_allclose(values, wanted, rtol=0, atol=tolerance)
    np.testing.assert_allclose(compiled.expectation(inputs, parameters), wanted, atol=tolerance)
    direction = rng.normal(size=len(NAMES)) / len(NAMES)
    changes = np.stack([reference.derivative(point, direction) for point in points])
    assert gradients.inputs is not None
    by_examples = (upstream * changes).sum()
    found = np.concatenate([gradients.inputs.sum(axis=0), gradients.parameters]) @ direction
    np.testing.assert_allclose(found, by_examples, rtol=0, atol=tolerance)
    # The gradient by the first example's inputs.
    along_inputs = np.concatenate([direction[: len(INPUTS)], np.zeros(len(PARAMETERS))])
    wanted_rows = [reference.derivative(point, along_inputs) for point in points[:1]]
    np.testing.assert_allclose(
        gradients.inputs[0] @ direction[: len(INPUTS)], upstream[0] @ wanted_rows[0], atol=tolerance
    )


def compare_states(case: Case, dtype: str) -> None:
    """Compare states and the gradient of an overlap with the reference."""
    compiled = qfleet.compile(case.circuit, INPUTS, PARAMETERS, dtype=dtype)
    inputs, parameters = draw_point(case.seed, 2)
    reference = Reference(case.circuit, NAMES)
    point = np.concatenate([inputs[1], parameters])
    wanted = reference.state(point)
    states = compiled.state(inputs, parameters)
    assert compiled.qubits == tuple(reference.qubits)
    assert states.dtype == dtype
    np.testing.assert_allclose(states[1], wanted, rtol=0, atol=TOLERANCE[dtype])
    rng = np.random.default_rng(case.seed + 1)
    upstream = np.zeros(states.shape, complex)
    upstream[1] = rng.normal(size=wanted.shape) + 1j * rng.normal(size=wanted.shape)
    upstream /= np.linalg.norm(upstream)
    direction = rng.normal(size=len(NAMES)) / len(NAMES)
    gradients = compiled.state_vjp(inputs, parameters, upstream)
    assert gradients.inputs is not None
    found = np.concatenate([gradients.inputs[1], gradients.parameters]) @ direction
    change = reference.state_derivative(point, direction)
    np.testing.assert_allclose(found, np.vdot(upstream[1], change).real, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_values_and_gradients_agree_with_cirq(dtype: str) -> None:
    count = {"complex64": 3, "complex128": 8}[dtype]
    drawn = draw_cases(20, 8, most_qubits=6)[:count]
    check_each(drawn, lambda case: compare_expectation(case, dtype=dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_states_and_their_gradients_agree_with_cirq(dtype: str) -> None:
    check_each(draw_cases(21, 5, most_qubits=6), lambda case: compare_states(case, dtype=dtype))


@pytest.mark.parametrize("input_gradients", [True, False])
def test_forward_and_vjp_equal_value_and_gradient(input_gradients: bool) -> None:
    model = qcnn(6, encoder="cluster", features=6)
    compiled = qfleet.compile(model.circuit, model.inputs, model.parameters, model.observables)
    rng = np.random.default_rng(2)
    point = rng.normal(size=(7, 6)), rng.normal(size=len(model.parameters))
    upstream = rng.normal(size=(7, 1))
    options = {"input_gradients": input_gradients}
    values, wanted = compiled.value_and_gradient(*point, upstream, **options)
    again, residuals = compiled.forward(*point, **options)
    np.testing.assert_array_equal(again, values)
    assert residuals.kept.size
    moved = replace(residuals, kept=np.concatenate([[0], residuals.kept])[1:])
    for kept in (residuals, residuals, moved, None):
        found = compiled.vjp(*point, upstream, residuals=kept, **options)
        np.testing.assert_allclose(found.parameters, wanted.parameters, rtol=1e-12, atol=1e-14)
        if input_gradients:
            np.testing.assert_allclose(found.inputs, wanted.inputs, rtol=1e-12, atol=1e-14)
        else:
            assert found.inputs is None
            assert wanted.inputs is None


def test_gradient_by_parameters_needs_no_input_gradients() -> None:
    compiled = compile_example()  # with mixed exponents
    assert compiled.symbols.mixed
    point = np.array([[0.3, -0.8], [1.1, 0.4]]), np.array([0.7, -0.2])
    whole = compiled.value_and_gradient(*point)[1]
    found = compiled.value_and_gradient(*point, input_gradients=False)[1]
    assert found.inputs is None
    np.testing.assert_allclose(found.parameters, whole.parameters, rtol=0, atol=1e-14)


def test_one_example_has_no_batch_axis() -> None:
    compiled, inputs, parameters = compile_example(), np.array([0.3, -0.8]), [0.7, -0.2]
    batch = compiled.expectation(inputs[np.newaxis], parameters)
    assert batch.shape == (1, 2)
    np.testing.assert_array_equal(compiled.expectation(inputs, parameters), batch[0])
    values, gradients = compiled.value_and_gradient(inputs, parameters, [1, 2])
    wanted = compiled.value_and_gradient([inputs], parameters, [[1, 2]])[1]
    assert wanted.inputs is not None
    np.testing.assert_array_equal(values, batch[0])
    np.testing.assert_array_equal(gradients.inputs, wanted.inputs[0])
    np.testing.assert_array_equal(gradients.parameters, wanted.parameters)
    states = qfleet.compile(CIRCUIT, ["x", "y"])
    assert states.state(inputs, parameters).shape == (8,)
    assert states.sample(inputs, parameters, 5).shape == (5, 3)


def test_circuit_without_inputs_takes_none_or_empty_rows() -> None:
    compiled = qfleet.compile(cirq.Circuit(cirq.rx(P).on(A)), observables=cirq.Z(A))
    assert (compiled.inputs, compiled.parameters, compiled.readouts) == ((), ("p",), 1)
    np.testing.assert_allclose(compiled.expectation(None, [0.3]), [np.cos(0.3)], atol=1e-15)
    assert compiled.expectation(np.empty((3, 0)), [0.3]).shape == (3, 1)
    values, gradients = compiled.value_and_gradient(parameters=[0.3])
    assert (values.shape, gradients.parameters.shape) == ((1,), (1,))
    assert gradients.inputs is not None
    assert gradients.inputs.shape == (0,)


def test_circuit_without_symbols_takes_no_arguments() -> None:
    compiled = qfleet.compile(cirq.Circuit(cirq.H(A), cirq.CNOT(A, B)))
    np.testing.assert_allclose(compiled.state(), np.array([1, 0, 0, 1]) / np.sqrt(2), atol=1e-15)
    constant = qfleet.compile(cirq.Circuit(cirq.X(A)), observables=[cirq.PauliSum() + 0.25])
    np.testing.assert_allclose(constant.expectation(), [0.25], atol=1e-15)


def test_empty_batch_returns_empty_arrays() -> None:
    compiled, parameters = compile_example(), [0.7, -0.2]
    inputs = np.empty((0, 2))
    values, gradients = compiled.value_and_gradient(inputs, parameters)
    assert gradients.inputs is not None
    assert (values.shape, gradients.inputs.shape) == ((0, 2), (0, 2))
    np.testing.assert_array_equal(gradients.parameters, [0, 0])
    states = qfleet.compile(CIRCUIT, ["x", "y"])
    assert states.state(inputs, parameters).shape == (0, 8)
    assert states.sample(inputs, parameters, 5).shape == (0, 5, 3)


def test_arguments_may_be_of_any_real_dtype_and_layout() -> None:
    compiled = compile_example()
    inputs, parameters = np.array([[1, 0], [2, -1], [0, 1]]), np.array([1, -2])
    wanted = compiled.expectation(inputs.astype(float), parameters.astype(float))
    for dtype in ("float32", "int8", "float16", "longdouble"):
        found = compiled.expectation(inputs.astype(dtype), parameters.astype(dtype))
        np.testing.assert_array_equal(found, wanted)
    fixed = np.asfortranarray(inputs.astype(float))
    fixed.flags.writeable = False
    np.testing.assert_array_equal(compiled.expectation(fixed, parameters.tolist()), wanted)
    apart = np.repeat(inputs.astype(float), 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(compiled.expectation(apart, parameters), wanted)


def test_observable_outside_the_circuit_reads_zero_state() -> None:
    far = cirq.NamedQubit("far")
    compiled = qfleet.compile(
        cirq.Circuit(cirq.rx(P).on(A)), observables=[cirq.Z(far), cirq.Z(A) * cirq.Z(far)]
    )
    assert set(compiled.qubits) == {A, far}
    np.testing.assert_allclose(compiled.expectation(None, [0.4]), [1, np.cos(0.4)], atol=1e-15)


def test_unused_symbols_have_gradient_zero() -> None:
    compiled = qfleet.compile(
        cirq.Circuit(cirq.rx(X + P).on(A)), ["x", "y"], ["p", "r"], observables=[cirq.Z(A)]
    )
    gradients = compiled.value_and_gradient([[0.3, 0.5]], [0.1, 0.2])[1]
    slope = -np.sin(0.4)
    np.testing.assert_allclose(gradients.inputs, [[slope, 0]], atol=1e-15)
    np.testing.assert_allclose(gradients.parameters, [slope, 0], atol=1e-15)


def test_initial_state_is_evolved() -> None:
    state = cirq.testing.random_superposition(8, random_state=3)
    compiled = qfleet.compile(CIRCUIT, ["x", "y"], initial_state=state)
    values = {"x": 0.3, "y": -0.8, "p": 0.7, "r": -0.2}
    wanted = cirq.Simulator(dtype=np.complex128).simulate(CIRCUIT, values, initial_state=state)
    found = compiled.state([0.3, -0.8], [0.7, -0.2])
    np.testing.assert_allclose(found, wanted.final_state_vector, atol=1e-12)


def test_from_factors_equals_the_compiled_circuit() -> None:
    compiled = qfleet.CompiledCircuit.from_factors(
        lowering.lower(CIRCUIT), ["x", "y"], observables=OBSERVABLES, qubits=(A, B, C)
    )
    assert compiled.parameters == ("p", "r")
    point = [[0.3, -0.8]], [0.7, -0.2]
    wanted = compile_example().expectation(*point)
    np.testing.assert_array_equal(compiled.expectation(*point), wanted)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_compute_the_same(copier: object) -> None:
    compiled = compile_example(dtype="complex64")
    point = [[0.3, -0.8]], [0.7, -0.2]
    copied = copier(compiled)  # type: ignore[operator]
    assert (copied.inputs, copied.parameters) == (compiled.inputs, compiled.parameters)
    assert copied.program.handle != compiled.program.handle
    np.testing.assert_array_equal(copied.expectation(*point), compiled.expectation(*point))


def test_describe_lists_blocks_and_the_batch() -> None:
    text = compile_example().describe(batch=12)
    assert "batch of 12" in text
    assert "3 qubits, 2 inputs, 2 parameters, 2 readouts" in text
    assert "3 qubits" in repr(compile_example())
