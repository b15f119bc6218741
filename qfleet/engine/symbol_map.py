"""The map from the values of symbols to the exponents of gates, and its derivatives, in NumPy.

Nearly every exponent is `coefficient * symbol + offset`. These are evaluated together: one product
with a sparse matrix. Other expressions are evaluated together if they differ in their symbols only.
"""

from collections.abc import Sequence

import numpy as np
import sympy

from qfleet.compiler.circuit import expressions
from qfleet.engine.function_map import exponent_map


class SymbolMap:
    """The exponents of a serialized program as functions of inputs and parameters.

    Args:
        shared: E expressions of parameters only.
        per_example: F expressions with an input; they may contain parameters, too.
        inputs: Names of the I inputs.
        parameters: Names of the P parameters.

    Attributes:
        shared: The E expressions.
        per_example: The F expressions.
        mixed: True if a per-example exponent contains a parameter. The gradient by that parameter
            then needs the gradients by these exponents.
        affine: True if all expressions are affine: then second derivatives are zero.
        scales_inputs: True if each per-example exponent is one symbol times a number.
    """

    def __init__(
        self,
        shared: Sequence[sympy.Expr],
        per_example: Sequence[sympy.Expr],
        inputs: Sequence[str],
        parameters: Sequence[str],
    ) -> None:
        self.shared, self.per_example = tuple(shared), tuple(per_example)
        self._inputs, self._parameters = tuple(inputs), tuple(parameters)
        used = expressions.used_names(self.per_example, self._parameters)
        self.mixed = bool(used)
        position = {name: at for at, name in enumerate(self._parameters)}
        self._used = np.array([position[name] for name in used], np.intp)
        self._of_shared = exponent_map(self.shared, self._parameters)
        self._of_examples = exponent_map(self.per_example, (*self._inputs, *used))
        self.affine = self._of_shared.affine and self._of_examples.affine
        self.scales_inputs = self._of_examples.is_scaling

    def __reduce__(self) -> tuple[object, ...]:
        return SymbolMap, (self.shared, self.per_example, self._inputs, self._parameters)

    def __call__(self, inputs: np.ndarray, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the exponents.

        Args:
            inputs: [B, I] float64.
            parameters: [P] float64.

        Returns:
            [E] and [B, F] float64 exponents. They may be the arguments themselves.

        Raises:
            ArgumentError: An expression has no finite value, such as a logarithm below 0.
        """
        rows = self._rows(inputs, parameters)
        return self._of_shared(parameters), self._of_examples(rows)

    def pushforward(
        self,
        inputs: np.ndarray,
        parameters: np.ndarray,
        input_tangents: np.ndarray,
        parameter_tangents: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tangents [E] and [B, F] of the exponents.

        Args:
            inputs: [B, I] float64.
            parameters: [P] float64.
            input_tangents: [B, I] float64.
            parameter_tangents: [P] float64.
        """
        rows = self._rows(inputs, parameters)
        tangents = self._rows(input_tangents, parameter_tangents)
        shared, per_example = self._of_shared, self._of_examples
        return (
            shared.push(shared.derivatives(parameters), parameter_tangents),
            per_example.push(per_example.derivatives(rows), tangents),
        )

    def pullback(
        self,
        inputs: np.ndarray,
        parameters: np.ndarray,
        shared_gradients: np.ndarray,
        per_example_gradients: np.ndarray | None,
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the gradients by inputs and parameters, given those by the exponents.

        Args:
            inputs: [B, I] float64.
            parameters: [P] float64.
            shared_gradients: [E] float64.
            per_example_gradients: [B, F] float64; None if they are not known.

        Returns:
            [B, I], None without per-example gradients; [P].
        """
        shared = self._of_shared
        by_parameters = shared.pull(shared.derivatives(parameters), shared_gradients)
        if per_example_gradients is None:
            return None, by_parameters
        rows = self._rows(inputs, parameters)
        per_example = self._of_examples
        by_rows = per_example.pull(per_example.derivatives(rows), per_example_gradients)
        return self._split(by_rows, by_parameters)

    def second_pullback(
        self,
        inputs: np.ndarray,
        parameters: np.ndarray,
        input_tangents: np.ndarray,
        parameter_tangents: np.ndarray,
        shared_gradients: np.ndarray,
        per_example_gradients: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the directional derivative of `pullback`, with the exponents' gradients fixed.

        Args:
            inputs: [B, I] float64.
            parameters: [P] float64.
            input_tangents: [B, I] float64 direction.
            parameter_tangents: [P] float64 direction.
            shared_gradients: [E] float64.
            per_example_gradients: [B, F] float64.

        Returns:
            [B, I] and [P].
        """
        shared, per_example = self._of_shared, self._of_examples
        change = shared.second_derivatives(parameters, parameter_tangents)
        by_parameters = shared.pull(change, shared_gradients)
        rows = self._rows(inputs, parameters)
        tangents = self._rows(input_tangents, parameter_tangents)
        change = per_example.second_derivatives(rows, tangents)
        return self._split(per_example.pull(change, per_example_gradients), by_parameters)

    def _rows(self, inputs: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return the values [B, V] of all symbols of the per-example exponents."""
        if not self.mixed:
            return inputs
        used = parameters[self._used]
        return np.concatenate([inputs, np.broadcast_to(used, (len(inputs), len(used)))], axis=1)

    def _split(
        self, by_rows: np.ndarray, by_parameters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return gradients by inputs and parameters, given those by `_rows` and shared ones."""
        if not self.mixed:
            return by_rows, by_parameters
        width = len(self._inputs)
        by_parameters = by_parameters.copy()
        by_parameters[self._used] += by_rows[:, width:].sum(axis=0)
        return np.ascontiguousarray(by_rows[:, :width]), by_parameters
