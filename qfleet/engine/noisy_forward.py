"""Values of a noisy circuit with the gradients of the circuit without noise."""

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import instance
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.gradients import Gradients
from qfleet.engine.sampled_forward import SampledForward
from qfleet.errors import ArgumentError

Upstream = ArrayLike | Callable[[np.ndarray], ArrayLike]
"""Derivative of a loss by the values, or a function of the values that returns it."""


@final
class NoisyForward:
    """Joins the values of one circuit with the gradients of another, for robust training.

    A loss that is not linear in the values then has an estimated gradient: its derivative by the
    noisy values, times the derivative of the values without noise.

    Wang et al., "RobustState" (arXiv:2311.16035).

    Args:
        forward: Gives the values: a compiled circuit with noise, or a sampler.
        backward: Gives the gradients: the compiled circuit without noise.

    Raises:
        ArgumentError: One has the wrong type, or they differ in their symbols, or in the number of
            observables.
    """

    def __init__(
        self, forward: CompiledCircuit | SampledForward, backward: CompiledCircuit
    ) -> None:
        instance(CompiledCircuit | SampledForward, "a circuit or sampler")(forward, "forward")
        instance(CompiledCircuit, "a compiled circuit")(backward, "backward")
        for name in ("inputs", "parameters", "readouts"):
            first, second = getattr(forward, name), getattr(backward, name)
            if first != second:
                raise ArgumentError(
                    f"{name} is {first} in forward and {second} in backward: pass two circuits with"
                    " the same symbols and observables"
                )
        self._forward, self._backward = forward, backward

    def expectation(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the values [B, K], or [K] for one example, of `forward`."""
        return self._forward.expectation(inputs, parameters)

    def value_and_gradient(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        upstream: Upstream,
        *,
        input_gradients: bool = True,
    ) -> tuple[np.ndarray, Gradients]:
        """Compute the values of `forward`, and the gradient of sum(upstream * backward values).

        Args:
            inputs: As for `CompiledCircuit.expectation`.
            parameters: As for `CompiledCircuit.expectation`.
            upstream: Of the shape of the values, or a function of the values.
            input_gradients: False if gradients by inputs are not wanted.
        """
        values = self.expectation(inputs, parameters)
        weights = upstream(values) if callable(upstream) else upstream
        gradients = self._backward.vjp(inputs, parameters, weights, input_gradients=input_gradients)
        return values, gradients
