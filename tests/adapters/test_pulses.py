"""Circuits of three gates and one pulse in PyTorch and JAX: gradients of NumPy, and training."""

import cirq
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import qfleet
import qfleet.jax
from qfleet.pulses import PulseGate
from qfleet.torch import Expectation
from tests.support.pulse_circuits import (
    NAMES,
    OBSERVABLES,
    POINT,
    ROWS,
    circuit_of,
    one_qubit_gate,
    two_qubit_gate,
)

UPSTREAM = np.random.default_rng(1).normal(size=(3, 2))
GATES = pytest.mark.parametrize("gate", [one_qubit_gate(), two_qubit_gate()], ids=["one", "two"])


def compiled_circuit(gate: PulseGate) -> qfleet.CompiledCircuit:
    return qfleet.compile(circuit_of(gate), ["x", "y"], NAMES, OBSERVABLES)


@GATES
def test_gradients_of_pulses_in_jax_are_those_of_numpy(gate: PulseGate) -> None:
    compiled = compiled_circuit(gate)
    values, wanted = compiled.value_and_gradient(ROWS, POINT, UPSTREAM)

    def total(inputs: jax.Array, parameters: jax.Array) -> jax.Array:
        return (UPSTREAM * qfleet.jax.expectation(compiled, inputs, parameters)).sum()

    with jax.enable_x64(True):
        loss, found = jax.jit(jax.value_and_grad(total, (0, 1)))(ROWS, POINT)
        np.testing.assert_allclose(loss, (UPSTREAM * values).sum(), atol=1e-10)
        np.testing.assert_allclose(found[0], wanted.inputs, atol=1e-10)
        np.testing.assert_allclose(found[1], wanted.parameters, atol=1e-10)


def test_pulses_in_jax_are_mapped_over_parameters() -> None:
    compiled = compiled_circuit(one_qubit_gate())
    points = np.stack([POINT, 0.9 * POINT])

    def value(parameters: jax.Array) -> jax.Array:
        return qfleet.jax.expectation(compiled, ROWS, parameters)

    with jax.enable_x64(True):
        found = jax.vmap(value)(jnp.asarray(points))
    wanted = [compiled.expectation(ROWS, point) for point in points]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_second_derivatives_of_pulses_in_jax_are_refused() -> None:
    compiled = compiled_circuit(one_qubit_gate())

    def total(parameters: jax.Array) -> jax.Array:
        return qfleet.jax.expectation(compiled, ROWS, parameters).sum()

    with jax.enable_x64(True), pytest.raises(qfleet.ArgumentError, match="second derivatives"):
        jax.hessian(total)(jnp.asarray(POINT))


@GATES
def test_gradients_of_pulses_in_pytorch_are_those_of_numpy(gate: PulseGate) -> None:
    values, wanted = compiled_circuit(gate).value_and_gradient(ROWS, POINT, UPSTREAM)
    module = Expectation(
        circuit_of(gate), ["x", "y"], OBSERVABLES, parameters=NAMES, dtype=torch.float64
    )
    with torch.no_grad():
        module.angles.copy_(torch.from_numpy(POINT))
    found = module(torch.from_numpy(ROWS))
    (found * torch.from_numpy(UPSTREAM)).sum().backward()
    np.testing.assert_allclose(found.detach(), values, atol=1e-12)
    np.testing.assert_allclose(module.angles.grad, wanted.parameters, atol=1e-12)
    bound = module.bound_circuit()
    assert cirq.parameter_names(bound) == {"x", "y"}


def test_pulse_is_trained_in_pytorch() -> None:
    gate = one_qubit_gate()
    free = PulseGate(gate.propagator, gate.pulse, gate.pulse.symbols("p"), ["v"])
    module = Expectation(
        circuit_of(free), ["x", "y"], OBSERVABLES[:1], initializer=lambda one: one.fill_(0.3)
    )
    inputs, targets = torch.tensor([[0.4, -0.9]]), torch.tensor([[0.5]])
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (module(inputs) - targets).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
