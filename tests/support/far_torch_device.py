"""Tensors in a memory that the engine cannot read, as that of a GPU: a device in Python.

    python -m tests.support.far_torch_device

Compares results for its tensors with those for tensors on the CPU. A process of its own is needed:
PyTorch counts its devices when it computes the first gradient.
"""

from typing import Any

import cirq
import numpy as np
import sympy
import torch
from torch.utils import backend_registration

import qfleet.torch

QUBITS = cirq.LineQubit.range(2)
X, P = sympy.symbols("x p")
CIRCUIT = cirq.Circuit(cirq.rx(X).on(QUBITS[0]), cirq.ry(P + X).on(QUBITS[1]), cirq.CZ(*QUBITS))
POINT = torch.tensor([[0.3], [-0.8]]), torch.tensor([0.7])


class FarTensor(torch.Tensor):
    """A tensor whose numbers PyTorch does not have.

    Args:
        numbers: The numbers.
    """

    # Or else copies of these tensors on the CPU would be of this class, too.
    __torch_function__ = torch._C._disabled_torch_function_impl

    def __new__(cls, numbers: np.ndarray) -> "FarTensor":
        dtype = torch.from_numpy(numbers).dtype
        made: FarTensor = torch._C._acc.create_empty_tensor(numbers.shape, dtype)
        made.__class__ = cls
        return made

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers


def empty(size: Any, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> FarTensor:
    """Return a tensor of this device, as aten::empty and aten::empty_strided."""
    return FarTensor(torch.empty(size, dtype=dtype).numpy())


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> None:
    """Copy numbers to or from this device, or on it."""
    ends = [
        one.numbers if isinstance(one, FarTensor) else one.detach().numpy()
        for one in (source, target)
    ]
    ends[1][...] = ends[0]


def register() -> str:
    """Make the device known to PyTorch, and return its name."""
    backend_registration._setup_privateuseone_for_python_backend("far")
    for name, function in (
        ("empty.memory_format", empty),
        ("empty_strided", empty),
        ("_copy_from", copy_from),
        ("detach", lambda tensor: FarTensor(tensor.numbers)),
    ):
        torch.library.impl(f"aten::{name}", "privateuseone", function)
    return "far"


def results_on(device: str, observables: list[cirq.PauliString]) -> list[torch.Tensor]:
    """Return values or states, and gradients by inputs and parameters, for tensors of a device."""
    compiled = qfleet.compile(CIRCUIT, ["x"], ["p"], observables, dtype="complex64")
    compute = qfleet.torch.expectation if observables else qfleet.torch.state
    point = [one.to(device).requires_grad_() for one in POINT]
    found = compute(compiled, *point)
    loss = found.to("cpu").abs()[:, 0].sum()
    return [found.detach(), *torch.autograd.grad(loss, point)]


def main() -> None:
    """Compare values, states and their gradients; raise AssertionError if they differ."""
    far = register()
    for observables in ([cirq.X(QUBITS[0]) * cirq.Z(QUBITS[1])], []):
        ends = results_on(far, observables), results_on("cpu", observables)
        for found, wanted in zip(*ends, strict=True):
            assert isinstance(found, FarTensor), found
            assert found.device.type == far, found.device
            np.testing.assert_allclose(found.numbers, wanted.numpy(), rtol=0, atol=1e-6)


if __name__ == "__main__":
    main()
