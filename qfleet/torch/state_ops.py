"""State vectors and samples as operations of torch.library; see qfleet.torch.ops."""

from typing import Any

import torch
from torch import Tensor

from qfleet.torch.evaluation import array
from qfleet.torch.ops import circuit_of, gradient_tensors, optional_array
from qfleet.torch.registration import Inputs, Triple, define, refuse_derivative, register_vjp


@define(
    "qfleet::state",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor? initial_states, int program, int qubits)"
        " -> Tensor"
    ),
)
def state(
    inputs: Tensor, parameters: Tensor, initial_states: Tensor | None, program: int, qubits: int
) -> Tensor:
    """Compute state vectors.

    Args:
        inputs: [B, I].
        parameters: [P].
        initial_states: [B, 2**N]; None if the circuit has an own one.
        program: Number of the circuit; see `qfleet.torch.ops.register`.
        qubits: N.

    Returns:
        [B, 2**N] complex.
    """
    states = optional_array(initial_states)
    compiled = circuit_of(program)
    found = compiled.state(array(inputs), array(parameters), initial_states=states)
    return torch.from_numpy(found)


@state.register_fake
def _(
    inputs: Tensor, parameters: Tensor, initial_states: Tensor | None, program: int, qubits: int
) -> Tensor:
    return inputs.new_empty(inputs.shape[0], 1 << qubits, dtype=inputs.dtype.to_complex())


@define(
    "qfleet::state_vjp",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor? initial_states, Tensor states,"
        " Tensor upstream, int program, bool input_gradients, bool state_gradients)"
        " -> (Tensor, Tensor, Tensor)"
    ),
)
def state_vjp(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    states: Tensor,
    upstream: Tensor,
    program: int,
    input_gradients: bool,
    state_gradients: bool,
) -> Triple:
    """Compute the gradients of a real function L of the states.

    Args:
        inputs: [B, I].
        parameters: [P].
        initial_states: As of `state`.
        states: [B, 2**N], the result of `state`.
        upstream: [B, 2**N], dL/dRe + i dL/dIm.
        program: Number of the circuit.
        input_gradients: If gradients by inputs are wanted.
        state_gradients: If gradients by initial states are wanted.

    Returns:
        [B, I], or an empty tensor, [P], and [B, 2**N], or an empty tensor.
    """
    gradients = circuit_of(program).gradient_of_states(
        array(inputs),
        array(parameters),
        array(upstream),
        array(states),
        input_gradients=input_gradients,
        initial_states=optional_array(initial_states),
        state_gradients=state_gradients,
    )
    return gradient_tensors(gradients, inputs)


@define(
    "qfleet::sample",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor? initial_states, Tensor seed, int program,"
        " int qubits, int shots) -> Tensor"
    ),
)
def sample(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    seed: Tensor,
    program: int,
    qubits: int,
    shots: int,
) -> Tensor:
    """Measure all qubits.

    Args:
        inputs: [B, I].
        parameters: [P].
        initial_states: As of `state`.
        seed: int64 [], at least 0.
        program: Number of the circuit.
        qubits: N.
        shots: Measurements per example.

    Returns:
        uint8 [B, shots, N].
    """
    compiled = circuit_of(program)
    arguments = array(inputs), array(parameters), shots, int(seed)
    bits = compiled.sample(*arguments, initial_states=optional_array(initial_states))
    return torch.from_numpy(bits)


@sample.register_fake
def _(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    seed: Tensor,
    program: int,
    qubits: int,
    shots: int,
) -> Tensor:
    return inputs.new_empty(inputs.shape[0], shots, qubits, dtype=torch.uint8)


def _save_state(ctx: Any, inputs: Inputs, output: Tensor) -> None:
    angles, parameters, initial_states, ctx.program, _ = inputs
    ctx.compiled = circuit_of(ctx.program)  # it lives as long as the graph
    ctx.save_for_backward(angles, parameters, initial_states, output)


def _vjp_arguments(ctx: Any, upstream: Tensor, by_inputs: bool) -> Inputs:
    inputs, parameters, initial_states, states = ctx.saved_tensors
    return inputs, parameters, initial_states, states, upstream, ctx.program


register_vjp(state, state_vjp, _save_state, _vjp_arguments)
refuse_derivative(
    state_vjp,
    "second derivatives of qfleet.torch.state are not available: differentiate expectation values"
    " instead",
)
