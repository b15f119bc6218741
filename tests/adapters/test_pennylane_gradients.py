"""Broadcasting and gradients of the PennyLane device, which PennyLane's device suite leaves out."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pennylane as qml
import pytest
import torch
from pennylane import numpy as pnp
from pennylane.exceptions import DeviceError, QuantumFunctionError

from qfleet.errors import ArgumentError
from qfleet.pennylane import QfleetDevice

jax.config.update("jax_enable_x64", True)

RANDOM = np.random.default_rng(3)
INPUTS = RANDOM.normal(size=(4, 3))
WEIGHTS = RANDOM.normal(size=(2, 3, 3))
COEFFICIENTS = RANDOM.normal(size=4)
GRADIENTS = [(0,), (1,), (0, 1)]


def expectations(inputs: Any, weights: Any) -> Any:
    """Mix batched, unbatched and constant parameters, plain gates and templates."""
    qml.AngleEmbedding(inputs, wires=range(3))
    qml.RX(0.5 * inputs[..., 0], wires=1)
    qml.StronglyEntanglingLayers(weights, wires=range(3))
    qml.IsingXX(weights[0, 0, 1], wires=[1, 2])
    qml.CRY(0.7, wires=[2, 0])
    qml.Rot(weights[1, 0, 0], inputs[..., 1], 0.3, wires=2)
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Y(2) + 0.5 * qml.Z(2))


def probabilities(inputs: Any, weights: Any) -> Any:
    """Return measurements of the state."""
    qml.AngleEmbedding(inputs, wires=range(3))
    qml.BasicEntanglerLayers(weights[0], wires=range(3))
    return qml.probs(wires=[2, 0]), qml.var(qml.X(1))


def nodes(circuit: Callable, **options: Any) -> tuple[qml.QNode, qml.QNode]:
    """Return a circuit on this device and on default.qubit."""
    return (
        qml.QNode(circuit, QfleetDevice(wires=3), **options),
        qml.QNode(circuit, qml.device("default.qubit", wires=3), diff_method="backprop"),
    )


def gradient(node: qml.QNode, interface: str, which: tuple[int, ...], *values: Any) -> list[Any]:
    """Return gradients of sum of (result - 0.1)**3, which weighs every result differently."""
    if interface == "torch":
        tensors = [torch.tensor(v, requires_grad=at in which) for at, v in enumerate(values)]
        sum(((part - 0.1) ** 3).sum() for part in node(*tensors)).backward()
        return [tensors[at].grad.numpy() for at in which]
    if interface == "autograd":
        arrays = [pnp.array(v, requires_grad=at in which) for at, v in enumerate(values)]
        found = qml.grad(lambda *v: sum(pnp.sum((part - 0.1) ** 3) for part in node(*v)))(*arrays)
        return list(found) if len(which) > 1 else [found]
    arrays = [jax.numpy.asarray(v) for v in values]

    def loss(*v: Any) -> Any:
        return sum(jax.numpy.sum((part - 0.1) ** 3) for part in node(*v))

    function = jax.grad(loss, argnums=which)
    return list((jax.jit(function) if interface == "jit" else function)(*arrays))


@pytest.mark.parametrize("circuit", [expectations, probabilities])
def test_values_of_a_batch_are_those_of_default_qubit(circuit: Callable) -> None:
    node, reference = nodes(circuit)
    for inputs in (INPUTS, INPUTS[:1], INPUTS[0]):
        for one, expected in zip(node(inputs, WEIGHTS), reference(inputs, WEIGHTS), strict=True):
            assert one.shape == expected.shape
            np.testing.assert_allclose(one, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("circuit", "interface", "which"),
    [
        *((expectations, "torch", which) for which in GRADIENTS),
        *((expectations, "autograd", which) for which in GRADIENTS),
        *((expectations, "jit", which) for which in ((1,), (0, 1))),
        *((probabilities, interface, (0, 1)) for interface in ("torch", "autograd", "jit")),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_gradients_of_a_batch_are_those_of_backprop(
    circuit: Callable, interface: str, which: tuple[int, ...]
) -> None:
    node, reference = nodes(circuit)
    actual = gradient(node, interface, which, INPUTS, WEIGHTS)
    expected = gradient(reference, "torch", which, INPUTS, WEIGHTS)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


@pytest.mark.parametrize("interface", ["torch", "jit"])
def test_gradients_without_a_batch_are_those_of_backprop(interface: str) -> None:
    node, reference = nodes(expectations)
    actual = gradient(node, interface, (0, 1), INPUTS[0], WEIGHTS)
    expected = gradient(reference, "torch", (0, 1), INPUTS[0], WEIGHTS)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


@pytest.mark.parametrize(("axes", "jit"), [((0, None), True), ((None, 0), True), ((0, 0), False)])
def test_vmap_has_the_gradients_of_a_loop(axes: tuple[Any, ...], jit: bool) -> None:
    inputs = INPUTS if axes[0] == 0 else INPUTS[0]
    weights = (
        np.stack([WEIGHTS, *(WEIGHTS + at for at in (0.1, 0.2, 0.3))])
        if axes[1] == 0
        else (WEIGHTS)
    )

    def mapped(node: qml.QNode) -> Any:
        return jax.vmap(node, in_axes=axes)

    def looped(node: qml.QNode) -> Any:
        def rows(inputs: Any, weights: Any) -> Any:
            values = [
                node(
                    inputs[at] if axes[0] == 0 else inputs, weights[at] if axes[1] == 0 else weights
                )
                for at in range(4)
            ]
            return [torch.stack(parts) for parts in zip(*values, strict=True)]

        return rows

    node, reference = nodes(expectations)
    actual = gradient(mapped(node), "jit" if jit else "jax", (0, 1), inputs, weights)
    expected = gradient(looped(reference), "torch", (0, 1), inputs, weights)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


def test_vmap_over_a_batched_tape_is_correct() -> None:
    inputs = np.stack([INPUTS, INPUTS + 0.2])
    node, reference = nodes(expectations)
    mapped = jax.vmap(node, in_axes=(0, None))
    (actual,) = gradient(mapped, "jit", (1,), inputs, WEIGHTS)
    parts = [gradient(reference, "torch", (1,), one, WEIGHTS)[0] for one in inputs]
    np.testing.assert_allclose(actual, sum(parts), atol=1e-11)


def test_jacobian_in_jax_is_that_of_torch() -> None:
    node, reference = nodes(expectations)
    actual = jax.jit(jax.jacrev(lambda weights: node(INPUTS, weights)[1]))(WEIGHTS)
    expected = torch.autograd.functional.jacobian(
        lambda weights: reference(torch.tensor(INPUTS), weights)[1], torch.tensor(WEIGHTS)
    )
    np.testing.assert_allclose(actual, expected.numpy(), atol=1e-11)


@pytest.mark.parametrize("interface", ["torch", "autograd", "jit"])
def test_trained_coefficients_have_gradients(interface: str) -> None:
    def circuit(coefficients: Any, angles: Any) -> Any:
        qml.AngleEmbedding(angles, wires=range(3))
        terms = [qml.Z(0), qml.Y(1), qml.Z(0) @ qml.Z(2), qml.Y(1) @ qml.Y(2)]
        hamiltonian = qml.Hamiltonian(coefficients, terms)
        return qml.expval(hamiltonian), qml.expval(qml.s_prod(coefficients[0], qml.Z(1)))

    node, reference = nodes(circuit)
    actual = gradient(node, interface, (0, 1), COEFFICIENTS, INPUTS)
    expected = gradient(reference, "torch", (0, 1), COEFFICIENTS, INPUTS)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


def test_trained_state_that_is_not_prepared_first_raises() -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit(state: Any) -> Any:
        qml.Hadamard(0)
        qml.StatePrep(state, wires=[0, 1])
        return qml.expval(qml.Z(0))

    with pytest.raises(QuantumFunctionError, match="StatePrep"):
        circuit(torch.tensor([0.6, 0.8, 0.0, 0.0], requires_grad=True))


@pytest.mark.filterwarnings("ignore:The two-qubit decomposition may not be differentiable")
@pytest.mark.parametrize("order", ["jit of grad", "grad of jit"])
def test_traced_matrix_is_not_differentiated(order: str) -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit(angle: Any) -> Any:
        phases = jax.numpy.array([jax.numpy.cos(angle), jax.numpy.sin(angle), 0.0, 0.0])
        qml.QubitUnitary(jax.numpy.diag(jax.numpy.exp(1j * phases)), [0, 1])
        return qml.expval(qml.X(1))

    whole = jax.jit(jax.grad(circuit)) if order == "jit of grad" else jax.grad(jax.jit(circuit))
    with pytest.raises(QuantumFunctionError, match="QubitUnitary"):  # it was NaN
        whole(0.3)
    assert np.isfinite(jax.jit(circuit)(0.3))


def embedding(batch: int | None, width: int, *, is_complex: bool) -> np.ndarray:
    """Return features [batch, width] or [width], which need normalization."""
    rng = np.random.default_rng(width)
    shape = (width,) if batch is None else (batch, width)
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if is_complex else 0)


@pytest.mark.parametrize("result", ["expval", "probs", "state"])
@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize(
    ("batch", "width", "angles"),
    [(4, 8, "batch"), (4, 8, "one"), (4, 5, None), (None, 8, "batch"), (None, 8, None)],
)
def test_embedded_states_have_the_gradients_of_default_qubit(
    batch: int | None, width: int, angles: str | None, is_complex: bool, result: str
) -> None:
    rng = np.random.default_rng(7)
    features, weights = embedding(batch, width, is_complex=is_complex), rng.normal(size=(2, 3, 3))
    rows = rng.normal(size=(4, 3) if angles == "batch" else 3)
    found = []
    for device, method in (
        (qml.device("default.qubit", wires=3), "backprop"),
        (QfleetDevice(wires=3), "best"),
    ):

        @qml.qnode(device, interface="torch", diff_method=method)
        def circuit(features: Any, weights: Any, rows: Any) -> Any:
            qml.AmplitudeEmbedding(features, wires=[2, 0, 1], pad_with=0.1, normalize=True)
            if angles:
                qml.AngleEmbedding(rows, wires=range(3))
            qml.StronglyEntanglingLayers(weights, wires=range(3))
            if result == "expval":
                return qml.expval(qml.Z(0) @ qml.X(1) + 0.3 * qml.Y(2))
            return qml.probs(wires=[0, 2]) if result == "probs" else qml.state()

        tensors = [torch.tensor(one, requires_grad=True) for one in (features, weights, rows)]
        values = circuit(*tensors)
        values = torch.view_as_real(values) if values.is_complex() else values
        (values * torch.linspace(-1, 1, values.numel()).reshape(values.shape)).sum().backward()
        gradients = [one.grad for one in tensors if one.grad is not None]
        found.append([values.detach().numpy(), *(one.numpy() for one in gradients)])
    for actual, expected in zip(*reversed(found), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-10)


@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("transform", ["grad", "jit", "vmap"])
def test_embedded_states_in_jax_have_exact_gradients(transform: str, is_complex: bool) -> None:
    batch = 4 if transform == "vmap" else None
    features = jax.numpy.array(embedding(batch, 8, is_complex=is_complex))
    weights = jax.numpy.array(np.random.default_rng(7).normal(size=(1, 3, 3)))
    found = []
    for device, method in (
        (qml.device("default.qubit", wires=3), "backprop"),
        (QfleetDevice(wires=3), "best"),
    ):

        @qml.qnode(device, interface="jax", diff_method=method)
        def circuit(features: Any, weights: Any) -> Any:
            qml.StatePrep(features, wires=range(3), normalize=True)
            qml.StronglyEntanglingLayers(weights, wires=range(3))
            return qml.expval(qml.Z(0) @ qml.X(1))

        gradient = jax.grad(circuit, argnums=(0, 1))
        if transform == "jit":
            gradient = jax.jit(gradient)
        if transform == "vmap":
            gradient = jax.vmap(gradient, in_axes=(0, None))
        found.append(gradient(features, weights))
    for actual, expected in zip(*reversed(found), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-10)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # in default.qubit
@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
def test_embedded_batch_in_autograd_has_exact_gradients(is_complex: bool) -> None:
    features = pnp.array(embedding(4, 4, is_complex=is_complex), requires_grad=True)
    found = []
    for device, method in (
        (qml.device("default.qubit", wires=2), "backprop"),
        (QfleetDevice(wires=2), "best"),
    ):

        @qml.qnode(device, interface="autograd", diff_method=method)
        def circuit(features: Any) -> Any:
            qml.AmplitudeEmbedding(features, wires=range(2), normalize=True)
            qml.CRY(0.4, wires=[0, 1])
            return qml.expval(qml.Z(1) @ qml.X(0))

        found.append(qml.grad(lambda rows, circuit=circuit: pnp.sum(circuit(rows)))(features))
    np.testing.assert_allclose(found[1], found[0], atol=1e-10)


def test_new_states_of_one_shape_are_not_compiled_again() -> None:
    device = QfleetDevice(wires=2)

    @qml.qnode(device)
    def circuit(features: Any) -> Any:
        qml.AmplitudeEmbedding(features, wires=range(2), normalize=True)
        return qml.expval(qml.Z(0))

    for seed in range(3):
        circuit(np.random.default_rng(seed).normal(size=(5, 4)))
    assert len(device._packer._programs) == 1


def test_metric_tensor_of_controlled_rotation_needs_unitaries() -> None:
    def circuit(angles: Any) -> Any:
        qml.RX(angles[0], 0)
        qml.Hadamard(1)
        qml.CRY(angles[1], [0, 1])
        return qml.expval(qml.Z(1))

    angles = pnp.array([0.4, 0.2], requires_grad=True)
    node = qml.QNode(circuit, QfleetDevice(wires=3))
    with pytest.raises(DeviceError, match="allow_nonunitary"):
        qml.metric_tensor(node)(angles)
    found = qml.metric_tensor(node, allow_nonunitary=False)(angles)
    reference = qml.QNode(circuit, qml.device("default.qubit", wires=3))
    expected = qml.metric_tensor(reference, allow_nonunitary=False)(angles)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("interface", ["torch", "jit"])
def test_batch_of_amplitudes_trains_shared_weights(interface: str) -> None:
    amplitudes = np.abs(RANDOM.normal(size=(4, 5)))

    def circuit(weights: Any) -> Any:
        qml.AmplitudeEmbedding(amplitudes, wires=range(3), pad_with=0.1, normalize=True)
        qml.StronglyEntanglingLayers(weights, wires=range(3))
        return qml.expval(qml.Z(0)), qml.expval(qml.X(2))

    node, reference = nodes(circuit)
    actual = gradient(node, interface, (0,), WEIGHTS)
    np.testing.assert_allclose(actual, gradient(reference, "torch", (0,), WEIGHTS), atol=1e-11)


def test_one_tensor_as_batch_and_as_features_is_exact() -> None:
    def circuit(angles: Any) -> Any:
        qml.AngleEmbedding(angles, wires=range(3))  # 3 features
        qml.RY(angles, wires=0)  # 3 examples
        return qml.expval(qml.Z(0)), qml.expval(qml.Z(2))

    actual, expected = (gradient(node, "torch", (0,), INPUTS[0]) for node in nodes(circuit))
    np.testing.assert_allclose(actual, expected, atol=1e-11)


def test_list_of_trained_angles_is_refused() -> None:
    """PennyLane does not see that its numbers are trained; their array is."""

    def circuit(first: Any, second: Any) -> Any:
        angles = [first, 2 * second, 0.3]
        qml.AngleEmbedding(pnp.stack(angles) if is_array else angles, wires=range(3))
        return qml.expval(qml.Z(0) @ qml.Z(1))

    is_array = True
    found, expected = (qml.grad(node)(pnp.array(0.4), pnp.array(-0.7)) for node in nodes(circuit))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    is_array = False
    with pytest.raises(ArgumentError, match=r"AngleEmbedding.*stack"):
        qml.grad(nodes(circuit)[0])(pnp.array(0.4), pnp.array(-0.7))


def test_gradients_twice_through_one_graph_are_equal() -> None:
    node, _ = nodes(expectations)
    weights = torch.tensor(WEIGHTS, requires_grad=True)
    loss = (node(torch.tensor(INPUTS), weights)[0] ** 2).sum()
    first = torch.autograd.grad(loss, weights, retain_graph=True)[0]
    second = torch.autograd.grad(loss, weights)[0]
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_second_derivatives_by_parameter_shift_are_exact() -> None:
    def circuit(angles: Any) -> Any:
        qml.RX(angles[0], wires=0)
        qml.RY(angles[1], wires=0)
        return qml.expval(qml.Z(0))

    angles = torch.tensor([0.3, 0.8], dtype=torch.float64, requires_grad=True)
    once = qml.QNode(circuit, QfleetDevice(wires=1), diff_method="best")
    with pytest.raises(QuantumFunctionError, match="max_diff"):  # PennyLane would return zeros
        torch.autograd.functional.hessian(once, angles)
    jacobian = torch.autograd.functional.jacobian(once, angles, create_graph=True)
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(once, angles))
    node = qml.QNode(circuit, QfleetDevice(wires=1), diff_method="best", max_diff=2)
    hessian = torch.autograd.functional.hessian(node, angles).numpy()
    (cos_a, cos_b), (sin_a, sin_b) = np.cos([0.3, 0.8]), np.sin([0.3, 0.8])
    expected = [[-cos_a * cos_b, sin_a * sin_b], [sin_a * sin_b, -cos_a * cos_b]]
    np.testing.assert_allclose(hessian, expected, atol=1e-12)


def test_torch_float32_parameters_get_float32_gradients() -> None:
    node, _ = nodes(expectations)
    weights = torch.tensor(WEIGHTS, dtype=torch.float32, requires_grad=True)
    node(torch.tensor(INPUTS, dtype=torch.float32), weights)[0].sum().backward()
    assert weights.grad.dtype == torch.float32


def test_torch_layer_trains() -> None:
    def circuit(inputs: Any, weights: Any) -> Any:
        qml.AngleEmbedding(inputs, wires=range(3))
        qml.StronglyEntanglingLayers(weights, wires=range(3))
        return [qml.expval(qml.Z(wire)) for wire in range(3)]

    node = qml.QNode(circuit, QfleetDevice(wires=3))
    torch.manual_seed(1)
    layer = torch.nn.Sequential(
        torch.nn.Linear(3, 3), qml.qnn.TorchLayer(node, {"weights": (2, 3, 3)})
    ).double()
    losses = []
    for _ in range(25):
        layer.zero_grad()
        loss = ((layer(torch.tensor(INPUTS)) - 0.5) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for weights in layer.parameters():
                weights -= 0.3 * weights.grad
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("count", [2, len(INPUTS)])
@pytest.mark.parametrize("inner", [jax.jit, jax.grad, lambda loss: jax.jit(jax.grad(loss))])
def test_vmap_over_weights_of_a_batch_of_inputs(inner: Callable, count: int) -> None:
    weights = np.stack([WEIGHTS + 0.1 * at for at in range(count)])

    def mapped(node: qml.QNode) -> Any:
        return jax.vmap(inner(lambda weights: sum(part.sum() for part in node(INPUTS, weights))))

    actual, expected = (np.asarray(mapped(node)(weights)) for node in nodes(expectations))
    np.testing.assert_allclose(actual, expected, atol=1e-10)
