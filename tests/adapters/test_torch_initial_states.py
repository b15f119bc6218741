"""PyTorch adapter: circuits that take a state per example."""

from typing import Any

import cirq
import pytest
import sympy
import torch
from torch import Tensor

import qfleet
from qfleet.errors import ArgumentError
from qfleet.torch import Expectation, Samples, State, expectation, ops, sample, state
from tests.support import random_circuits
from tests.support.mixed_states import draw_mixed_case

QUBITS = cirq.LineQubit.range(3)
X, Y, P, Q = sympy.symbols("x y p q")
CIRCUIT = cirq.Circuit(
    [cirq.rx(X).on(QUBITS[0]), cirq.CNOT(QUBITS[0], QUBITS[1]), cirq.ry(P * Y).on(QUBITS[1])],
    [cirq.CZ(QUBITS[1], QUBITS[2]), cirq.ISWAP(QUBITS[0], QUBITS[2]) ** Q],
)
SUMS = [cirq.Z(QUBITS[0]) * cirq.X(QUBITS[1]) + 0.3, cirq.Y(QUBITS[2])]
COMPILED = qfleet.compile(CIRCUIT, ["x", "y"], observables=SUMS, initial_states=True)
STATES = qfleet.compile(CIRCUIT, ["x", "y"], initial_states=True)

EVOLVED = qfleet.compile(
    CIRCUIT, ["x", "y"], observables=SUMS, initial_states=True, method="density_matrix"
)


def normalized(states: Tensor) -> Tensor:
    """Return states of norm 1, differentiably."""
    return states / states.norm(dim=-1, keepdim=True)


