"""The engine as operations of torch.library, with fake kernels and derivatives.

    qfleet::expectation      inputs [B, I], parameters [P] -> values [B, K], kept states [...]
    qfleet::expectation_vjp  ... and upstream [B, K] -> gradients [B, I], [P]
    qfleet::expectation_hvp  ... and tangents [B, I], [P] -> J v [B, K], H v [B, I], [P]
    qfleet::state            inputs [B, I], parameters [P] -> amplitudes [B, 2**N]
    qfleet::state_vjp        ... and states, upstream [B, 2**N] -> gradients [B, I], [P]
    qfleet::sample           inputs [B, I], parameters [P], seed [] -> bits [B, shots, N]

All take initial states [B, 2**N] after the parameters, or None, and have gradients by these. Those
of expectation values take density matrices [B, 2**N, 2**N], too.
Tensors have the circuit's real dtype, or its complex dtype for states. A compiled circuit is passed
as the number of its program: an operation takes tensors and numbers only. All sizes of results are
arguments, because compiled graphs are cached on disk, where a number may mean another program.
"""

import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.gradients import Gradients
from qfleet.torch import evaluation
from qfleet.torch.evaluation import array, tensor_like
from qfleet.torch.registration import (
    Inputs,
    Pair,
    Triple,
    define,
    refuse_derivative,
    register_vjp,
)

_CIRCUITS: weakref.WeakValueDictionary[int, CompiledCircuit] = weakref.WeakValueDictionary()


@torch.compiler.assume_constant_result  # torch.compile calls it when it traces
def register(compiled: CompiledCircuit) -> int:
    """Make a circuit known to the operations, as long as it exists, and return its number."""
    number = compiled.program.handle
    if number not in _CIRCUITS:
        _CIRCUITS[number] = compiled
    return number


def circuit_of(number: int) -> CompiledCircuit:
    """Return the circuit of a number.

    Raises:
        RuntimeError: There is none in this process.
    """
    compiled = _CIRCUITS.get(number)
    if compiled is None:
        raise RuntimeError(
            f"qfleet has no program {number} in this process: keep the compiled circuit while its"
            " graphs are used, and trace them in the process that runs them"
        )
    return compiled


def gradient_tensors(gradients: Gradients, like: Tensor) -> Triple:
    """Return gradients in the dtype of a tensor; empty ones if they are not computed."""
    by_inputs, by_parameters = gradients
    by_states = gradients.initial_states
    states = like.new_empty(0, dtype=like.dtype.to_complex())
    return (
        tensor_like(np.empty(0) if by_inputs is None else by_inputs, like),
        tensor_like(by_parameters, like),
        states if by_states is None else torch.from_numpy(by_states),
    )


def optional_array(tensor: Tensor | None) -> np.ndarray | None:
    """Return a tensor's array, or None for None."""
    return None if tensor is None else array(tensor)


@define(
    "qfleet::expectation",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor? initial_states, int program, int readouts,"
        " bool keep, bool input_gradients) -> (Tensor, Tensor)"
    ),
)
def expectation(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    program: int,
    readouts: int,
    keep: bool,
    input_gradients: bool,
) -> Pair:
    """Compute expectation values.

    Args:
        inputs: [B, I].
        parameters: [P].
        initial_states: [B, 2**N]; None if the circuit has an own one.
        program: Number of the circuit; see `register`.
        readouts: K.
        keep: True to keep states for the gradient.
        input_gradients: If gradients by inputs will be wanted.

    Returns:
        [B, K], and the kept states, which are empty without `keep`.
    """
    compiled = circuit_of(program)
    at = evaluation.point(compiled, inputs, parameters, initial_states)
    values, kept = evaluation.values(compiled, at, keep, input_gradients)
    return torch.from_numpy(values), torch.from_numpy(kept)


@expectation.register_fake
def _(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    program: int,
    readouts: int,
    keep: bool,
    input_gradients: bool,
) -> Pair:
    kept = torch.library.get_ctx().new_dynamic_size() if keep else 0
    return inputs.new_empty(inputs.shape[0], readouts), inputs.new_empty(kept)


