"""Tensors in a memory that the engine cannot read, as that of a GPU: a device in Python."""

from typing import Any

import cirq
import numpy as np
import pytest
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


@pytest.fixture(scope="module")
def far() -> str:
    """Return the name of the device."""
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


@pytest.mark.parametrize("observables", [[cirq.X(QUBITS[0]) * cirq.Z(QUBITS[1])], []])
def test_results_are_on_the_device_of_the_tensors(
    observables: list[cirq.PauliString], far: str
) -> None:
    for found, wanted in zip(
        results_on(far, observables), results_on("cpu", observables), strict=True
    ):
        assert isinstance(found, FarTensor)
        assert found.device.type == far
        np.testing.assert_allclose(found.numbers, wanted.numpy(), rtol=0, atol=1e-6)
