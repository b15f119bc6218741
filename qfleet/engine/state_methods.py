"""State vectors of a compiled circuit, their gradients, and samples."""

import secrets

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import flag, integer
from qfleet.engine import arguments, memory
from qfleet.engine.basis_states import bits_of
from qfleet.engine.gradients import Gradients
from qfleet.engine.prepared_circuit import PreparedCircuit
from qfleet.errors import ArgumentError

_MAX_SEED = 2**64 - 1
MAX_SHOTS = 2**40
_INDEX_BYTES = 8


class StateMethods(PreparedCircuit):
    """State vectors and samples. Abstract."""

    def state(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        *,
        initial_states: ArrayLike | None = None,
    ) -> np.ndarray:
        """Compute the state vectors, global phase included.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            initial_states: As for `expectation`.

        Returns:
            `[B, 2**N]` of `dtype`; `[2**N]` for one example.
        """
        self._require_state("state")
        point = self._point(inputs, parameters, initial_states)
        states = self.program.state(*self.symbols(*point.symbols), initial=point.initial())
        return point.result(states)

    def state_vjp(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        upstream: ArrayLike,
        *,
        input_gradients: bool = True,
        initial_states: ArrayLike | None = None,
        state_gradients: bool = False,
    ) -> Gradients:
        """Compute the gradient of a real function L of the states.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            upstream: `[B, 2**N]` complex, or `[2**N]` for one example: dL/dRe + i dL/dIm. This is
                the convention of TensorFlow and PyTorch; JAX has the complex conjugate.
            input_gradients: False if gradients by inputs are not wanted.
            initial_states: As for `expectation`.
            state_gradients: True if gradients by the initial states are wanted.
        """
        return self.gradient_of_states(
            *(inputs, parameters, upstream, None),
            input_gradients=input_gradients,
            initial_states=initial_states,
            state_gradients=state_gradients,
        )

    def gradient_of_states(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        upstream: ArrayLike,
        states: ArrayLike | None,
        *,
        input_gradients: bool,
        initial_states: ArrayLike | None = None,
        state_gradients: bool = False,
    ) -> Gradients:
        """Do what `state_vjp` does, for adapters that keep the states of the forward pass.

        Args:
            inputs: As for `state_vjp`; also the others.
            parameters: As for `expectation`.
            upstream: Derivatives by the states.
            states: Result of `state` for the same arguments, which cannot be checked.
            input_gradients: False if gradients by inputs are not wanted.
            initial_states: As for `state_vjp`.
            state_gradients: As for `state_vjp`.
        """
        self._require_state("state_vjp")
        input_gradients = flag(input_gradients, "input_gradients")
        point = self._point(inputs, parameters, initial_states)
        initial = point.initial(flag(state_gradients, "state_gradients"))
        exponents = self.symbols(*point.symbols)
        upstream = point.states(upstream, len(self.qubits), "upstream")
        arguments.require_finite(upstream, "upstream")
        if states is None:
            states = self.program.state(*exponents, initial=point.initial())
        else:
            states = point.states(states, len(self.qubits), "states")
        changes = self.program.state_gradient(
            *exponents,
            states,
            upstream,
            per_example_gradients=input_gradients or self.symbols.mixed,
            initial=initial,
        )
        return self._gradients(point, changes, input_gradients, initial)

    def sample(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        shots: int,
        seed: int | None = None,
        *,
        initial_states: ArrayLike | None = None,
    ) -> np.ndarray:
        """Measure all qubits.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            shots: Measurements per example.
            seed: From 0 to 2**64 - 1. The same seed gives the same samples, on any number of
                threads; another one is drawn for each call unless given.
            initial_states: As for `expectation`.

        Returns:
            [B, shots, N] uint8 bits, the columns in the order of `qubits`; [shots, N] for one
            example.
        """
        self._require_state("sample")
        shots = integer(0, MAX_SHOTS)(shots, "shots")
        if seed is None:
            seed = secrets.randbits(64)
        seed = integer(0, _MAX_SEED)(seed, "seed")
        point = self._point(inputs, parameters, initial_states)
        width, examples = len(self.qubits), len(point.inputs)
        size = examples * shots * (2 * _INDEX_BYTES + width)
        memory.require_bytes(
            size,
            f"samples of {examples} examples with shots={shots}",
            "use fewer shots, a smaller batch or a machine with more memory",
        )
        exponents = self.symbols(*point.symbols)
        indices = self.program.sample(*exponents, shots, seed, initial=point.initial())
        return point.result(bits_of(indices, width))

    def _require_state(self, method: str) -> None:
        if self.readouts:
            raise ArgumentError(
                f"{method}() needs all qubits, but this circuit is compiled for its observables"
                " only: compile it with observables=()"
            )
