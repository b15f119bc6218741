"""The array library of a tape's parameters: which values are differentiated, and stacking them."""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import numpy as np
import pennylane as qml
from pennylane.exceptions import QuantumFunctionError
from pennylane.typing import TensorLike

from qfleet.argument_checks import shown
from qfleet.errors import ArgumentError

_NUMBERS = (float, int, np.floating, np.integer)


def mapped_over(value: TensorLike) -> bool:
    """Return True if jax.vmap maps over a value, which then differs per example.

    Args:
        value: A parameter of an operation.
    """
    return type(value).__name__ == "BatchTracer"


def not_differentiable(value: TensorLike, error: Exception) -> TensorLike:
    """Return a value that JAX traces, whose derivative raises an error.

    Args:
        value: A parameter of an operation.
        error: The error.
    """
    import jax

    def refuse(primals: TensorLike, tangents: TensorLike) -> NoReturn:
        raise error

    identity = jax.custom_jvp(lambda one: one)
    identity.defjvp(refuse)
    return identity(value)


def is_constant(value: TensorLike) -> bool:
    """Return True if a value is known and not differentiated.

    Args:
        value: A parameter of an operation.
    """
    return not qml.math.is_abstract(value) and not qml.math.requires_grad(value)


def is_list_of_trained(value: TensorLike) -> bool:
    """Return True if a value is a list of differentiated numbers, of which PennyLane makes objects.

    Args:
        value: A parameter of an operation.
    """
    return isinstance(value, np.ndarray) and value.dtype == object


def real_numbers(value: TensorLike) -> np.ndarray:
    """Return angles as float64.

    Args:
        value: Array or number.

    Raises:
        ArgumentError: An angle has an imaginary part, or is not a number.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise ArgumentError(f"an angle is {shown(value)}: pass real numbers")
    if array.dtype.kind == "c":
        if array.imag.any():
            raise ArgumentError(f"an angle is {array[array.imag != 0][0]}: pass real numbers")
        array = array.real
    return np.asarray(array, np.float64)


def name(values: Sequence[TensorLike]) -> str:
    """Return PennyLane's name of the array library of some values.

    Args:
        values: Parameters of operations.
    """
    kinds = {type(value): value for value in values if not isinstance(value, _NUMBERS)}
    return qml.math.get_interface(*kinds.values()) if kinds else "numpy"


def stack(
    values: Sequence[TensorLike], sizes: Sequence[int | None], batch: int | None, library: str
) -> TensorLike:
    """Stack parameters into one array, differentiably.

    Args:
        values: Scalars [] and tensors, or with a batch [B] and [B, ...].
        sizes: Elements of each tensor per example; None for a scalar.
        batch: B; None without a batch.
        library: Their array library, as `name` returns it.

    Returns:
        [P] array, or [B, P]. It is a NumPy array if no value is differentiated.
    """
    if library == "torch":
        return _stack_torch(values, sizes, batch)
    if all(map(is_constant, values)):
        plain = [real_numbers(value) for value in qml.math.unwrap(values)]
        return _stack(np, plain, sizes, batch)
    return _stack(_namespace(library), values, sizes, batch)


def _namespace(library: str) -> ModuleType:
    return importlib.import_module("jax.numpy" if library == "jax" else "pennylane.numpy")


def _stack(
    xp: ModuleType,
    values: Sequence[TensorLike],
    sizes: Sequence[int | None],
    batch: int | None,
) -> TensorLike:
    widths = [1 if size is None else size for size in sizes]
    if batch is None:
        if all(size is None for size in sizes):
            return xp.stack(values)
        parts = [xp.reshape(one, (width,)) for one, width in zip(values, widths, strict=True)]
        return xp.concatenate(parts)
    # A value that jax.vmap maps over may lack the batch of the tape.
    rows = [xp.reshape(one, (-1, width)) for one, width in zip(values, widths, strict=True)]
    rows = [
        row if len(row) == batch else xp.broadcast_to(row, (batch, row.shape[1])) for row in rows
    ]
    return xp.concatenate(rows, axis=1)


def _stack_torch(
    values: Sequence[TensorLike], sizes: Sequence[int | None], batch: int | None
) -> TensorLike:
    import torch

    tensors = [
        value if type(value) is torch.Tensor else torch.as_tensor(value, dtype=torch.float64)
        for value in map(_real_tensor, values)
    ]
    if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        tensors = [tensor.detach() for tensor in tensors]
    if len(tensors) > 1 or sizes[0] is None:
        kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
        if len(kinds) > 1:
            tensors = [tensor.to("cpu", torch.float64) for tensor in tensors]
    if all(size is None for size in sizes):
        stacked = torch.stack(tensors, -1)
    else:
        lead = () if batch is None else (batch,)
        shapes = [(*lead, 1 if size is None else size) for size in sizes]
        parts = [tensor.reshape(shape) for tensor, shape in zip(tensors, shapes, strict=True)]
        stacked = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
    return stacked if stacked.requires_grad else stacked.cpu().numpy()


def _real_tensor(value: TensorLike) -> TensorLike:
    if not hasattr(value, "detach"):
        return real_numbers(value)
    if not value.is_complex():
        return value
    real_numbers(value.detach().cpu().numpy())
    return value.real


def differentiable_once(
    gradients: Sequence[TensorLike], sources: Sequence[TensorLike]
) -> list[TensorLike]:
    """Return gradients for Torch that refuse to be differentiated: Torch would take 0.

    Args:
        gradients: NumPy arrays.
        sources: What they depend on: tensors, or values that are not differentiated.
    """
    import torch
    from torch.autograd.function import FunctionCtx

    if not torch.is_grad_enabled():  # Torch keeps no graph, so that there is no second derivative
        return list(gradients)

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: FunctionCtx, gradient: torch.Tensor, *sources: TensorLike) -> torch.Tensor:
            return gradient

        @staticmethod
        def backward(ctx: FunctionCtx, *upstream: torch.Tensor) -> NoReturn:
            raise QuantumFunctionError(
                "the gradient of qfleet.qubit is differentiated again, which diff_method='adjoint'"
                " does not support: set max_diff=2 and diff_method='best' of the QNode"
            )

    return [Once.apply(torch.as_tensor(gradient), *sources) for gradient in gradients]
