"""Envelopes that are linear in their numbers: samples, and series of functions."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import integer
from qfleet.pulses.envelopes import Bound, Envelope, as_column


@dataclass(frozen=True)
class PiecewiseConstant(Envelope):
    """A number per sample, in rad/ns: the pulses of GRAPE (Khaneja et al. 2005)."""

    is_linear: ClassVar[bool] = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"sample_{at}" for at in range(self.grid.samples))

    def bounds(self, limit: float) -> list[Bound]:
        return [(-limit, limit)] * self.grid.samples

    def vjp(self, parameters: ArrayLike, upstream: np.ndarray) -> np.ndarray:
        self._checked(parameters)
        return upstream[:, 0].copy()

    def _sample(self, values: np.ndarray) -> np.ndarray:
        return values[:, np.newaxis].copy()

    def _jacobian(self, values: np.ndarray) -> np.ndarray:
        return np.eye(len(values))[:, np.newaxis]


class _Series(Envelope):
    """A sum of fixed functions with trained coefficients. Abstract."""

    is_linear: ClassVar[bool] = True
    terms: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(1, self.grid.samples)(self.terms, "terms")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"c{at + 1}" for at in range(self.terms))

    @property
    @abstractmethod
    def basis(self) -> np.ndarray:
        """The functions, [N, P]."""

    def _sample(self, values: np.ndarray) -> np.ndarray:
        return as_column(self.basis @ values)

    def _jacobian(self, values: np.ndarray) -> np.ndarray:
        return self.basis[:, np.newaxis]


@dataclass(frozen=True)
class CosineSeries(_Series):
    """u(t) = sum_n c_n (1 - cos(2 pi n t / T)) / 2, with c_n in rad/ns: 0 at both ends.

    The series of Martinis and Geller 2014 (arXiv:1402.5467).

    Args:
        grid: The samples; T is their duration.
        terms: Number of terms.
    """

    terms: int = 4

    def bounds(self, limit: float) -> list[Bound]:
        return [(-limit / self.terms, limit / self.terms)] * self.terms

    @cached_property
    def basis(self) -> np.ndarray:
        """The functions, [N, P]."""
        orders = np.arange(1, self.terms + 1)
        turns = np.outer(self.grid.times / self.grid.duration, orders)
        return (1 - np.cos(2 * math.pi * turns)) / 2


@dataclass(frozen=True)
class BSplineSeries(_Series):
    """u(t) = sum_n c_n B_n(t) of cubic B-splines, with c_n in rad/ns: 0 at both ends.

    The knots are uniform, and no amplitude exceeds the largest c_n (de Boor, A Practical Guide to
    Splines, 1978).

    Args:
        grid: The samples.
        terms: Number of splines.
    """

    terms: int = 8

    def bounds(self, limit: float) -> list[Bound]:
        return [(-limit, limit)] * self.terms

    @cached_property
    def basis(self) -> np.ndarray:
        """The functions, [N, P]."""
        knots = self.terms + 3
        place = self.grid.times / self.grid.duration * knots
        x = np.abs(place[:, np.newaxis] - np.arange(self.terms) - 2)  # from a spline's middle
        inner = 2 / 3 - x**2 + x**3 / 2
        return np.where(x < 1, inner, np.clip(2 - x, 0, None) ** 3 / 6)
