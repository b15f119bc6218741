"""Results of differentiation, and what a forward pass keeps for it."""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from qfleet.engine.exponent_program import ExponentProgram


class _BySymbols(NamedTuple):
    inputs: np.ndarray | None
    parameters: np.ndarray


class Gradients(_BySymbols):
    """Derivatives of a real number by the symbols of a circuit, float64: a pair.

    Args:
        inputs: As the attribute.
        parameters: As the attribute.
        initial_states: As the attribute.

    Attributes:
        inputs: [B, I], or [I] for one example; None if they are not wanted.
        parameters: [P], summed over the batch.
        initial_states: [B, 2**N] of the states' dtype, dL/dRe + i dL/dIm; or [2**N] for one
            example; of the shape of density matrices if the states are such. None if they are not
            wanted, or the circuit does not take any. They are not part of the pair.
    """

    initial_states: np.ndarray | None

    def __new__(
        cls,
        inputs: np.ndarray | None,
        parameters: np.ndarray,
        initial_states: np.ndarray | None = None,
    ) -> Self:
        """Return the gradients."""
        gradients = super().__new__(cls, inputs, parameters)
        gradients.initial_states = initial_states
        return gradients


@dataclass(frozen=True)
class Residuals:
    """States of a forward pass, which its gradient needs.

    Residuals belong to one circuit, its inputs and its parameters: `vjp` refuses them for others.

    Attributes:
        kept: States, as an array of real numbers without a meaning of its own. It may be copied and
            passed on, such as in a tensor; `dataclasses.replace` puts it back. Empty if the
            gradient evolves the states again.
        input_gradients: As for `CompiledCircuit.forward`.
        exponents: The shared and per-example exponents of the forward pass.
        program: The program that computed it.
        initial_states: As of `Point`.
    """

    kept: np.ndarray
    input_gradients: bool
    exponents: tuple[np.ndarray, np.ndarray] = field(repr=False)
    program: ExponentProgram = field(repr=False)
    initial_states: np.ndarray | None = field(default=None, repr=False)

    def belong_to(
        self,
        program: ExponentProgram,
        exponents: tuple[np.ndarray, np.ndarray],
        initial_states: np.ndarray | None,
    ) -> bool:
        """Return True if a forward pass of this program with these values made them.

        Args:
            program: The program of a gradient.
            exponents: Its shared and per-example exponents.
            initial_states: Its initial states, if it takes them.
        """
        own = self.initial_states
        if own is not initial_states and not np.array_equal(own, initial_states):  # type: ignore[arg-type]
            return False
        return self.program is program and all(map(np.array_equal, self.exponents, exponents))
