"""State vectors and samples as operations of torch.library; see qfleet.torch.ops."""

from typing import Any

import torch
from torch import Tensor

from qfleet.torch.evaluation import array
from qfleet.torch.ops import circuit_of, gradient_tensors
from qfleet.torch.registration import Inputs, Pair, define, refuse_derivative, register_vjp


@define(
    "qfleet::state",
    schema="(Tensor inputs, Tensor parameters, int program, int qubits) -> Tensor",
)
def state(inputs: Tensor, parameters: Tensor, program: int, qubits: int) -> Tensor:
    """Compute state vectors.

    Args:
        inputs: [B, I].
        parameters: [P].
        program: Number of the circuit; see `qfleet.torch.ops.register`.
        qubits: N.

    Returns:
        [B, 2**N] complex.
    """
    return torch.from_numpy(circuit_of(program).state(array(inputs), array(parameters)))


@state.register_fake
def _(inputs: Tensor, parameters: Tensor, program: int, qubits: int) -> Tensor:
    return inputs.new_empty(inputs.shape[0], 1 << qubits, dtype=inputs.dtype.to_complex())


@define(
    "qfleet::state_vjp",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor states, Tensor upstream, int program,"
        " bool input_gradients) -> (Tensor, Tensor)"
    ),
)
def state_vjp(
    inputs: Tensor,
    parameters: Tensor,
    states: Tensor,
    upstream: Tensor,
    program: int,
    input_gradients: bool,
) -> Pair:
    """Compute the gradients of a real function L of the states.

    Args:
        inputs: [B, I].
        parameters: [P].
        states: [B, 2**N], the result of `state`.
        upstream: [B, 2**N], dL/dRe + i dL/dIm.
        program: Number of the circuit.
        input_gradients: If gradients by inputs are wanted.

    Returns:
        [B, I], or an empty tensor, and [P].
    """
    gradients = circuit_of(program).gradient_of_states(
        array(inputs),
        array(parameters),
        array(upstream),
        array(states),
        input_gradients=input_gradients,
    )
    return gradient_tensors(gradients, inputs)


@define(
    "qfleet::sample",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor seed, int program, int qubits, int shots)"
        " -> Tensor"
    ),
)
def sample(
    inputs: Tensor, parameters: Tensor, seed: Tensor, program: int, qubits: int, shots: int
) -> Tensor:
    """Measure all qubits.

    Args:
        inputs: [B, I].
        parameters: [P].
        seed: int64 [], at least 0.
        program: Number of the circuit.
        qubits: N.
        shots: Measurements per example.

    Returns:
        uint8 [B, shots, N].
    """
    compiled = circuit_of(program)
    bits = compiled.sample(array(inputs), array(parameters), shots, int(seed))
    return torch.from_numpy(bits)


@sample.register_fake
def _(
    inputs: Tensor, parameters: Tensor, seed: Tensor, program: int, qubits: int, shots: int
) -> Tensor:
    return inputs.new_empty(inputs.shape[0], shots, qubits, dtype=torch.uint8)


def _save_state(ctx: Any, inputs: Inputs, output: Tensor) -> None:
    angles, parameters, ctx.program, _ = inputs
    ctx.compiled = circuit_of(ctx.program)  # it lives as long as the graph
    ctx.save_for_backward(angles, parameters, output)


def _vjp_arguments(ctx: Any, upstream: Tensor, by_inputs: bool) -> Inputs:
    inputs, parameters, states = ctx.saved_tensors
    return inputs, parameters, states, upstream, ctx.program


register_vjp(state, state_vjp, _save_state, _vjp_arguments)
refuse_derivative(
    state_vjp,
    "second derivatives of qfleet.torch.state are not available: differentiate expectation values"
    " instead",
)
