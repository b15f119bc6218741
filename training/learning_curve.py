"""A learning curve of one line of text, which stays on the terminal when the progress bar ends."""

from collections.abc import Sequence

WIDTH = 48
"""Most characters of a curve."""

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-~=+*#"
"""The same from low to high, where the terminal's encoding has no blocks."""


def curve(values: Sequence[float], *, ascii_only: bool = False, width: int = WIDTH) -> str:
    """Return values as characters of different heights, the lowest value as the lowest one.

    Args:
        values: One value or more. Each character shows the mean of as many values as the others.
        ascii_only: Use ASCII.
        width: Most characters.
    """
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    count = min(width, len(values))
    ends = [len(values) * (i + 1) // count for i in range(count)]
    means = [
        sum(values[start:end]) / (end - start) for start, end in zip([0, *ends], ends, strict=False)
    ]
    low, high = min(means), max(means)
    scale = (len(blocks) - 1) / (high - low) if high > low else 0.0
    return "".join(blocks[round(scale * (mean - low))] for mean in means)


def describe(name: str, values: Sequence[float], *, ascii_only: bool = False) -> str:
    """Return the curve between the first and the last value."""
    drawn = curve(values, ascii_only=ascii_only)
    return f"{name} {values[0]:.4g} {drawn} {values[-1]:.4g}"
