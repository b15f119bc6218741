"""Extrapolation of expectation values to zero noise.

    exponential   a exp(-b factor), by least squares of the logarithms: values decay to 0, that of a
                  Pauli word in the maximally mixed state
    richardson    the polynomial through all values (Temme, Bravyi and Gambetta, arXiv:1612.02058)
    linear        the line with the least squares

Giurgica-Tiron et al. (arXiv:2005.10921) compare them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qfleet.engine.arguments import checked_array, checked_values
from qfleet.errors import ArgumentError
from qfleet.zne_factors import LEAST_FACTORS, check_fit

MAX_GAIN = 2.0
"""Largest ratio of the exponential fit to the linear one. Above, a value is mostly random."""


def extrapolate(
    factors: Sequence[float], values: ArrayLike, fit: str = "exponential"
) -> np.ndarray:
    """Return the values at factor 0.

    The exponential fit needs values of one sign. Where they are not, and where it is more than
    MAX_GAIN times the linear fit, the result is that of the linear fit.

    Args:
        factors: F different factors of the noise.
        values: [F, ...] expectation values by factor.
        fit: One of FITS.

    Returns:
        float64 [...].

    Raises:
        ArgumentError: There are fewer than two factors, or repeated ones, or another number of
            values; a number is not finite; or the fit is unknown. The message names the argument.
    """
    x = checked_values(factors, ("F",), "factors", because="values differ by factor")
    if len(x) < LEAST_FACTORS or len(set(x)) < len(x):
        raise ArgumentError(
            f"factors are {x.tolist()}: pass {LEAST_FACTORS} different factors or more"
        )
    y = checked_array(values, "values")
    if y.shape[:1] != x.shape:
        raise ArgumentError(
            f"values has shape {list(y.shape)}: pass an array [{len(x)}, ...], one for each factor"
        )
    y = checked_values(y, y.shape, "values", because="")
    check_fit(fit)
    if fit == "richardson":
        return np.tensordot(_lagrange_weights(x), y, 1)
    line = np.tensordot(_line_weights(x), y, 1)
    return line if fit == "linear" else _exponential(x, y, line)


def _lagrange_weights(x: np.ndarray) -> np.ndarray:
    """Return the weights of values in the polynomial through them, at 0."""
    return np.array([np.prod([b / (b - a) for b in x if b != a]) for a in x])


def _line_weights(x: np.ndarray) -> np.ndarray:
    """Return the weights of values in the line with the least squares, at 0."""
    weights: np.ndarray = np.linalg.pinv(np.vander(x, 2))[1]
    return weights


def _exponential(x: np.ndarray, y: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Return the exponential fit where there is one, and else the line."""
    sizes = np.abs(y)
    fits = (np.sign(y) == np.sign(y[0])).all(axis=0) & (sizes > 0).all(axis=0)
    safe = np.where(fits, sizes, 1.0)
    # A logarithm has the error of its value divided by the value.
    weights = safe**2
    x = x.reshape(-1, *[1] * (y.ndim - 1))
    mean = (weights * x).sum(axis=0) / weights.sum(axis=0)
    logs, centred = np.log(safe), x - mean
    slope = (weights * centred * logs).sum(axis=0) / (weights * centred**2).sum(axis=0)
    start = (weights * logs).sum(axis=0) / weights.sum(axis=0) - slope * mean
    limit = MAX_GAIN * np.abs(line)
    fits &= start <= np.log(np.maximum(limit, np.finfo(float).tiny))
    return np.where(fits, np.sign(y[0]) * np.exp(np.where(fits, start, 0.0)), line)