def point(*lead: int, grad: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs [*lead, 2], parameters [2] and states [*lead, 8] of any norm."""
    generator = torch.Generator().manual_seed(5)
    options = {"generator": generator, "dtype": torch.float64}
    inputs, parameters = torch.randn(*lead, 2, **options), torch.randn(2, **options)
    states = torch.complex(torch.randn(*lead, 8, **options), torch.randn(*lead, 8, **options))
    return tuple(one.requires_grad_(grad) for one in (inputs, parameters, states))


def values(inputs: Tensor, parameters: Tensor, states: Tensor) -> Tensor:
    """Return expectation values of normalized states."""
    return expectation(COMPILED, inputs, parameters, initial_states=normalized(states))


def test_derivatives_by_all_tensors_pass_gradcheck() -> None:
    torch.autograd.gradcheck(values, point(3))

    def states(inputs: Tensor, parameters: Tensor, starts: Tensor) -> Tensor:
        return state(STATES, inputs, parameters, initial_states=normalized(starts))

    torch.autograd.gradcheck(states, point(3))


def test_second_derivatives_take_states_as_constants() -> None:
    inputs, parameters, states = point(3)
    fixed = states.detach()
    torch.autograd.gradgradcheck(lambda *at: values(*at, fixed), (inputs, parameters))
    (first,) = torch.autograd.grad(
        values(inputs, parameters, states).sum(), states, create_graph=True
    )
    with pytest.raises(NotImplementedError, match="second derivatives by initial states"):
        torch.autograd.grad(first.real.sum(), states)


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_compiled_gradients_equal_eager_ones() -> None:
    arguments = point(3)
    compiled = torch.compile(values, fullgraph=True)
    found = torch.autograd.grad(compiled(*arguments).sum(), arguments)
    wanted = torch.autograd.grad(values(*arguments).sum(), arguments)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_operations_with_states_pass_opcheck() -> None:
    inputs, parameters, states = point(3)
    starts = normalized(states).detach().requires_grad_()
    number = ops.register(COMPILED)
    operands = inputs, parameters, starts
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    arguments = (*operands, number, 2, True, True)
    torch.library.opcheck(torch.ops.qfleet.expectation.default, arguments, test_utils=tests)
    kept = ops.expectation(*arguments)[1].detach()
    upstream = torch.rand(3, 2, dtype=torch.float64)
    arguments = (*operands, upstream, kept, number, True, True, True)
    torch.library.opcheck(torch.ops.qfleet.expectation_vjp.default, arguments, test_utils=tests)
    number = ops.register(STATES)
    torch.library.opcheck(torch.ops.qfleet.state.default, (*operands, number, 3), test_utils=tests)


def test_modules_take_real_states_of_any_leading_shape() -> None:
    inputs, _, _ = point(2, 5, grad=False)
    real = normalized(torch.rand(2, 5, 8)).requires_grad_()
    options = {"initial_states": True}
    module = Expectation(CIRCUIT, ["x", "y"], SUMS, **options)
    found = module(inputs, real)
    assert (found.shape, found.dtype) == ((2, 5, 2), torch.float32)
    found.sum().backward()
    assert (real.grad.shape, real.grad.dtype) == (real.shape, torch.float32)
    double = module.double()(inputs, real.double())
    torch.testing.assert_close(double, found.double(), atol=1e-5, rtol=0)
    assert State(CIRCUIT, ["x", "y"], **options)(inputs, real).shape == (2, 5, 8)
    bits = Samples(CIRCUIT, ["x", "y"], shots=3, **options)(inputs, real)
    assert bits.shape == (2, 5, 3, 3)


def test_states_give_the_batch_without_inputs() -> None:
    circuit = cirq.Circuit(cirq.X(QUBITS[0]), cirq.I(QUBITS[1]))
    compiled = qfleet.compile(circuit, observables=[cirq.Z(QUBITS[0])], initial_states=True)
    starts = torch.eye(4, dtype=torch.float64)
    found = expectation(compiled, initial_states=starts)
    assert found[:, 0].tolist() == pytest.approx([-1, -1, 1, 1])
    states = qfleet.compile(circuit, initial_states=True)
    bits = sample(states, shots=2, initial_states=starts)
    assert bits[:, 0].tolist() == [[1, 0], [1, 1], [0, 0], [0, 1]]


@pytest.mark.parametrize("lead", [(3,), (1, 3)])
def test_mixed_states_are_the_mean_of_their_vectors(lead: tuple[int, ...]) -> None:
    case = draw_mixed_case(len(lead))
    names = random_circuits.INPUTS, case.observables
    module = Expectation(
        *(case.circuit, *names),
        parameters=random_circuits.PARAMETERS,
        initial_states=True,
        dtype=torch.float64,
    )
    with torch.no_grad():
        module.angles.copy_(torch.tensor(case.parameters))
    inputs, matrices = (
        torch.tensor(one).reshape(*lead, *one.shape[1:]).requires_grad_()
        for one in (case.inputs, case.matrices)
    )
    found = module(inputs, matrices)
    weights = torch.tensor(case.upstream).reshape(found.shape)
    gradients = torch.autograd.grad((found * weights).sum(), (inputs, module.angles, matrices))
    wanted = (case.values, *case.gradients)
    for one, other in zip((found.detach(), *gradients), wanted, strict=True):
        torch.testing.assert_close(one.reshape(other.shape), torch.tensor(other))


MIXED = torch.eye(8, dtype=torch.float64).expand(3, 8, 8) / 8


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (2 * MIXED, r"initial_states\[0\] has the trace 2: divide"),
        (MIXED + torch.diag(torch.tensor([0.5, -0.5, *6 * [0]])), "has the eigenvalue -0.375"),
        (MIXED + torch.ones(8, 8).triu(1), r"\[0\] differs from its adjoint by 1"),
        (MIXED[:2], r"shape \[2, 8, 8\]: pass a state per example of inputs \[3, 2\]"),
    ],
)
def test_wrong_density_matrix_is_named(matrices: Tensor, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        expectation(EVOLVED, *point(3)[:2], initial_states=matrices)


def test_density_matrices_without_their_method_are_refused() -> None:
    for function, compiled in ((expectation, COMPILED), (state, STATES)):
        with pytest.raises(ArgumentError, match='method="density_matrix"'):
            function(compiled, *point(3)[:2], initial_states=MIXED)
    module = Expectation(
        CIRCUIT, ["x", "y"], SUMS, initial_states=True, method="density_matrix"
    ).double()
    found = module(point(3)[0], MIXED)
    torch.testing.assert_close(found, torch.tensor([[0.3, 0.0]] * 3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (None, "initial_states are missing"),
        (torch.eye(8)[:2], r"shape \[2, 8\]: pass a state per example of inputs \[3, 2\]"),
        (torch.eye(4)[:3], r"shape \[3, 4\]: the last axis must be 8"),
        (2 * torch.eye(8)[:3], r"initial_states\[0\] has the norm 2"),
        ([1.0], "initial_states is a list: pass a torch.Tensor"),
    ],
)
def test_wrong_states_are_named(states: Any, message: str) -> None:
    inputs, parameters, _ = point(3)
    with pytest.raises(ArgumentError, match=message):
        expectation(COMPILED, inputs, parameters, initial_states=states)


def test_states_of_a_circuit_without_them_are_refused() -> None:
    plain = qfleet.compile(CIRCUIT, ["x", "y"], observables=SUMS)
    with pytest.raises(ArgumentError, match="initial_states=True"):
        expectation(plain, *point(3)[:2], initial_states=torch.eye(8)[:3])
