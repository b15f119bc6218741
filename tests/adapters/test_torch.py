"""PyTorch adapter: values, gradients, dtypes, copies and errors."""

import copy
import pickle
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import pytest
import sympy
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import qfleet
from qfleet.errors import ArgumentError
from qfleet.torch import Expectation, Samples, State, expectation, ops, sample, state, state_ops

QUBITS = cirq.LineQubit.range(3)
X, Y, P, Q, R = sympy.symbols("x y p q r")
CIRCUIT = cirq.Circuit(
    cirq.rx(X).on(QUBITS[0]),
    cirq.ry(P).on(QUBITS[1]),
    cirq.CNOT(QUBITS[0], QUBITS[1]),
    (cirq.Y**Q).on(QUBITS[2]),
    cirq.rz(X * R).on(QUBITS[1]),
    cirq.CZ(QUBITS[1], QUBITS[2]),
    cirq.rx(sympy.sin(Y)).on(QUBITS[2]),
    cirq.ISWAP(QUBITS[0], QUBITS[2]) ** 0.5,
)
INPUTS, PARAMETERS = ["x", "y"], ["p", "q", "r"]
SUMS = [
    cirq.Z(QUBITS[0]) * cirq.X(QUBITS[1]) + 0.5 * cirq.Y(QUBITS[2]),
    2 * cirq.PauliSum.wrap(cirq.Z(QUBITS[2])),
]
# PyTorch's opcheck reads gradients that are not set.
opcheck_warning = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
COMPILED = qfleet.compile(CIRCUIT, INPUTS, PARAMETERS, SUMS)
STATES = qfleet.compile(CIRCUIT, INPUTS, PARAMETERS)


def point(
    batch: int = 4, dtype: torch.dtype = torch.float64, *, grad: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs [batch, 2] and parameters [3]."""
    generator = torch.Generator().manual_seed(3)
    draws = [torch.rand(shape, generator=generator) * 4 - 2 for shape in ((batch, 2), (3,))]
    inputs, parameters = (one.to(dtype).requires_grad_(grad) for one in draws)
    return inputs, parameters


def cirq_values(inputs: torch.Tensor, parameters: torch.Tensor) -> np.ndarray:
    """Return expectation values [batch, 2] of Cirq's simulator."""
    values = dict(zip(PARAMETERS, parameters.tolist(), strict=True))
    points = [values | dict(zip(INPUTS, row, strict=True)) for row in inputs.tolist()]
    simulator = cirq.Simulator(dtype=np.complex128)
    return np.array(
        [np.real(simulator.simulate_expectation_values(CIRCUIT, SUMS, one)) for one in points]
    )


def test_expectation_equals_cirq() -> None:
    inputs, parameters = point()
    values = expectation(COMPILED, inputs, parameters)
    np.testing.assert_allclose(values.detach(), cirq_values(inputs, parameters), atol=1e-6)


def test_expectation_passes_gradcheck() -> None:
    torch.autograd.gradcheck(lambda *at: expectation(COMPILED, *at), point())


def test_noise_passes_gradcheck_and_has_no_second_derivatives() -> None:
    noisy = CIRCUIT.with_noise(cirq.ConstantQubitNoiseModel(cirq.amplitude_damp(0.1)))
    compiled = qfleet.compile(noisy, INPUTS, PARAMETERS, SUMS)
    assert compiled.method == "density_matrix"
    torch.autograd.gradcheck(lambda *at: expectation(compiled, *at), point())
    inputs, parameters = point()
    loss = expectation(compiled, inputs, parameters).sum()
    (slopes,) = torch.autograd.grad(loss, parameters, create_graph=True)
    with pytest.raises(NotImplementedError, match="noise"):
        slopes.sum().backward()


def test_trajectories_pass_gradcheck() -> None:
    noisy = CIRCUIT.with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.1)))
    compiled = qfleet.compile(noisy, INPUTS, PARAMETERS, SUMS, trajectories=5)
    assert compiled.method == "trajectories"
    inputs, parameters = point()
    torch.autograd.gradcheck(lambda at: expectation(compiled, inputs, at), parameters)


