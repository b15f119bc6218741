"""Names of encoder placements and data symbols; needs no Cirq, so that reading data stays fast."""

from typing import Literal, get_args

from qfleet.argument_checks import checked, integer

EncoderPlacement = Literal["cluster", "angle", "reupload", "amplitude"]
PLACEMENTS: tuple[EncoderPlacement, ...] = get_args(EncoderPlacement)
"""Allowed placements; `qfleet.circuits.encoders` describes them."""


@checked(features=integer(0))
def data_symbols(features: int) -> tuple[str, ...]:
    """Return the names of the data symbols, from x_00 on; they sort in the order of features."""
    width = max(2, len(str(features - 1)))
    return tuple(f"x_{i:0{width}d}" for i in range(features))
