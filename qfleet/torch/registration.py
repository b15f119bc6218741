"""Definition and derivatives of operations of torch.library."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.library import CustomOpDef

Pair = tuple[Tensor, Tensor]
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
    """Make an operation differentiable by its first two arguments, inputs and parameters.

    Args:
        operation: The operation; its first result is differentiable.
        vjp: Its vector-Jacobian product, an operation. The first two arguments are inputs and
            parameters, and the last one is true if gradients by inputs are wanted.
        save: Saves what `arguments` needs: (context, arguments, results).
        arguments: Returns the arguments of `vjp` but the last: (context, upstream gradient, True if
            gradients by inputs are wanted).
    """

    def backward(ctx: Any, upstream: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        by_inputs, by_parameters, *others = ctx.needs_input_grad
        if upstream is None:
            return (None,) * (2 + len(others))
        gradients = vjp(*arguments(ctx, upstream, by_inputs), by_inputs)
        return (
            gradients[0] if by_inputs else None,
            gradients[1] if by_parameters else None,
            *len(others) * [None],
        )

    operation.register_autograd(backward, setup_context=save)
    vjp.register_fake(_empty_gradients)


def _empty_gradients(inputs: Tensor, parameters: Tensor, *others: Tensor | int | bool) -> Pair:
    by_inputs = inputs.new_empty(inputs.shape if others[-1] else 0)
    return by_inputs, parameters.new_empty(parameters.shape)


def refuse_derivative(operation: "CustomOpDef", message: str) -> None:
    """Raise NotImplementedError where the derivative of an operation is needed.

    Args:
        operation: The operation.
        message: What is not available, and what to do instead.
    """

    def backward(ctx: object, *_: Tensor | None) -> NoReturn:
        raise NotImplementedError(message)

    operation.register_autograd(backward)
