"""Circuits in place of the filters of a convolution."""

from collections.abc import Iterable, Sequence
from typing import Any, final

import cirq
import torch
from torch import Tensor, nn
from torch.nn import functional

from qfleet.argument_checks import flag, shown
from qfleet.circuit_checks import one_or_several
from qfleet.errors import ArgumentError
from qfleet.patches import CHANNELS_FIRST, Pair, check_images, patch_grid
from qfleet.torch.modules import Expectation


@final
class QuantumConvolution(nn.Module):
    """Circuits on all patches of images: [..., C, H, W] -> [..., channels, H', W'].

    Each circuit computes its observables for every patch of every image: one call of the engine per
    circuit. The output channels are the observables of the first circuit, then of the second, and
    so on. Henderson et al., "Quanvolutional Neural Networks" (arXiv:1904.04767).

    Args:
        circuits: A Cirq circuit, or several.
        inputs: Names of the symbols for the C * rows * columns numbers of a patch, in the order of
            a weight of `torch.nn.Conv2d`: all pixels of the first channel by rows, then the next.
        observables: PauliSums or PauliStrings with real coefficients, of each circuit.
        kernel_size: Rows and columns of a patch, or one number for both.
        stride: Rows and columns from one patch to the next, or one number for both.
        trainable: False for angles that keep their initial values.
        options: `parameters`, `initializer` and `dtype` of each circuit; see `Expectation`.

    Attributes:
        circuits: The circuits as modules.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: A circuit, its symbols or the observables are not supported.

    Examples:
        >>> import cirq, sympy, torch
        >>> from qfleet.torch import QuantumConvolution
        >>> qubits = cirq.LineQubit.range(4)
        >>> names = [f"x{i}" for i in range(4)]
        >>> circuit = cirq.Circuit(cirq.ry(sympy.Symbol(x))(q) for x, q in zip(names, qubits))
        >>> layer = QuantumConvolution(circuit, names, [cirq.Z(qubits[0])], 2, stride=2)
        >>> layer(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 1, 4, 4])
    """

    def __init__(
        self,
        circuits: cirq.AbstractCircuit | Sequence[cirq.AbstractCircuit],
        inputs: Iterable[str],
        observables: Iterable[cirq.PauliSum | cirq.PauliString],
        kernel_size: int | Pair,
        *,
        stride: int | Pair = 1,
        trainable: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        self._grid = patch_grid(kernel_size, stride)
        every = one_or_several(circuits, "circuits")
        names, sums = list(inputs), list(observables)
        self.circuits = nn.ModuleList(Expectation(one, names, sums, **options) for one in every)
        self.circuits.requires_grad_(flag(trainable, "trainable"))

    def forward(self, images: Tensor) -> Tensor:
        """Return expectation values [..., channels, H', W'] for images [..., C, H, W].

        Raises:
            ArgumentError: The images are integers, do not divide into patches, or have other
                channels than the circuits have inputs for.
        """
        if not isinstance(images, Tensor):
            raise ArgumentError(f"images is {shown(images)}: pass a tensor [..., {CHANNELS_FIRST}]")
        if images.ndim < 3:
            given = list(images.shape)
            raise ArgumentError(f"images have shape {given}: pass [..., {CHANNELS_FIRST}]")
        if not images.is_floating_point():
            raise ArgumentError(f"images have the dtype {images.dtype}: pass images.float()")
        names, move = len(self.circuits[0].inputs), "images.movedim(-1, -3)"
        check_images(self._grid, names, images.shape, CHANNELS_FIRST, move)
        *lead, channels, height, width = images.shape
        size, stride = self._grid
        shape = self._grid.counts(height, width)
        planes = images.reshape(-1, channels, height, width)
        patches = functional.unfold(planes, size, stride=stride).transpose(1, 2)  # [B, L, I]
        values = torch.cat([circuit(patches) for circuit in self.circuits], -1)  # [B, L, K]
        return values.transpose(1, 2).reshape(*lead, values.shape[-1], *shape)

    def extra_repr(self) -> str:
        """Return the sizes of the patches for the representation of the model."""
        return f"kernel_size={self._grid.size}, stride={self._grid.stride}"
