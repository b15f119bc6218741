"""PyTorch adapter: circuits on all patches of images."""

from typing import Any

import cirq
import numpy as np
import pytest
import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import qfleet
from qfleet.errors import ArgumentError
from qfleet.torch import QuantumConvolution
from tests.support.patches import INPUTS, OBSERVABLES, patch_circuit


def images(*shape: int) -> torch.Tensor:
    """Return random images in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_channels_equal_each_patch_of_each_circuit() -> None:
    circuits = [patch_circuit(2), patch_circuit(3)]
    layer = QuantumConvolution(circuits, INPUTS, OBSERVABLES, 2, stride=(1, 2), dtype=torch.float64)
    batch = images(3, 2, 5, 6)
    found = layer(batch)
    assert found.shape == (3, 4, 4, 3)
    for at, circuit in enumerate(circuits):
        compiled = qfleet.compile(circuit, INPUTS, observables=OBSERVABLES)
        angles = layer.circuits[at].angles.detach().numpy()
        for row in range(4):
            for column in range(3):
                corner = slice(row, row + 2), slice(2 * column, 2 * column + 2)
                patches = batch[:, :, *corner].reshape(3, -1).numpy()
                values = found[:, 2 * at : 2 * at + 2, row, column].detach().numpy()
                wanted = compiled.expectation(patches, angles)
                np.testing.assert_allclose(values, wanted, atol=1e-12)
    torch.testing.assert_close(layer(batch[0]), found[0])


def test_derivatives_by_images_and_angles_pass_gradcheck() -> None:
    layer = QuantumConvolution(
        patch_circuit(2), INPUTS, OBSERVABLES, 2, stride=2, dtype=torch.float64
    )
    batch = images(1, 2, 4, 4).requires_grad_()
    torch.autograd.gradcheck(layer, (batch,))
    layer(batch).sum().backward()
    assert layer.circuits[0].angles.grad is not None


def test_fixed_circuits_have_no_trained_angles() -> None:
    layer = QuantumConvolution(patch_circuit(1), INPUTS, OBSERVABLES, 2, trainable=False)
    assert not [one for one in layer.parameters() if one.requires_grad]
    assert len(layer.state_dict()) == 2  # the angles, and their names


def test_layer_on_a_gpu_returns_values_there() -> None:
    layer = QuantumConvolution(patch_circuit(1), INPUTS, OBSERVABLES, 2)
    # Tensors have shapes and devices, but no values.
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        layer.to("cuda")
        values = layer(torch.zeros(2, 2, 4, 4, device="cuda"))
    assert layer.circuits[0].angles.is_cuda
    assert values.is_cuda
    assert values.shape == (2, 2, 3, 3)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 2, 4, 5), "width 5, which patches of 2 pixels with stride 2.* to 4 or 6"),
        ((1, 2, 1, 4), "height 1, .* to 2 or 4"),
        ((1, 1, 4, 4), "8 names: a patch of 2 x 2 pixels with 1 channels has 4 numbers"),
        ((1, 4, 4, 2), r"\[1, 4, 4, 2\].* pass \[..., channels, .* images.movedim\(-1, -3\)"),
        ((1, 2, 4, 5), r"\[1, 2, 4, 5\] are read as \[..., channels, height, width\]"),
        ((4, 4), r"images have shape \[4, 4\]: pass \[..., channels, height, width\]"),
    ],
)
def test_images_that_do_not_fit_are_refused(shape: tuple[int, ...], message: str) -> None:
    layer = QuantumConvolution(patch_circuit(1), INPUTS, OBSERVABLES, 2, stride=2)
    with pytest.raises(ArgumentError, match=message):
        layer(torch.zeros(shape))
    with pytest.raises(ArgumentError, match=r"dtype torch\.uint8: pass images\.float"):
        layer(torch.zeros((1, 2, 4, 4), dtype=torch.uint8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 0}, "kernel_size is 0: pass an integer of at least 1"),
        ({"kernel_size": (2, 2, 2)}, r"kernel_size is \(2, 2, 2\): pass an integer, or two"),
        ({"kernel_size": 2, "stride": 1.5}, "stride is 1.5: pass an integer"),
        ({"kernel_size": 2, "circuits": []}, "circuits is empty"),
        ({"kernel_size": 2, "circuits": 5}, "circuits is 5: pass a sequence of cirq.Circuit"),
        ({"kernel_size": 2, "circuits": ["x"]}, r"circuits\[0\] is 'x': pass a cirq.Circuit"),
        ({"kernel_size": 2, "trainable": 1}, "trainable is 1: pass True or False"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], message: str) -> None:
    arguments = {"circuits": patch_circuit(1), "inputs": INPUTS, "observables": OBSERVABLES}
    with pytest.raises(ArgumentError, match=message):
        QuantumConvolution(**arguments | options)


def test_784_patches_of_a_digit_are_one_call() -> None:
    qubits = cirq.LineQubit.range(4)
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol(x))(q) for x, q in zip("abcd", qubits, strict=True))
    layer = QuantumConvolution(circuit, "abcd", [cirq.Z(q) for q in qubits], 2)
    assert layer(torch.zeros(2, 1, 29, 29)).shape == (2, 4, 28, 28)
