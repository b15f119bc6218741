"""PyTorch tensors and JAX arrays in a GPU's memory. Only `make gpu-check` runs these tests."""

import os

import cirq
import numpy as np
import pytest
import sympy

import qfleet

pytestmark = pytest.mark.skipif(
    os.environ.get("QFLEET_TEST_DEVICE", "host") == "host", reason="there is no GPU"
)

INPUTS, PARAMETERS = ("x0", "x1"), ("p0", "p1", "p2")
POINT = np.array([[0.3, -0.8], [1.1, 0.4], [-0.6, 0.2]]), np.array([0.7, -0.2, 0.4])
ENGINES = ("cpu", "cuda")
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def three_qubits() -> tuple[cirq.Circuit, list[cirq.PauliString]]:
    """Return a circuit of three qubits, and its observables."""
    qubits = cirq.LineQubit.range(3)
    symbols = sympy.symbols((*INPUTS, *PARAMETERS))
    gates = [cirq.ry(symbol).on(qubits[at % 3]) for at, symbol in enumerate(symbols)]
    circuit = cirq.Circuit(cirq.H.on_each(qubits), gates, cirq.CZ(*qubits[:2]), cirq.T(qubits[1]))
    return circuit, [cirq.X(one) for one in qubits]


def compile_circuit(engine: str, *, state: bool = False) -> qfleet.CompiledCircuit:
    """Compile the circuit in complex64."""
    circuit, sums = three_qubits()
    return qfleet.compile(
        circuit, INPUTS, PARAMETERS, () if state else sums, dtype="complex64", device=engine
    )


def expected() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values, and the gradients of the sum of their squares, by NumPy on the CPU."""
    compiled = compile_circuit("cpu")
    values = compiled.expectation(*POINT)
    _, gradients = compiled.value_and_gradient(*POINT, 2 * values)
    assert gradients.inputs is not None
    return values, gradients.inputs, gradients.parameters


@pytest.mark.parametrize("engine", ENGINES)
def test_torch_tensors_of_a_gpu_have_values_and_gradients(engine: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("qfleet.torch")
    inputs, parameters = (torch.tensor(one, device="cuda", requires_grad=True) for one in POINT)
    values = qfleet.torch.expectation(compile_circuit(engine), inputs, parameters)
    values.square().sum().backward()
    for found, wanted in zip((values, inputs.grad, parameters.grad), expected(), strict=True):
        assert found.is_cuda
        np.testing.assert_allclose(found.numpy(force=True), wanted, **TOLERANCE)


def test_torch_inputs_and_parameters_may_be_on_two_devices() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("qfleet.torch")
    inputs, parameters = torch.tensor(POINT[0], device="cuda"), torch.tensor(POINT[1])
    compiled = compile_circuit("cpu")
    assert qfleet.torch.expectation(compiled, inputs, parameters).is_cuda
    assert not qfleet.torch.expectation(compiled, inputs.cpu(), parameters.cuda()).is_cuda


def test_torch_states_and_samples_are_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("qfleet.torch")
    compiled = compile_circuit("cuda", state=True)
    point = [torch.tensor(one, device="cuda") for one in POINT]
    states = qfleet.torch.state(compiled, *point)
    np.testing.assert_allclose(states.numpy(force=True), compiled.state(*POINT), **TOLERANCE)
    generator = torch.Generator("cuda")
    bits = qfleet.torch.sample(compiled, *point, shots=5, generator=generator)
    assert states.is_cuda
    assert bits.is_cuda
    assert bits.shape == (3, 5, 3)


def test_torch_module_trains_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("qfleet.torch")
    circuit, sums = three_qubits()
    layer = qfleet.torch.Expectation(circuit, INPUTS, sums).to("cuda")
    model = torch.nn.Sequential(layer, torch.nn.Linear(3, 1, device="cuda"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    inputs = torch.tensor(POINT[0], dtype=torch.float32, device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(inputs) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_jax_arrays_of_a_gpu_have_values_and_gradients(engine: str) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("qfleet.jax")
    assert jax.default_backend() == "gpu"
    compiled = compile_circuit(engine)
    point = [jax.numpy.asarray(one, np.float32) for one in POINT]

    def loss(inputs: object, parameters: object) -> object:
        return (qfleet.jax.expectation(compiled, inputs, parameters) ** 2).sum()

    values, *gradients = expected()
    found = jax.jit(qfleet.jax.expectation, static_argnums=0)(compiled, *point)
    assert found.devices() == {jax.devices("gpu")[0]}
    np.testing.assert_allclose(found, values, **TOLERANCE)
    for one, wanted in zip(jax.grad(loss, (0, 1))(*point), gradients, strict=True):
        np.testing.assert_allclose(one, wanted, **TOLERANCE)


def test_jax_second_derivatives_and_states_on_a_gpu() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("qfleet.jax")
    point = [jax.numpy.asarray(one, np.float32) for one in POINT]
    hessians = []
    for engine in ENGINES:
        compiled = compile_circuit(engine)

        def total(parameters: object, compiled: qfleet.CompiledCircuit = compiled) -> object:
            return qfleet.jax.expectation(compiled, point[0], parameters).sum()

        hessians.append(jax.jit(jax.jacrev(jax.grad(total)))(point[1]))
    np.testing.assert_allclose(*hessians, **TOLERANCE)
    compiled = compile_circuit("cuda", state=True)
    states = qfleet.jax.state(compiled, *point)
    np.testing.assert_allclose(states, compiled.state(*POINT), **TOLERANCE)


def test_jax_value_that_is_not_finite_is_an_error() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("qfleet.jax")
    point = [jax.numpy.asarray(one * np.nan, np.float32) for one in POINT]
    compiled = compile_circuit("cuda")
    values = jax.jit(lambda *symbols: qfleet.jax.expectation(compiled, *symbols))
    with pytest.raises(jax.errors.JaxRuntimeError, match="qfleet"):
        values(*point).block_until_ready()
