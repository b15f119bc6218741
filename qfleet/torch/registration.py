"""Definition and derivatives of operations of torch.library."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.library import CustomOpDef

Pair = tuple[Tensor, Tensor]
Triple = tuple[Tensor, Tensor, Tensor]
Inputs = tuple[Any, ...]
"""Arguments of an operation: tensors and numbers."""

define = functools.partial(torch.library.custom_op, mutates_args=(), device_types="cpu")
"""Decorator of an operation on the CPU, with its name and its schema."""


def register_vjp(
    operation: "CustomOpDef",
    vjp: "CustomOpDef",
    save: Callable[[Any, Inputs, Any], None],
    arguments: Callable[[Any, Tensor, bool], Inputs],
) -> None:
    """Make an operation differentiable by its first arguments: inputs, parameters, initial states.

    Args:
        operation: The operation; its first result is differentiable.
        vjp: Its vector-Jacobian product, an operation. It has the same first three arguments, and
            the last two are true if gradients by inputs and by initial states are wanted.
        save: Saves what `arguments` needs: (context, arguments, results).
        arguments: Returns the arguments of `vjp` but the last two: (context, upstream gradient,
            True if gradients by inputs are wanted).
    """

    def backward(ctx: Any, upstream: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        *wanted, by_states = ctx.needs_input_grad[:3]
        by_inputs, others = wanted[0], len(ctx.needs_input_grad) - 3
        if upstream is None:
            return (None,) * (3 + others)
        gradients = vjp(*arguments(ctx, upstream, by_inputs), by_inputs, by_states)
        found = zip(gradients, (*wanted, by_states), strict=True)
        return (*(one if is_wanted else None for one, is_wanted in found), *others * [None])

    operation.register_autograd(backward, setup_context=save)
    vjp.register_fake(_empty_gradients)


def _empty_gradients(
    inputs: Tensor, parameters: Tensor, initial_states: Tensor | None, *others: Any
) -> Triple:
    by_inputs = inputs.new_empty(inputs.shape if others[-2] else 0)
    shape = initial_states.shape if initial_states is not None and others[-1] else (0,)
    by_states = inputs.new_empty(shape, dtype=inputs.dtype.to_complex())
    return by_inputs, parameters.new_empty(parameters.shape), by_states


def refuse_derivative(operation: "CustomOpDef", message: str) -> None:
    """Raise NotImplementedError where the derivative of an operation is needed.

    Args:
        operation: The operation.
        message: What is not available, and what to do instead.
    """

    def backward(ctx: object, *_: Tensor | None) -> NoReturn:
        raise NotImplementedError(message)

    operation.register_autograd(backward)