def test_expectation_passes_gradgradcheck() -> None:
    torch.autograd.gradgradcheck(lambda *at: expectation(COMPILED, *at), point())


@pytest.mark.parametrize("which", [0, 1])
def test_gradient_by_one_argument_is_that_of_both(which: int) -> None:
    both = point()
    wanted = torch.autograd.grad(expectation(COMPILED, *both).sum(), both)[which]
    one = [tensor.detach() for tensor in both]
    one[which].requires_grad_()
    found = torch.autograd.grad(expectation(COMPILED, *one).sum(), one[which])[0]
    torch.testing.assert_close(found, wanted)


def test_second_derivative_by_parameters_only() -> None:
    inputs, parameters = point()
    inputs = inputs.detach()
    found = torch.autograd.functional.hessian(
        lambda at: expectation(COMPILED, inputs, at).sum(), parameters
    )
    both = torch.autograd.functional.hessian(
        lambda *at: expectation(COMPILED, *at).sum(), (inputs, parameters)
    )
    torch.testing.assert_close(found, both[1][1])


def test_third_derivative_raises() -> None:
    inputs, parameters = point()
    first = torch.autograd.grad(
        expectation(COMPILED, inputs, parameters).sum(), parameters, create_graph=True
    )[0]
    second = torch.autograd.grad(first.sum(), parameters, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="third derivatives"):
        second.sum().backward()


# torch.func.jvp itself uses it.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")
@pytest.mark.parametrize("function", [expectation, state])
@pytest.mark.parametrize("which", [0, 1])
def test_func_transforms_raise(function: Any, which: int) -> None:
    operands = [one.detach() for one in point()]
    compiled = COMPILED if function is expectation else STATES

    def of_one(value: torch.Tensor) -> torch.Tensor:
        return function(compiled, *operands[:which], value, *operands[which + 1 :])

    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(of_one, (operands[which],), (torch.ones_like(operands[which]),))
    gradient = torch.func.grad(lambda value: of_one(value).abs().sum())
    for transform in (gradient, lambda value: torch.func.vmap(gradient)(value[None])):
        with pytest.raises(NotImplementedError, match=r"torch\.func\.grad"):
            transform(operands[which])


@opcheck_warning
def test_operations_pass_opcheck() -> None:
    number = ops.register(COMPILED)
    inputs, parameters = point()
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    every = (*tests, "test_aot_dispatch_dynamic")
    for keep in (True, False):
        arguments = (inputs, parameters, None, number, 2, keep, True)
        torch.library.opcheck(torch.ops.qfleet.expectation.default, arguments, test_utils=every)
    kept = ops.expectation(inputs, parameters, None, number, 2, True, True)[1]
    upstream = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    for by_inputs in (True, False):
        operands = inputs, parameters, None, upstream, kept.detach()
        arguments = (*operands, number, True, by_inputs, False)
        torch.library.opcheck(torch.ops.qfleet.expectation_vjp.default, arguments, test_utils=tests)
    tangents = [torch.rand_like(one) for one in (inputs, parameters)]
    arguments = (inputs.detach(), parameters.detach(), None, upstream.detach(), *tangents, number)
    torch.library.opcheck(torch.ops.qfleet.expectation_hvp.default, arguments, test_utils=tests)


@opcheck_warning
def test_state_operations_pass_opcheck() -> None:
    number = ops.register(STATES)
    inputs, parameters = point()
    torch.library.opcheck(torch.ops.qfleet.state.default, (inputs, parameters, None, number, 3))
    states = state_ops.state(inputs, parameters, None, number, 3).detach()
    plain = inputs.detach(), parameters.detach()
    arguments = (*plain, None, states, torch.rand_like(states), number, True, False)
    torch.library.opcheck(torch.ops.qfleet.state_vjp.default, arguments)
    seed = torch.tensor(3)
    torch.library.opcheck(torch.ops.qfleet.sample.default, (*plain, None, seed, number, 3, 5))


