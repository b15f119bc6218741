"""Patches of images: their positions, for layers that apply a circuit to each patch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qfleet.argument_checks import integer, items, shown
from qfleet.errors import ArgumentError

Pair = tuple[int, int]
"""Rows and columns."""

CHANNELS_FIRST, CHANNELS_LAST = "channels, height, width", "height, width, channels"
"""Orders of the last axes of images."""

_EACH = items(integer(1), "an integer, or two of them: rows and columns")


class PatchGrid(NamedTuple):
    """Patches of one size at regular distances.

    Attributes:
        size: Rows and columns of a patch.
        stride: Rows and columns from one patch to the next.
    """

    size: Pair
    stride: Pair

    @property
    def pixels(self) -> int:
        """Pixels of a patch."""
        return self.size[0] * self.size[1]

    def counts(self, height: int, width: int) -> Pair:
        """Return the rows and columns of patches of an image.

        Args:
            height: Rows of the image.
            width: Columns of the image.

        Raises:
            ArgumentError: The image is smaller than a patch, or pixels would be left over.
        """
        if problem := self._problem(height, width):
            raise ArgumentError(problem)
        (rows, columns), (down, right) = self
        return (height - rows) // down + 1, (width - columns) // right + 1

    def _problem(self, height: int, width: int) -> str:
        """Return why patches do not cover an image; empty if they do."""
        for axis, length, size, stride in zip(
            ("height", "width"), (height, width), *self, strict=True
        ):
            steps, rest = divmod(length - size, stride)
            if steps < 0 or rest:
                least = size + max(steps, 0) * stride
                return (
                    f"images have the {axis} {length}, which patches of {size} pixels with stride"
                    f" {stride} do not cover: crop or pad it to {least} or {least + stride}"
                )
        return ""

    def misfit(self, names: int, height: int, width: int, channels: int) -> str:
        """Return why images do not fit a circuit; empty if they do.

        Args:
            names: Number of the circuit's inputs.
            height: Rows of an image.
            width: Columns of an image.
            channels: Channels of an image.
        """
        if problem := self._problem(height, width):
            return problem
        rows, columns = self.size
        numbers = self.pixels * channels
        if names == numbers:
            return ""
        return (
            f"inputs has {names} names: a patch of {rows} x {columns} pixels with {channels}"
            f" channels has {numbers} numbers"
        )

    def places(self, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and the columns of the patches' pixels in an image.

        Args:
            height: Rows of the image.
            width: Columns of the image.

        Returns:
            int64 [rows of patches, rows of a patch] and [columns of patches, columns of a patch].

        Raises:
            ArgumentError: As for `counts`.
        """
        rows, columns = (
            stride * np.arange(count)[:, None] + np.arange(size)
            for count, size, stride in zip(self.counts(height, width), *self, strict=True)
        )
        return rows, columns


def patch_grid(kernel_size: int | Pair, stride: int | Pair) -> PatchGrid:
    """Check the size and the distance of patches.

    Args:
        kernel_size: Rows and columns of a patch, or one number for both.
        stride: Rows and columns from one patch to the next, or one number for both.

    Raises:
        ArgumentError: A number is not positive, or there are not two of them.
    """
    return PatchGrid(_pair(kernel_size, "kernel_size"), _pair(stride, "stride"))


def check_images(grid: PatchGrid, names: int, shape: Sequence[int], order: str, move: str) -> None:
    """Check that images divide into patches, and that a circuit has an input for each number.

    Args:
        grid: The patches.
        names: Number of the circuit's inputs.
        shape: Shape of the images, of at least three axes.
        order: CHANNELS_FIRST or CHANNELS_LAST.
        move: Call that moves the channels there.

    Raises:
        ArgumentError: They do not.
    """
    first, second, third = shape[-3:]
    other, sizes, swapped = CHANNELS_FIRST, (first, second, third), (second, third, first)
    if order == CHANNELS_FIRST:
        other, sizes, swapped = CHANNELS_LAST, swapped, sizes
    problem = grid.misfit(names, *sizes)
    if not problem:
        return
    if not grid.misfit(names, *swapped):
        raise ArgumentError(
            f"images have shape {list(shape)}, which fits as [..., {other}]: pass [..., {order}],"
            f" for example {move}"
        )
    raise ArgumentError(f"{problem}; images of shape {list(shape)} are read as [..., {order}]")


def _pair(value: object, name: str) -> Pair:
    if isinstance(value, tuple | list):
        found = _EACH(value, name)
        if len(found) != 2:
            raise ArgumentError(f"{name} is {shown(value)}: pass an integer, or two of them")
        return found[0], found[1]
    one = integer(1)(value, name)
    return one, one
