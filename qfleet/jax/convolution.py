"""Circuits in place of the filters of a convolution, as a JAX function."""

import math
from collections.abc import Iterable, Sequence
from typing import final

import cirq
import jax
import jax.numpy as jnp
import sympy
from jax.typing import ArrayLike
from numpy.typing import DTypeLike

from qfleet.argument_checks import items, shown
from qfleet.circuit_checks import one_or_several
from qfleet.engine.arguments import checked_names, required_observables
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.errors import ArgumentError
from qfleet.jax.calls import check_precision
from qfleet.jax.expectation import expectation
from qfleet.patches import CHANNELS_LAST, Pair, check_images, patch_grid

_SEQUENCE = items(lambda value, name: value, "a sequence with an array per circuit")


@final
class QuantumConvolution:
    """Circuits on all patches of images: [..., H, W, C] -> [..., H', W', channels].

    Each circuit computes its observables for every patch of every image: one call of the engine per
    circuit. The output channels are the observables of the first circuit, then of the second, and
    so on. Henderson et al., "Quanvolutional Neural Networks" (arXiv:1904.04767).

    The layer has no state. Pass images as a batch, not by `jax.vmap`, which calls the engine once
    per image.

    Args:
        circuits: A Cirq circuit, or several.
        inputs: Names of the symbols for the rows * columns * C numbers of a patch, in the order of
            a kernel of Flax's `nn.Conv`: by rows, columns and channels.
        observables: PauliSums or PauliStrings with real coefficients, of each circuit.
        kernel_size: Rows and columns of a patch, or one number for both.
        stride: Rows and columns from one patch to the next, or one number for both.
        dtype: Of the states, as for `qfleet.compile`; complex64 is JAX's default precision.
        device: As for `qfleet.compile`.

    Attributes:
        circuits: The compiled circuits. Every symbol that is not an input is a parameter, in the
            order of the names.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: A circuit, its symbols or the observables are not supported.

    Examples:
        >>> import cirq, jax, sympy
        >>> from qfleet.jax import QuantumConvolution
        >>> qubits = cirq.LineQubit.range(4)
        >>> names = [f"x{i}" for i in range(4)]
        >>> circuit = cirq.Circuit(cirq.ry(sympy.Symbol(x))(q) for x, q in zip(names, qubits))
        >>> layer = QuantumConvolution(circuit, names, [cirq.Z(qubits[0])], 2, stride=2)
        >>> parameters = layer.initial_parameters(jax.random.key(1))
        >>> layer(jax.numpy.zeros((5, 8, 8, 1)), parameters).shape
        (5, 4, 4, 1)
    """

    def __init__(
        self,
        circuits: cirq.AbstractCircuit | Sequence[cirq.AbstractCircuit],
        inputs: Iterable[str | sympy.Symbol],
        observables: Iterable[cirq.PauliSum | cirq.PauliString],
        kernel_size: int | Pair,
        *,
        stride: int | Pair = 1,
        dtype: DTypeLike = "complex64",
        device: str | None = None,
    ) -> None:
        self._grid = patch_grid(kernel_size, stride)
        every = one_or_several(circuits, "circuits")
        names, sums = checked_names(inputs, "inputs"), required_observables(observables)
        self.circuits = tuple(
            compile_circuit(one, names, observables=sums, dtype=dtype, device=device)
            for one in every
        )

    def initial_parameters(self, key: ArrayLike) -> tuple[jax.Array, ...]:
        """Return random parameters [P] of each circuit, uniform in [0, 2 pi).

        Args:
            key: A random key of JAX.

        Raises:
            LibraryError: The circuits need 64 bits, which are not enabled in JAX.
        """
        for compiled in self.circuits:
            check_precision(compiled)
        keys = jax.random.split(key, len(self.circuits))
        return tuple(
            jax.random.uniform(one, (len(compiled.parameters),), compiled.real_dtype, 0, 2 * jnp.pi)
            for one, compiled in zip(keys, self.circuits, strict=True)
        )

    def __call__(
        self, images: ArrayLike, parameters: Sequence[ArrayLike | None] | None = None
    ) -> jax.Array:
        """Compute expectation values, differentiable as `qfleet.jax.expectation`.

        Args:
            images: [..., H, W, C], in the unit of the circuits' inputs.
            parameters: [P] values of the parameters of each circuit, in the circuits' order; None
                if no circuit has parameters.

        Returns:
            [..., H', W', channels]: float32 for complex64, float64 for complex128.

        Raises:
            ArgumentError: The images do not divide into patches, or have other channels than the
                circuits have inputs for; or the parameters do not fit.
        """
        if parameters is None:
            parameters = [None] * len(self.circuits)
        if len(given := _SEQUENCE(parameters, "parameters")) != len(self.circuits):
            raise ArgumentError(
                f"parameters has length {len(given)}: pass an array for each of the"
                f" {len(self.circuits)} circuits"
            )
        array = _images(images)
        *lead, height, width, channels = array.shape
        names, move = len(self.circuits[0].inputs), "jax.numpy.moveaxis(images, -3, -1)"
        check_images(self._grid, names, array.shape, CHANNELS_LAST, move)
        rows, columns = self._grid.places(height, width)
        patches = jnp.take(array, rows, axis=-3)  # [..., H', rows, W, C]
        patches = jnp.take(patches, columns, axis=-2)  # [..., H', rows, W', columns, C]
        shape = *lead, len(rows), len(columns)
        flat = jnp.swapaxes(patches, -4, -3).reshape(math.prod(shape), self._grid.pixels * channels)
        values = [
            expectation(compiled, flat, shared)
            for compiled, shared in zip(self.circuits, given, strict=True)
        ]
        joined = jnp.concatenate(values, axis=-1)
        return joined.reshape(*shape, joined.shape[-1])


def _images(images: ArrayLike) -> jax.Array:
    try:
        array = jnp.asarray(images)
    except (TypeError, ValueError):
        raise ArgumentError(f"images is {shown(images)}: pass an array of numbers") from None
    if array.ndim < 3:
        raise ArgumentError(
            f"images have shape {list(array.shape)}: pass [..., height, width, channels]"
        )
    return array