def test_state_equals_cirq_and_passes_gradcheck() -> None:
    inputs, parameters = point()
    values = dict(zip(PARAMETERS, parameters.tolist(), strict=True))
    values |= dict(zip(INPUTS, inputs[0].tolist(), strict=True))
    wanted = cirq.resolve_parameters(CIRCUIT, values).final_state_vector(dtype=np.complex128)
    np.testing.assert_allclose(state(STATES, inputs, parameters)[0].detach(), wanted, atol=1e-6)
    torch.autograd.gradcheck(lambda *at: state(STATES, *at), (inputs, parameters))


def test_second_derivative_of_state_raises() -> None:
    inputs, parameters = point()
    total = state(STATES, inputs, parameters).abs().sum()
    first = torch.autograd.grad(total, parameters, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="second derivatives"):
        first.sum().backward()


def test_graph_of_states_keeps_the_circuit() -> None:
    inputs, _ = point()
    amplitudes = State(CIRCUIT, INPUTS, dtype=torch.float64)(inputs)  # the module is gone
    amplitudes.real.sum().backward()
    assert inputs.grad is not None
    assert inputs.grad.isfinite().all()


def test_samples_follow_the_generator_and_the_state() -> None:
    inputs, parameters = point(2)
    draws = [
        sample(
            STATES,
            inputs,
            parameters,
            shots=20_000,
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in (1, 1, 2)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    indices = (draws[0].long() * torch.tensor([4, 2, 1])).sum(-1)
    found = torch.stack([torch.bincount(row, minlength=8) for row in indices]) / 20_000
    wanted = state(STATES, inputs, parameters).abs().square().detach()
    torch.testing.assert_close(found.double(), wanted, atol=0.02, rtol=0)


def test_leading_axes_are_kept() -> None:
    inputs, parameters = point(6)
    wanted = expectation(COMPILED, inputs, parameters)
    cube = expectation(COMPILED, inputs.reshape(2, 3, 2), parameters)
    torch.testing.assert_close(cube, wanted.reshape(2, 3, 2))
    torch.testing.assert_close(expectation(COMPILED, inputs[0], parameters), wanted[0])


def test_non_contiguous_inputs_equal_contiguous_ones() -> None:
    inputs, parameters = point()
    columns = inputs.detach().T.contiguous().T.requires_grad_()
    assert not columns.is_contiguous()
    wanted = torch.autograd.grad(expectation(COMPILED, inputs, parameters).sum(), inputs)[0]
    found = torch.autograd.grad(expectation(COMPILED, columns, parameters).sum(), columns)[0]
    torch.testing.assert_close(found, wanted)


def test_empty_batch_has_zero_gradient() -> None:
    inputs, parameters = point(0)
    values = expectation(COMPILED, inputs, parameters)
    assert values.shape == (0, 2)
    values.sum().backward()
    assert inputs.grad.shape == (0, 2)
    assert not parameters.grad.any()


def record_calls(monkeypatch: pytest.MonkeyPatch, name: str, calls: list[str]) -> None:
    """Append the name of a method of the engine's programs to a list at each call."""
    method = getattr(type(COMPILED.program), name)

    def recorded(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return method(*args, **options)

    monkeypatch.setattr(type(COMPILED.program), name, recorded)


def test_states_are_kept_only_for_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("expectation", "forward", "gradient"):
        record_calls(monkeypatch, name, calls)
    inputs, parameters = point()
    with torch.no_grad():
        expectation(COMPILED, inputs, parameters)
    expectation(COMPILED, inputs.detach(), parameters.detach())
    assert calls == ["expectation", "expectation"]
    expectation(COMPILED, inputs, parameters).sum().backward()
    assert calls[2:] == ["forward", "gradient"]


def test_backward_twice_gives_the_same_gradient() -> None:
    inputs, parameters = point()
    values = expectation(COMPILED, inputs, parameters).sum()
    first = torch.autograd.grad(values, parameters, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(values, parameters)[0])


def test_vectorized_jacobian_equals_that_row_by_row() -> None:
    inputs, parameters = (one.detach() for one in point())
    found, wanted = (
        torch.autograd.functional.jacobian(
            lambda at: expectation(COMPILED, inputs, at), parameters, vectorize=vectorize
        )
        for vectorize in (True, False)
    )
    torch.testing.assert_close(found, wanted)


def test_changed_parameters_are_refused_in_backward() -> None:
    inputs, parameters = point()
    values = expectation(COMPILED, inputs, parameters)
    with torch.no_grad():
        parameters += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_transforms_see_the_operation() -> None:
    inputs, parameters = (one.detach() for one in point())

    def values(at: torch.Tensor) -> torch.Tensor:
        return expectation(COMPILED, inputs, at)

    assert "qfleet.expectation" in make_fx(values)(parameters).code
    rows = torch.vmap(values)(torch.stack([parameters, parameters]))
    torch.testing.assert_close(rows[1], values(parameters))


def test_eager_values_equal_those_of_the_operation() -> None:
    number, arguments = ops.register(COMPILED), point()
    found = expectation(COMPILED, *arguments)
    wanted = ops.expectation(*arguments, None, number, 2, True, True)[0]
    assert torch.equal(found, wanted)
    upstream = torch.rand(4, 2, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(found, arguments, upstream),
        torch.autograd.grad(wanted, arguments, upstream),
        strict=True,
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_module_dtype_is_that_of_values_and_gradients(dtype: torch.dtype) -> None:
    module = Expectation(CIRCUIT, INPUTS, SUMS, dtype=dtype)
    inputs = point(grad=False)[0]
    values = module(inputs)  # float64 inputs of a float32 module are cast
    values.sum().backward()
    assert values.dtype == module.angles.dtype == module.angles.grad.dtype == dtype


def test_module_to_float64_is_compiled_again() -> None:
    module = Expectation(CIRCUIT, INPUTS, SUMS, initializer=torch.nn.init.ones_).double()
    inputs, _ = point(grad=False)
    parameters = torch.ones(3, dtype=torch.float64)
    wanted = expectation(COMPILED, inputs, parameters)
    torch.testing.assert_close(module(inputs).detach(), wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("change", ["half", "bfloat16"])
def test_module_refuses_other_dtypes_unchanged(change: str) -> None:
    module = Expectation(CIRCUIT, INPUTS, SUMS)
    with pytest.raises(ArgumentError, match="dtype"):
        getattr(module, change)()
    assert module.angles.dtype == torch.float32


def test_changed_circuit_does_not_change_a_module() -> None:
    circuit, observable = CIRCUIT.copy(), SUMS[0].copy()
    module = Expectation(circuit, INPUTS, [observable])
    inputs = point(dtype=torch.float32, grad=False)[0]
    wanted = module(inputs).detach()
    circuit.append(cirq.X.on_each(*QUBITS))
    observable += 3 * cirq.X(QUBITS[0])
    for other in (copy.deepcopy(module), module.double()):
        torch.testing.assert_close(other(inputs).detach().float(), wanted)


def test_copies_compute_the_same() -> None:
    module = Expectation(CIRCUIT, INPUTS, SUMS)
    other = Expectation(CIRCUIT, INPUTS, SUMS)
    other.load_state_dict(module.state_dict())
    inputs = point(dtype=torch.float32, grad=False)[0]
    wanted = module(inputs)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert twin.observables == module.observables
        assert torch.equal(twin(inputs), wanted)
        twin.angles.data.zero_()
    assert module.angles.all()


@pytest.mark.parametrize("case", ["order", "names", "number", "nameless", "nested"])
def test_angles_of_other_parameters_are_refused(case: str, tmp_path: Path) -> None:
    module = Expectation(CIRCUIT, INPUTS, SUMS)
    names = list(module.parameter_names)
    other = {
        "order": lambda: Expectation(CIRCUIT, INPUTS, SUMS, parameters=names[::-1]),
        "names": lambda: Expectation(
            cirq.resolve_parameters(CIRCUIT, {names[0]: sympy.Symbol("another")}), INPUTS, SUMS
        ),
        "number": lambda: Expectation(
            cirq.resolve_parameters(CIRCUIT, {names[0]: 0.5}), INPUTS, SUMS
        ),
    }.get(case, lambda: module)()
    torch.save(other.state_dict(), tmp_path / "saved.pt")
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    before = module.angles.detach().clone()
    target: torch.nn.Module = module
    if case == "nameless":
        del saved["_extra_state"]
    if case == "nested":
        target = torch.nn.Sequential(module)
        saved = {f"0.{key}": value for key, value in saved.items()}
        saved["0._extra_state"] = saved["0._extra_state"][:-1]
    with pytest.raises(ArgumentError, match="state_dict"):
        target.load_state_dict(saved)
    assert torch.equal(module.angles, before)


def test_bound_circuit_has_the_trained_angles() -> None:
    module = Expectation(CIRCUIT, INPUTS, SUMS, dtype=torch.float64)
    inputs = point(1, grad=False)[0]
    resolver = dict(zip(INPUTS, inputs[0].tolist(), strict=True))
    found = cirq.Simulator(dtype=np.complex128).simulate_expectation_values(
        module.bound_circuit(), SUMS, resolver
    )
    np.testing.assert_allclose(np.real(found), module(inputs)[0].detach(), atol=1e-6)


def test_state_and_samples_modules_have_their_shapes() -> None:
    inputs = point(2, torch.float32, grad=False)[0]
    states = State(CIRCUIT, INPUTS)(inputs)
    assert states.shape == (2, 8)
    assert states.dtype == torch.complex64
    bits = Samples(CIRCUIT, INPUTS, shots=5)(inputs)
    assert bits.shape == (2, 5, 3)
    assert bits.dtype == torch.uint8


INVALID = {
    "complex": (torch.zeros(4, 2, dtype=torch.complex64), "inputs have dtype"),
    "width": (torch.zeros(4, 3), "inputs have shape"),
    "scalar": (torch.tensor(1.0), "inputs have shape"),
    "missing": (None, "inputs are missing"),
    "list": ([[0.0, 0.0]], "inputs is a list"),
    "meta": (torch.zeros(4, 2, device="meta"), "inputs are on the device meta"),
    "sparse": (torch.zeros(4, 2).to_sparse(), "inputs are nested or sparse"),
    "nested": (
        torch.nested.nested_tensor([torch.zeros(2)], layout=torch.jagged),
        "inputs are nested or sparse",
    ),
    "nan": (torch.full((4, 2), torch.nan), "inputs is nan"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_inputs_are_named(name: str) -> None:
    inputs, message = INVALID[name]
    with pytest.raises(ArgumentError, match=message):
        expectation(COMPILED, inputs, torch.zeros(3))


def test_parameters_per_example_are_refused() -> None:
    with pytest.raises(ArgumentError, match="parameters have shape"):
        expectation(COMPILED, torch.zeros(4, 2), torch.zeros(4, 3))


def test_circuit_for_the_other_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="observables"):
        expectation(STATES, *point())
    with pytest.raises(ArgumentError, match="observables"):
        state(COMPILED, *point())
    with pytest.raises(ArgumentError, match="shots"):
        sample(STATES, *point(), shots=0)


def test_one_sum_is_one_observable() -> None:
    module = Expectation(CIRCUIT, INPUTS, observables=SUMS[0])
    assert module(torch.zeros(3, 2)).shape == (3, 1)


def test_shots_may_be_a_numpy_integer() -> None:
    bits = sample(STATES, *point(grad=False), shots=np.int64(5))
    assert bits.shape == (4, 5, 3)


@pytest.mark.parametrize(
    "initializer",
    [3, "zeros", lambda angles: torch.zeros(3), lambda angles: angles.fill_(torch.inf)],
)
def test_initializer_that_fills_no_numbers_is_refused(initializer: Any) -> None:
    with pytest.raises(ArgumentError, match="initializer"):
        Expectation(CIRCUIT, INPUTS, SUMS, initializer=initializer)


def test_expectation_without_observables_is_refused() -> None:
    with pytest.raises(ArgumentError, match="observables"):
        Expectation(CIRCUIT, INPUTS, [])
