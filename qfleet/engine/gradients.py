"""Results of differentiation, and what a forward pass keeps for it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Gradients(NamedTuple):
    """Derivatives of a real number by the symbols of a circuit, float64.

    Attributes:
        inputs: [B, I], or [I] for one example; None if they are not wanted.
        parameters: [P], summed over the batch.
    """

    inputs: np.ndarray | None
    parameters: np.ndarray


@dataclass(frozen=True)
class Residuals:
    """States of a forward pass, which its gradient needs.

    Attributes:
        kept: States, as an array of real numbers without a meaning of its own. It may be copied and
            passed on, such as in a tensor. Empty if the gradient evolves the states again.
        input_gradients: As for `CompiledCircuit.forward`.
        exponents: The shared and per-example exponents; None to compute them again.
    """

    kept: np.ndarray
    input_gradients: bool = True
    exponents: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
