"""Patches of images: their positions, for layers that apply a circuit to each patch."""

from typing import NamedTuple

import numpy as np

from qfleet.argument_checks import integer, items, shown
from qfleet.errors import ArgumentError

Pair = tuple[int, int]
"""Rows and columns."""

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
        found = []
        for axis, length, size, stride in zip(
            ("height", "width"), (height, width), *self, strict=True
        ):
            steps, rest = divmod(length - size, stride)
            if steps < 0 or rest:
                least = size + max(steps, 0) * stride
                raise ArgumentError(
                    f"images have the {axis} {length}, which patches of {size} pixels with stride"
                    f" {stride} do not cover: crop or pad it to {least} or {least + stride}"
                )
            found.append(steps + 1)
        return found[0], found[1]

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


def check_inputs(names: int, grid: PatchGrid, channels: int) -> None:
    """Check that a circuit has an input for each number of a patch.

    Args:
        names: The circuit's inputs.
        grid: The patches.
        channels: Channels of the images.

    Raises:
        ArgumentError: It has more or fewer.
    """
    if names != grid.pixels * channels:
        rows, columns = grid.size
        raise ArgumentError(
            f"inputs has {names} names: a patch of {rows} x {columns} pixels with {channels}"
            f" channels has {grid.pixels * channels} numbers"
        )


def _pair(value: object, name: str) -> Pair:
    if isinstance(value, tuple | list):
        found = _EACH(value, name)
        if len(found) != 2:
            raise ArgumentError(f"{name} is {shown(value)}: pass an integer, or two of them")
        return found[0], found[1]
    one = integer(1)(value, name)
    return one, one
