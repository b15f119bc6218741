"""The JAX functions: values and derivatives under jit, grad and vmap, as XLA custom calls."""

import gc
import weakref

import cirq
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax.test_util import check_grads

import qfleet
import qfleet.jax
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError, LibraryError

QUBITS = cirq.LineQubit.range(3)
X = sympy.symbols("x:3")
P = sympy.symbols("p:4")
OBSERVABLES = (cirq.Z(QUBITS[0]), cirq.X(QUBITS[1]) * cirq.Z(QUBITS[2]) + 0.5 * cirq.Y(QUBITS[0]))


@pytest.fixture(autouse=True)
def enable_x64() -> None:
    """Compute in 64 bits; tests of 32 bits switch this off."""
    with jax.enable_x64(True):
        yield


def ansatz(*, mixed: bool = False) -> cirq.Circuit:
    """Return a circuit with inputs x0..2 and parameters p0..3.

    Args:
        mixed: If exponents hold inputs and parameters, and expressions that are not affine.
    """
    circuit = cirq.Circuit(cirq.rx(x)(q) for x, q in zip(X, QUBITS, strict=True))
    circuit += [cirq.CNOT(*QUBITS[:2]), cirq.CZ(*QUBITS[1:]), cirq.H(QUBITS[2])]
    circuit += [cirq.ry(P[0])(QUBITS[0]), cirq.rz(2 * P[1] + 0.3)(QUBITS[1])]
    circuit += [cirq.ISWAP(*QUBITS[1:]) ** P[2], cirq.ry(P[3])(QUBITS[2])]
    if mixed:
        circuit += [cirq.ry(X[0] * P[0])(QUBITS[1]), cirq.rx(sympy.sin(P[1]) ** 2)(QUBITS[2])]
    return circuit


def compiled_ansatz(*, mixed: bool = False, dtype: str = "complex128") -> CompiledCircuit:
    """Return the compiled circuit of `ansatz`."""
    names = [str(x) for x in X], [str(p) for p in P]
    return qfleet.compile(ansatz(mixed=mixed), *names, OBSERVABLES, dtype=dtype)


