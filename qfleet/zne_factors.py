"""Factors of zero-noise extrapolation, written as `1,3,5`. Imports no package."""

from collections.abc import Sequence

from qfleet.argument_checks import shown
from qfleet.errors import ArgumentError

FITS = ("exponential", "richardson", "linear")
"""Fits of `qfleet.extrapolation`."""

LEAST_FACTORS = 2
"""Values that each fit needs."""

MAX_FACTOR = 99


def parse_factors(text: str) -> tuple[int, ...]:
    """Read factors of a folded circuit: 1, the circuit as it is, and others.

    Args:
        text: Odd numbers separated by commas, in any order.

    Returns:
        The factors in ascending order.

    Raises:
        ArgumentError: See `check_factors`; or 1 is missing.
    """
    try:
        factors = sorted(int(one) for one in text.split(","))
    except ValueError:
        raise ArgumentError(f"{text!r} is not a list of numbers: write 1,3,5") from None
    check_factors(factors)
    if factors[0] != 1:
        raise ArgumentError("1 is missing, the circuit as it is: write 1,3,5")
    return tuple(factors)


def check_factors(factors: object) -> None:
    """Check that circuits can be folded by factors, and that a fit can use the values.

    Raises:
        ArgumentError: A factor is even, out of range or given twice, or there are too few.
    """
    if isinstance(factors, str) or not isinstance(factors, Sequence):
        raise ArgumentError(f"factors is {shown(factors)}: pass a sequence such as (1, 3, 5)")
    for factor in factors:
        check_factor(factor)
        if list(factors).count(factor) > 1:
            raise ArgumentError(f"the factor {factor} is given twice: give each factor once")
    if len(factors) < LEAST_FACTORS:
        raise ArgumentError(
            f"a fit needs {LEAST_FACTORS} factors or more, but there are {len(factors)}: write 1,3"
            " or 1,3,5"
        )


def check_fit(fit: object) -> None:
    """Check the name of a fit.

    Raises:
        ArgumentError: It is not one of FITS.
    """
    if not isinstance(fit, str) or fit not in FITS:
        raise ArgumentError(f"fit is {shown(fit)}: use {', '.join(FITS)}")


def check_factor(factor: object) -> None:
    """Check that circuits can be folded by a factor.

    Raises:
        ArgumentError: It is even or out of range.
    """
    if (
        not isinstance(factor, int)
        or isinstance(factor, bool)
        or factor % 2 == 0
        or not 1 <= factor <= MAX_FACTOR
    ):
        raise ArgumentError(
            f"the factor {shown(factor)} can't be folded: use odd numbers from 1 to"
            f" {MAX_FACTOR}, since a fold adds the reversed circuit and the circuit"
        )
