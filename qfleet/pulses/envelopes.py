"""Shapes of amplitudes in time, with trained numbers and exact Jacobians; `series` has more."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import number
from qfleet.engine.arguments import checked_values
from qfleet.errors import ArgumentError
from qfleet.pulses.grid import GRID, Grid

Bound = tuple[float, float]


@dataclass(frozen=True)
class Envelope(ABC):
    """A shape with P numbers, for `width` channels. Abstract.

    Args:
        grid: The samples.

    Attributes:
        is_linear: True if the amplitudes are linear in the numbers.

    Raises:
        ArgumentError: `grid` is not a Grid, or a number is out of range.
    """

    is_linear: ClassVar[bool] = False
    grid: Grid

    def __post_init__(self) -> None:
        GRID(self.grid, "grid")

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the numbers, P."""

    @property
    def width(self) -> int:
        """Number of channels: 1, or 2 for I and Q."""
        return 1

    @abstractmethod
    def bounds(self, limit: float) -> list[Bound]:
        """Return the least and largest value of each number, P pairs.

        Args:
            limit: Largest amplitude in rad/ns. Within the bounds, in-phase amplitudes keep it.
        """

    def sample(self, parameters: ArrayLike) -> np.ndarray:
        """Return the amplitudes, [N, width] in rad/ns.

        Args:
            parameters: [P].

        Raises:
            ArgumentError: The array has another shape, or a number is not finite.
        """
        return self._sample(self._checked(parameters))

    def jacobian(self, parameters: ArrayLike) -> np.ndarray:
        """Return the derivative of the amplitudes by the numbers, [N, width, P].

        Args:
            parameters: [P].
        """
        return self._jacobian(self._checked(parameters))

    def vjp(self, parameters: ArrayLike, upstream: np.ndarray) -> np.ndarray:
        """Return the gradient of a loss L by the numbers, [P].

        Args:
            parameters: [P].
            upstream: [N, width], dL/damplitudes.
        """
        found: np.ndarray = np.einsum("nw,nwp->p", upstream, self.jacobian(parameters))
        return found

    @abstractmethod
    def _sample(self, values: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def _jacobian(self, values: np.ndarray) -> np.ndarray: ...

    def _checked(self, parameters: ArrayLike) -> np.ndarray:
        count = len(self.names)
        return checked_values(
            parameters, (count,), "parameters", because=f"a {type(self).__name__} has {count}"
        )


@dataclass(frozen=True)
class Gaussian(Envelope):
    """A Gaussian in the middle, lifted so that it is 0 at both ends.

        u(t) = amplitude (g(t) - g(0)) / (1 - g(0)),  g(t) = exp(-(t - T/2)^2 / (2 sigma^2))

    The numbers are `amplitude` in rad/ns and `sigma` in ns. (The lifted Gaussian of Qiskit Pulse.)
    """

    @property
    def names(self) -> tuple[str, ...]:
        return ("amplitude", "sigma")

    def bounds(self, limit: float) -> list[Bound]:
        return [(-limit, limit), self._widths]

    @property
    def _widths(self) -> Bound:
        return self.grid.dt, max(self.grid.duration, 2 * self.grid.dt)

    def _sample(self, values: np.ndarray) -> np.ndarray:
        return as_column(values[0] * self._shape(values[1])[0])

    def _jacobian(self, values: np.ndarray) -> np.ndarray:
        shape, by_sigma = self._shape(values[1])
        return np.stack([shape, values[0] * by_sigma], axis=-1)[:, np.newaxis]

    def _shape(self, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the shape and its derivative by sigma, [N] each."""
        _require_width(sigma)
        middle = self.grid.duration / 2
        x = self.grid.times - middle
        bell = np.exp(-(x**2) / (2 * sigma**2))
        edge = math.exp(-(middle**2) / (2 * sigma**2))
        by_bell, by_edge = bell * x**2 / sigma**3, edge * middle**2 / sigma**3
        shape = (bell - edge) / (1 - edge)
        return shape, (by_bell - by_edge) / (1 - edge) + (bell - edge) * by_edge / (1 - edge) ** 2


@dataclass(frozen=True)
class Drag(Gaussian):
    """A lifted Gaussian on I, and its derivative on Q, against leakage.

        Q(t) = -beta dI/dt / (2 pi anharmonicity)

    The numbers are `amplitude` in rad/ns, `sigma` in ns and `beta`, near 1 without a unit (Motzoi
    et al. 2009, arXiv:0901.0534).

    Args:
        grid: The samples.
        anharmonicity: Of the transmon, in GHz, such as -0.3.
    """

    anharmonicity: float = -0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1e-3 <= abs(number(self.anharmonicity, "anharmonicity")) <= 10:
            raise ArgumentError(f"anharmonicity is {self.anharmonicity:g}: pass GHz, such as -0.3")

    @property
    def names(self) -> tuple[str, ...]:
        return ("amplitude", "sigma", "beta")

    @property
    def width(self) -> int:
        return 2

    def bounds(self, limit: float) -> list[Bound]:
        return [*super().bounds(limit), (-4.0, 4.0)]

    def _sample(self, values: np.ndarray) -> np.ndarray:
        amplitude, sigma, beta = values
        slope = self._slope(sigma)[0]
        shapes = [amplitude * self._shape(sigma)[0], amplitude * beta * slope]
        return np.stack(shapes, axis=-1)

    def _jacobian(self, values: np.ndarray) -> np.ndarray:
        amplitude, sigma, beta = values
        (shape, by_sigma), (slope, slope_by_sigma) = self._shape(sigma), self._slope(sigma)
        in_phase = [shape, amplitude * by_sigma, np.zeros_like(shape)]
        quadrature = [beta * slope, amplitude * beta * slope_by_sigma, amplitude * slope]
        return np.stack([np.stack(in_phase, axis=-1), np.stack(quadrature, axis=-1)], axis=1)

    def _slope(self, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Return -dI/dt / (2 pi anharmonicity) of amplitude 1, and its derivative by sigma."""
        _require_width(sigma)
        middle = self.grid.duration / 2
        x = self.grid.times - middle
        bell = np.exp(-(x**2) / (2 * sigma**2))
        edge = math.exp(-(middle**2) / (2 * sigma**2))
        scale = 1 / (2 * math.pi * self.anharmonicity)
        slope = scale * x * bell / sigma**2 / (1 - edge)
        by_edge = edge * middle**2 / sigma**3
        return slope, slope * (x**2 / sigma**3 - 2 / sigma + by_edge / (1 - edge))


@dataclass(frozen=True)
class FlatTop(Envelope):
    """A constant amplitude with smooth edges, in the middle.

        u(t) = amplitude / 2 (erf((t - T/2 + width/2) / rise) - erf((t - T/2 - width/2) / rise))

    The numbers are `amplitude` in rad/ns, `width` (at half of the amplitude) and `rise` in ns. (The
    flat top of C3, Wittler et al. 2021, arXiv:2009.09866.)
    """

    @property
    def names(self) -> tuple[str, ...]:
        return ("amplitude", "width", "rise")

    def bounds(self, limit: float) -> list[Bound]:
        duration = self.grid.duration
        return [(-limit, limit), (0.0, duration), (self.grid.dt / 2, duration)]

    def _sample(self, values: np.ndarray) -> np.ndarray:
        amplitude, (left, right) = values[0], self._edges(values)
        return as_column(amplitude / 2 * (_erf(left) - _erf(right)))

    def _jacobian(self, values: np.ndarray) -> np.ndarray:
        amplitude, rise = values[0], values[2]
        left, right = self._edges(values)
        slopes = [2 / math.sqrt(math.pi) * np.exp(-(edge**2)) for edge in (left, right)]
        by_amplitude = (_erf(left) - _erf(right)) / 2
        by_width = amplitude / 2 * (slopes[0] + slopes[1]) / (2 * rise)
        by_rise = -amplitude / 2 * (slopes[0] * left - slopes[1] * right) / rise
        return np.stack([by_amplitude, by_width, by_rise], axis=-1)[:, np.newaxis]

    def _edges(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, width, rise = values
        if rise <= 0:
            raise ArgumentError(f"rise is {rise:g}: pass a time above 0 in ns")
        x = self.grid.times - self.grid.duration / 2
        return (x + width / 2) / rise, (x - width / 2) / rise


def as_column(values: np.ndarray) -> np.ndarray:
    """Return samples [N] as those of one channel, [N, 1]."""
    return values[:, np.newaxis]


def _require_width(sigma: float) -> None:
    if sigma <= 0:
        raise ArgumentError(f"sigma is {sigma:g}: pass a width above 0 in ns")


def _erf(values: np.ndarray) -> np.ndarray:
    return np.array([math.erf(one) for one in values])