@define(
    "qfleet::expectation_vjp",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor? initial_states, Tensor upstream, Tensor kept,"
        " int program, bool planned_input_gradients, bool input_gradients, bool state_gradients)"
        " -> (Tensor, Tensor, Tensor)"
    ),
)
def expectation_vjp(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    upstream: Tensor,
    kept: Tensor,
    program: int,
    planned_input_gradients: bool,
    input_gradients: bool,
    state_gradients: bool,
) -> Triple:
    """Compute the gradients of sum(upstream * values).

    Args:
        inputs: [B, I].
        parameters: [P].
        initial_states: As of `expectation`.
        upstream: [B, K].
        kept: Second result of `expectation`; empty to evolve the states again.
        program: Number of the circuit.
        planned_input_gradients: The argument `input_gradients` of `expectation`.
        input_gradients: If gradients by inputs are wanted.
        state_gradients: If gradients by initial states are wanted.

    Returns:
        [B, I], or an empty tensor, [P], and [B, 2**N], or an empty tensor.
    """
    compiled = circuit_of(program)
    at = evaluation.point(compiled, inputs, parameters, initial_states)
    arguments = upstream, kept, planned_input_gradients, input_gradients, state_gradients
    return gradient_tensors(evaluation.gradients(compiled, at, *arguments), inputs)


@define(
    "qfleet::expectation_hvp",
    schema=(
        "(Tensor inputs, Tensor parameters, Tensor? initial_states, Tensor upstream,"
        " Tensor input_tangents, Tensor parameter_tangents, int program)"
        " -> (Tensor, Tensor, Tensor)"
    ),
)
def expectation_hvp(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    upstream: Tensor,
    input_tangents: Tensor,
    parameter_tangents: Tensor,
    program: int,
) -> Triple:
    """Compute directional derivatives of values and of the gradients of sum(upstream * values).

    Args:
        inputs: [B, I].
        parameters: [P].
        initial_states: As of `expectation`; they have no tangents.
        upstream: [B, K].
        input_tangents: [B, I] direction.
        parameter_tangents: [P] direction.
        program: Number of the circuit.

    Returns:
        [B, K], [B, I] and [P].
    """
    operands = (inputs, parameters, upstream, input_tangents, parameter_tangents)
    states = optional_array(initial_states)
    values, gradients = circuit_of(program).hvp(*map(array, operands), initial_states=states)
    by_inputs, by_parameters, _ = gradient_tensors(gradients, inputs)
    return torch.from_numpy(values), by_inputs, by_parameters


@expectation_hvp.register_fake
def _(
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    upstream: Tensor,
    input_tangents: Tensor,
    parameter_tangents: Tensor,
    program: int,
) -> Triple:
    operands = (upstream, inputs, parameters)
    first, second, third = (operand.new_empty(operand.shape) for operand in operands)
    return first, second, third


def _save_expectation(ctx: Any, inputs: Inputs, output: Pair) -> None:
    angles, parameters, states, ctx.program, _, _, ctx.input_gradients = inputs
    ctx.compiled = circuit_of(ctx.program)  # it lives as long as the graph
    _, kept = output
    ctx.save_for_backward(angles, parameters, states, kept)
    ctx.mark_non_differentiable(kept)
    ctx.set_materialize_grads(False)  # no zeros as the gradient by `kept`


def _vjp_arguments(ctx: Any, upstream: Tensor, by_inputs: bool) -> Inputs:
    inputs, parameters, states, kept = ctx.saved_tensors
    if by_inputs and not ctx.input_gradients:
        kept = kept[:0]  # the states of another plan
    planned = ctx.input_gradients or by_inputs
    return inputs, parameters, states, upstream, kept, ctx.program, planned


register_vjp(expectation, expectation_vjp, _save_expectation, _vjp_arguments)


def _save_vjp(ctx: Any, inputs: Inputs, output: Triple) -> None:
    angles, parameters, states, upstream, _, ctx.program, *_, ctx.state_gradients = inputs
    ctx.compiled = circuit_of(ctx.program)
    ctx.save_for_backward(angles, parameters, states, upstream)
    ctx.set_materialize_grads(False)


def _vjp_backward(
    ctx: Any, by_inputs: Tensor | None, by_parameters: Tensor | None, by_states: Tensor | None
) -> tuple[Tensor | None, ...]:
    inputs, parameters, states, upstream = ctx.saved_tensors
    if not ctx.compiled.has_hvp:
        raise NotImplementedError("circuits with noise have no second derivatives")
    if ctx.state_gradients:
        raise NotImplementedError(
            "second derivatives by initial states are not available: pass states that do not"
            " require a gradient"
        )
    # The gradients g = (dvalues/dx)^T upstream are linear in upstream, and dg/dx is the Hessian.
    if by_inputs is None or by_inputs.shape != inputs.shape:
        by_inputs = torch.zeros_like(inputs)
    if by_parameters is None:
        by_parameters = torch.zeros_like(parameters)
    operands = inputs, parameters, states, upstream, by_inputs, by_parameters
    by_upstream, *second = expectation_hvp(*operands, ctx.program)
    return *second, None, by_upstream, None, None, None, None, None


expectation_vjp.register_autograd(_vjp_backward, setup_context=_save_vjp)


refuse_derivative(
    expectation_hvp,
    "third derivatives of qfleet.torch.expectation are not available: differentiate at most twice",
)
