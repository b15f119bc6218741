"""Expectation values in eager mode: from PyTorch's autograd straight to the engine.

The operations of qfleet.torch.ops go through PyTorch's dispatcher for its compilers and transforms.
That takes as long as a small circuit does, so plain eager code avoids it.
"""

from typing import Any

import torch
from torch import Tensor

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.torch import evaluation, ops

_PLAIN = (Tensor, torch.nn.Parameter)


def is_plain(*tensors: Tensor | None) -> bool:
    """Return True if only autograd needs to see an operation on tensors.

    Others that may are torch.compile, torch.export, torch.func, fake tensors, and further modes
    and subclasses of tensors.

    Args:
        tensors: Arguments of the operation.
    """
    return (
        all(tensor is None or type(tensor) in _PLAIN for tensor in tensors)
        and not torch.compiler.is_compiling()
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._are_functorch_transforms_active()
        and not torch.jit.is_tracing()
    )


def expectation(
    compiled: CompiledCircuit,
    inputs: Tensor,
    parameters: Tensor,
    initial_states: Tensor | None,
    keep: bool,
) -> Tensor:
    """Compute expectation values [B, K], differentiable as `qfleet.torch.ops.expectation` is.

    Args:
        compiled: A circuit with observables.
        inputs: [B, I] of the circuit's real dtype.
        parameters: [P], as `inputs`.
        initial_states: [B, 2**N] of its complex dtype; None if the circuit has an own one.
        keep: True to keep states for the gradient.
    """
    if keep:
        values: Tensor = _Expectation.apply(inputs, parameters, initial_states, compiled)
        return values
    at = evaluation.point(compiled, inputs, parameters, initial_states)
    return torch.from_numpy(evaluation.values(compiled, at, False, False)[0])


@torch.compiler.disable  # which warns where it finds the function itself, as in compiled steps
def _is_batched(tensor: Tensor) -> bool:
    """Return True in the derivative of a vectorized Jacobian."""
    found: bool = torch._C._functorch.is_legacy_batchedtensor(tensor)
    return found


class _Expectation(torch.autograd.Function):
    """Expectation values, and their gradient from the states of the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        parameters: Tensor,
        initial_states: Tensor | None,
        compiled: CompiledCircuit,
    ) -> Tensor:
        by_inputs = ctx.needs_input_grad[0]
        ctx.compiled, ctx.input_gradients = compiled, by_inputs
        ctx.point = evaluation.point(compiled, inputs, parameters, initial_states)
        values, kept = evaluation.values(compiled, ctx.point, True, by_inputs)
        # States as a saved tensor are freed with the graph, and changed arguments are detected.
        ctx.save_for_backward(inputs, parameters, initial_states, torch.from_numpy(kept))
        return torch.from_numpy(values)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        inputs, parameters, states, kept = ctx.saved_tensors
        compiled, planned = ctx.compiled, ctx.input_gradients
        by_inputs, by_parameters, by_states, _ = ctx.needs_input_grad
        batched = _is_batched(upstream)
        if torch.is_grad_enabled() or batched or not is_plain(upstream):
            number = ops.register(compiled)
            arguments = inputs, parameters, states, upstream, kept, number, planned
            found = ops.expectation_vjp(*arguments, by_inputs, by_states)
        else:
            gradients = evaluation.gradients(
                compiled, ctx.point, upstream, kept, planned, by_inputs, by_states
            )
            found = ops.gradient_tensors(gradients, inputs)
        wanted = by_inputs, by_parameters, by_states
        pairs = zip(found, wanted, strict=True)
        return (*(one if is_wanted else None for one, is_wanted in pairs), None)