def values_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return [size, 3] inputs and [4] parameters."""
    random = np.random.default_rng(size)
    return random.normal(size=(size, 3)), random.normal(size=4)


@pytest.mark.parametrize("mixed", [False, True])
def test_expectation_equals_numpy(mixed: bool) -> None:
    compiled = compiled_ansatz(mixed=mixed)
    inputs, parameters = values_of(5)
    expected = compiled.expectation(inputs, parameters)
    for function in (qfleet.jax.expectation, jax.jit(qfleet.jax.expectation, static_argnums=0)):
        np.testing.assert_allclose(function(compiled, inputs, parameters), expected, atol=1e-12)
        single = function(compiled, inputs[1], parameters)
        np.testing.assert_allclose(single, expected[1], atol=1e-12)


@pytest.mark.parametrize("mixed", [False, True])
def test_constant_inputs_under_jit_equal_numpy(mixed: bool) -> None:
    compiled = compiled_ansatz(mixed=mixed)
    inputs, parameters = values_of(5)
    function = jax.jit(lambda parameters: qfleet.jax.expectation(compiled, inputs, parameters))
    expected = compiled.expectation(inputs, parameters)
    np.testing.assert_allclose(function(parameters), expected, atol=1e-12)


@pytest.mark.parametrize("mixed", [False, True])
def test_grad_equals_numpy(mixed: bool) -> None:
    compiled = compiled_ansatz(mixed=mixed)
    inputs, parameters = values_of(5)
    weights = np.random.default_rng(0).normal(size=(5, 2))

    def loss(inputs: jax.Array, parameters: jax.Array) -> jax.Array:
        return (weights * qfleet.jax.expectation(compiled, inputs, parameters)).sum()

    by_inputs, by_parameters = jax.jit(jax.grad(loss, argnums=(0, 1)))(inputs, parameters)
    expected = compiled.vjp(inputs, parameters, weights)
    np.testing.assert_allclose(by_inputs, expected.inputs, atol=1e-12)
    np.testing.assert_allclose(by_parameters, expected.parameters, atol=1e-12)
    np.testing.assert_allclose(jax.grad(loss, 1)(inputs, parameters), by_parameters, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"trajectories": 9}, {"shots": 50}])
def test_grad_with_noise_equals_numpy(options: dict[str, int]) -> None:
    noisy = ansatz(mixed=True).with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.1)))
    names = [str(x) for x in X], [str(p) for p in P]
    compiled = qfleet.compile(noisy, *names, OBSERVABLES, **options)
    inputs, parameters = values_of(5)
    values = qfleet.jax.expectation(compiled, inputs, parameters)
    np.testing.assert_allclose(values, compiled.expectation(inputs, parameters), atol=1e-12)

    def loss(inputs: jax.Array, parameters: jax.Array) -> jax.Array:
        return qfleet.jax.expectation(compiled, inputs, parameters).sum()

    by_inputs, by_parameters = jax.jit(jax.grad(loss, argnums=(0, 1)))(inputs, parameters)
    expected = compiled.vjp(inputs, parameters, np.ones((5, 2)))
    np.testing.assert_allclose(by_inputs, expected.inputs, atol=1e-12)
    np.testing.assert_allclose(by_parameters, expected.parameters, atol=1e-12)


@pytest.mark.parametrize("mixed", [False, True])
def test_second_derivatives_match_differences(mixed: bool) -> None:
    compiled = compiled_ansatz(mixed=mixed)
    inputs, parameters = values_of(2)
    check_grads(
        lambda *arguments: qfleet.jax.expectation(compiled, *arguments),
        (inputs, parameters),
        order=2,
        modes=["rev"],
        atol=1e-5,
        rtol=1e-5,
    )


def test_vmap_over_inputs_equals_a_batch() -> None:
    compiled = compiled_ansatz()
    inputs, parameters = values_of(6)
    mapped = jax.vmap(lambda row: qfleet.jax.expectation(compiled, row, parameters))(inputs)
    expected = compiled.expectation(inputs, parameters)
    np.testing.assert_allclose(mapped, expected, atol=1e-12)


def test_vmap_over_inputs_is_one_call() -> None:
    compiled = compiled_ansatz()
    inputs, parameters = values_of(6)

    def mapped(inputs: jax.Array) -> jax.Array:
        return jax.vmap(lambda row: qfleet.jax.expectation(compiled, row, parameters))(inputs)

    text = jax.jit(mapped).lower(inputs).as_text()
    assert text.count("stablehlo.custom_call @qfleet_expectation") == 1
    assert "while" not in text


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_of_grad_equals_a_loop(axes: tuple) -> None:
    compiled = compiled_ansatz(mixed=True)
    inputs, _ = values_of(4)
    parameters = np.random.default_rng(1).normal(size=(4, 4))
    arguments = (
        inputs if axes[0] == 0 else inputs[0],
        parameters if axes[1] == 0 else parameters[0],
    )
    gradient = jax.grad(
        lambda row, p: (qfleet.jax.expectation(compiled, row, p) ** 2).sum(), argnums=(0, 1)
    )
    mapped = jax.jit(jax.vmap(gradient, in_axes=axes))(*arguments)
    for at in range(4):
        row = [
            part if axis is None else part[at] for part, axis in zip(arguments, axes, strict=True)
        ]
        for found, expected in zip(mapped, gradient(*row), strict=True):
            np.testing.assert_allclose(found[at], expected, atol=1e-12)


def test_vmap_of_batches_equals_a_loop() -> None:
    compiled = compiled_ansatz()
    inputs = np.random.default_rng(2).normal(size=(3, 5, 3))
    parameters = np.random.default_rng(3).normal(size=(3, 4))
    mapped = jax.vmap(lambda rows, p: qfleet.jax.expectation(compiled, rows, p))(inputs, parameters)
    for found, rows, p in zip(mapped, inputs, parameters, strict=True):
        np.testing.assert_allclose(found, compiled.expectation(rows, p), atol=1e-12)


def test_hessian_of_vmapped_loss_equals_batched_loss() -> None:
    compiled = compiled_ansatz(mixed=True)
    inputs, parameters = values_of(3)

    def batched(p: jax.Array) -> jax.Array:
        return (qfleet.jax.expectation(compiled, inputs, p) ** 2).mean()

    def mapped(p: jax.Array) -> jax.Array:
        rows = jax.vmap(lambda row: qfleet.jax.expectation(compiled, row, p))(jnp.array(inputs))
        return (rows**2).mean()

    one, other = (jax.jacrev(jax.grad(loss))(parameters) for loss in (batched, mapped))
    np.testing.assert_allclose(one, other, atol=1e-11)
    np.testing.assert_allclose(one, one.T, atol=1e-11)


def test_gradient_is_a_custom_call_of_the_engine() -> None:
    compiled = compiled_ansatz()
    inputs, parameters = values_of(4)
    step = jax.jit(jax.grad(lambda p: qfleet.jax.expectation(compiled, jnp.array(inputs), p).sum()))
    text = step.lower(parameters).compile().as_text()
    assert 'custom_call_target="qfleet_expectation_gradient"' in text
    assert "xla_python_cpu_callback" not in text
    assert "xla_ffi_python_cpu_callback" not in text


def test_state_equals_numpy_and_differences() -> None:
    names = [str(x) for x in X], [str(p) for p in P]
    compiled = qfleet.compile(ansatz(), *names)
    inputs, parameters = values_of(2)
    states = jax.jit(qfleet.jax.state, static_argnums=0)(compiled, inputs, parameters)
    np.testing.assert_allclose(states, compiled.state(inputs, parameters), atol=1e-12)
    weights = np.random.default_rng(0).normal(size=(2, 8, 2)) @ [1, 1j]

    def loss(inputs: jax.Array, parameters: jax.Array) -> jax.Array:
        return jnp.abs((weights * qfleet.jax.state(compiled, inputs, parameters)).sum()) ** 2

    check_grads(loss, (inputs, parameters), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_32_bits_compute_in_complex64() -> None:
    with jax.enable_x64(False):
        compiled = compiled_ansatz(dtype="complex64")
        inputs, parameters = values_of(5)
        values = qfleet.jax.expectation(compiled, inputs, parameters)
        assert values.dtype == jnp.float32
        expected = compiled_ansatz().expectation(inputs, parameters)
        np.testing.assert_allclose(values, expected, atol=1e-5)


def test_32_bits_refuse_complex128() -> None:
    with jax.enable_x64(False), pytest.raises(LibraryError, match="jax_enable_x64"):
        qfleet.jax.expectation(compiled_ansatz(), *values_of(2))


@pytest.mark.parametrize(
    ("inputs", "parameters", "name"),
    [
        (np.zeros((2, 2)), np.zeros(4), "inputs"),
        (np.zeros((2, 3)), np.zeros(3), "parameters"),
        (np.zeros((2, 3)), np.zeros((2, 4)), "parameters"),
        (np.zeros((2, 3), complex), np.zeros(4), "inputs"),
    ],
)
def test_wrong_argument_is_named(inputs: np.ndarray, parameters: np.ndarray, name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        qfleet.jax.expectation(compiled_ansatz(), inputs, parameters)


def test_value_that_is_not_finite_is_refused() -> None:
    inputs, parameters = values_of(2)
    inputs[1, 1] = np.nan
    with pytest.raises(ArgumentError, match=r"inputs is nan at index \(1, 1\)"):
        qfleet.jax.expectation(compiled_ansatz(), inputs, parameters)
    compiled = jax.jit(lambda *symbols: qfleet.jax.expectation(compiled_ansatz(), *symbols))
    with pytest.raises(jax.errors.JaxRuntimeError, match="finite"):
        compiled(inputs, parameters).block_until_ready()


def test_circuit_without_observables_is_refused() -> None:
    compiled = qfleet.compile(ansatz(), [str(x) for x in X])
    with pytest.raises(ArgumentError, match="observables"):
        qfleet.jax.expectation(compiled, *values_of(2))


def test_empty_batch_has_no_values() -> None:
    inputs, parameters = np.zeros((0, 3)), np.zeros(4)
    assert qfleet.jax.expectation(compiled_ansatz(), inputs, parameters).shape == (0, 2)


def test_circuit_that_was_used_is_freed() -> None:
    compiled = qfleet.compile(ansatz(), map(str, X), observables=OBSERVABLES, dtype="complex128")
    qfleet.jax.expectation(compiled, jnp.zeros((2, 3)), jnp.zeros(4))
    reference = weakref.ref(compiled)
    del compiled
    jax.clear_caches()
    gc.collect()
    assert reference() is None
