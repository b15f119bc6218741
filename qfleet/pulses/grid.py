"""The samples of a pulse in time."""

from dataclasses import dataclass

import numpy as np

from qfleet.argument_checks import instance, number
from qfleet.errors import ArgumentError

MAX_SAMPLES = 1_000_000
MIN_DT = 1e-6
"""Least sampling time in ns; times in seconds are below."""

_ROUNDING = 1e-9  # of a duration in samples


@dataclass(frozen=True)
class Grid:
    """The times of a pulse's samples: an amplitude is constant for `dt`.

    Attributes:
        duration: Length of the pulse in ns, a multiple of `dt`.
        dt: Sampling time in ns, such as 0.5.

    Raises:
        ArgumentError: The duration is not a multiple of `dt`, or a number is not positive, or `dt`
            is below MIN_DT, such as a time in seconds.
    """

    duration: float
    dt: float

    def __post_init__(self) -> None:
        for name in ("duration", "dt"):
            if number(getattr(self, name), name) <= 0:
                raise ArgumentError(f"{name} is {getattr(self, name)}: pass a time above 0 in ns")
        if self.dt < MIN_DT:
            raise ArgumentError(
                f"dt is {self.dt:g}, which looks like seconds: pass dt and duration in ns, such as"
                " 0.5"
            )
        ratio = self.duration / self.dt
        if not 0.5 <= ratio <= MAX_SAMPLES:
            raise ArgumentError(
                f"duration is {self.duration:g} ns and dt is {self.dt:g} ns: pass 1 to"
                f" {MAX_SAMPLES:,} samples"
            )
        if abs(ratio - round(ratio)) > _ROUNDING * ratio:
            raise ArgumentError(
                f"duration is {self.duration:g} ns, which is not a multiple of dt, {self.dt:g} ns:"
                f" pass {round(ratio) * self.dt:g} ns"
            )

    @property
    def samples(self) -> int:
        """Number of samples."""
        return round(self.duration / self.dt)

    @property
    def times(self) -> np.ndarray:
        """Middle of each sample in ns, [N] float64."""
        return (np.arange(self.samples) + 0.5) * self.dt


GRID = instance(Grid, "a Grid")
"""Check of an argument that has the samples."""
