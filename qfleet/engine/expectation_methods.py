"""Expectation values of a compiled circuit and their derivatives."""

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import flag
from qfleet.engine.gradients import Gradients, Residuals
from qfleet.engine.prepared_circuit import PreparedCircuit
from qfleet.errors import ArgumentError


class ExpectationMethods(PreparedCircuit):
    """Expectation values and their derivatives. Abstract."""

    def expectation(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        *,
        initial_states: ArrayLike | None = None,
    ) -> np.ndarray:
        """Compute the expectation values of the observables.

        Args:
            inputs: [B, I], or [I] for one example; None if there are no inputs.
            parameters: [P]; None if there are no parameters.
            initial_states: [B, 2**N] real or complex, or [2**N] for one example, of norm 1, to
                1e-4; only for a circuit that is compiled with `initial_states=True`. With the
                method "density_matrix" also density matrices [B, 2**N, 2**N], or [2**N, 2**N] for
                one example with inputs: Hermitian, positive, of trace 1.

        Returns:
            [B, K] of `real_dtype`; [K] for one example.
        """
        self._require_observables()
        point = self._point(inputs, parameters, initial_states)
        values = self.program.expectation(
            *self.symbols(*point.symbols),
            allow_subspace=not self.symbols.mixed,
            initial=point.initial(),
        )
        return point.result(values)

    def value_and_gradient(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        upstream: ArrayLike | None = None,
        *,
        input_gradients: bool = True,
        initial_states: ArrayLike | None = None,
        state_gradients: bool = False,
    ) -> tuple[np.ndarray, Gradients]:
        """Compute expectation values, and the gradient of sum(upstream * values).

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            upstream: [B, K], or [K] for one example; all 1 unless given.
            input_gradients: False if gradients by inputs are not wanted, which may be faster.
            initial_states: As for `expectation`.
            state_gradients: True if gradients by the initial states are wanted.

        Returns:
            The values as of `expectation`, and the gradients.
        """
        self._require_observables()
        input_gradients = flag(input_gradients, "input_gradients")
        self._require_gradient_memory()
        point = self._point(inputs, parameters, initial_states)
        weights = point.weights(upstream, self.readouts)
        exponents = self.symbols(*point.symbols)
        initial = point.initial(flag(state_gradients, "state_gradients"))
        values, by_shared, by_example = self.program.value_and_gradient(
            *exponents,
            weights,
            per_example_gradients=input_gradients or self.symbols.mixed,
            allow_subspace=self._allow_subspace(input_gradients),
            initial=initial,
        )
        changes = by_shared, by_example
        return point.result(values), self._gradients(point, changes, input_gradients, initial)

    def forward(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        *,
        input_gradients: bool = True,
        initial_states: ArrayLike | None = None,
    ) -> tuple[np.ndarray, Residuals]:
        """Compute expectation values and keep the states for `vjp`.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            input_gradients: False if gradients by inputs are not wanted, which may be faster.
            initial_states: As for `expectation`.

        Returns:
            The values as of `expectation`, and what the gradient needs.
        """
        self._require_observables()
        input_gradients = flag(input_gradients, "input_gradients")
        point = self._point(inputs, parameters, initial_states)
        exponents = self.symbols(*point.symbols)
        values, kept = self.program.forward(
            *exponents,
            allow_subspace=self._allow_subspace(input_gradients),
            initial=point.initial(),
        )
        residuals = Residuals(kept, input_gradients, exponents, self.program, point.initial_states)
        return point.result(values), residuals

    def vjp(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        upstream: ArrayLike,
        *,
        residuals: Residuals | None = None,
        input_gradients: bool = True,
        overwrite_residuals: bool = False,
        initial_states: ArrayLike | None = None,
        state_gradients: bool = False,
    ) -> Gradients:
        """Compute the gradient of sum(upstream * values): a vector-Jacobian product.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            upstream: [B, K], or [K] for one example.
            residuals: Result of this circuit's `forward` for equal inputs and parameters. Without
                it, the states are evolved again.
            input_gradients: False if gradients by inputs are not wanted.
            overwrite_residuals: True if `residuals` is not used again, which saves a copy.
            initial_states: As for `expectation`.
            state_gradients: True if gradients by the initial states are wanted.

        Raises:
            ArgumentError: An argument has the wrong type or shape, or `residuals` are those of
                another circuit, of other inputs or of other parameters.
        """
        self._require_observables()
        input_gradients = flag(input_gradients, "input_gradients")
        overwrite_residuals = flag(overwrite_residuals, "overwrite_residuals")
        self._require_gradient_memory()
        point = self._point(inputs, parameters, initial_states)
        weights = point.weights(upstream, self.readouts)
        exponents = self.symbols(*point.symbols)
        initial = point.initial(flag(state_gradients, "state_gradients"))
        if residuals is None:
            nothing = np.empty(0, self.real_dtype)
            residuals = Residuals(nothing, input_gradients, exponents, self.program)
        elif not isinstance(residuals, Residuals):
            raise ArgumentError(f"residuals is a {type(residuals).__name__}: pass Residuals")
        elif residuals.kept.dtype != self.real_dtype or residuals.kept.ndim != 1:
            raise ArgumentError(
                f"residuals.kept is {residuals.kept.dtype}{list(residuals.kept.shape)}: pass the"
                " result of forward() of this circuit"
            )
        elif input_gradients and not residuals.input_gradients:
            raise ArgumentError(
                "residuals have no gradients by inputs: call forward() with input_gradients=True,"
                " or vjp() with input_gradients=False"
            )
        elif not residuals.belong_to(self.program, exponents, point.initial_states):
            raise ArgumentError(
                "residuals belong to another circuit, other inputs or other parameters: call"
                " forward() of this circuit with the inputs and parameters of vjp()"
            )
        changes = self.program.gradient(
            *exponents,
            weights,
            kept=residuals.kept if residuals.kept.size else None,
            overwrite_kept=overwrite_residuals,
            per_example_gradients=input_gradients or self.symbols.mixed,
            allow_subspace=self._allow_subspace(residuals.input_gradients),
            initial=initial,
        )
        return self._gradients(point, changes, input_gradients, initial)

    def hvp(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        upstream: ArrayLike | None = None,
        input_tangents: ArrayLike | None = None,
        parameter_tangents: ArrayLike | None = None,
        *,
        initial_states: ArrayLike | None = None,
    ) -> tuple[np.ndarray, Gradients]:
        """Compute directional derivatives of values and gradients: a Hessian-vector product.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            upstream: [B, K], or [K] for one example; all 1 unless given.
            input_tangents: Direction, of the shape of `inputs`; 0 unless given.
            parameter_tangents: [P] direction; 0 unless given.
            initial_states: As for `expectation`; they have no tangents.

        Returns:
            The derivative of the values, of the values' shape, and that of the gradients of
            sum(upstream * values).
        """
        self._require_observables()
        point = self._point(inputs, parameters, initial_states)
        weights = point.weights(upstream, self.readouts)
        tangents = point.tangents(input_tangents, parameter_tangents)
        exponents = self.symbols(*point.symbols)
        directions = self.symbols.pushforward(*point.symbols, *tangents)
        initial = point.initial()
        values, *changes = self.program.hvp(*exponents, *directions, weights, initial=initial)
        by_inputs, by_parameters = self.symbols.pullback(*point.symbols, *changes)
        assert by_inputs is not None
        if not self.symbols.affine:
            first = self.program.gradient(*exponents, weights, initial=initial)
            assert first[1] is not None
            more = self.symbols.second_pullback(*point.symbols, *tangents, first[0], first[1])
            by_inputs, by_parameters = by_inputs + more[0], by_parameters + more[1]
        return point.result(values), Gradients(point.result(by_inputs), by_parameters)

    def _allow_subspace(self, input_gradients: bool) -> bool:
        """Return True if no gradients by per-example exponents are needed."""
        return not input_gradients and not self.symbols.mixed

    def _require_observables(self) -> None:
        if not self.readouts:
            raise ArgumentError(
                "observables are missing: compile the circuit with the observables to read, or call"
                " state() or sample()"
            )
