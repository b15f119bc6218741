"""Expectation values of noisy circuits by zero-noise extrapolation."""

from collections.abc import Callable, Iterable, Sequence

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet.argument_checks import checked, function
from qfleet.circuit_checks import CIRCUIT
from qfleet.circuits.folding import circuit_then_reverse, fold, join_zeros
from qfleet.engine.arguments import Observables, checked_names
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.extrapolation import extrapolate
from qfleet.zne_factors import check_factors, check_fit

Noise = Callable[[cirq.Circuit, int], cirq.Circuit]
"""Returns a folded circuit with noise. The second argument is the factor; `add_noise` repeats the
error of the readout by it: `lambda c, factor: add_noise(c, rates, qubits, readings=factor)`."""


class MitigatedCircuit:
    """A circuit that is compiled folded by each factor.

    A call evaluates all folded circuits for all examples. Each factor has a program of its own,
    since noise can't be switched on and off by example.

    Args:
        circuit: Unitary gates.
        noise: Adds the noise, to each folded circuit.
        inputs: As for `qfleet.compile`.
        parameters: As for `qfleet.compile`.
        observables: As for `qfleet.compile`.
        factors: Different odd numbers, by which the circuit is folded.
        fit: As for `qfleet.extrapolation.extrapolate`.
        dtype: As for `qfleet.compile`.

    Raises:
        ArgumentError: The circuit can't be folded by the factors; or as for `qfleet.compile`.
        CircuitError: As for `fold` and `qfleet.compile`.

    Examples:
        >>> import cirq, qfleet, sympy
        >>> qubit = cirq.LineQubit(0)
        >>> circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(qubit))
        >>> def noise(folded, factor):
        ...     return folded.with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.03)))
        >>> mitigated = qfleet.MitigatedCircuit(circuit, noise, ["x"], observables=cirq.Z(qubit))
        >>> mitigated.at_factors([[0.0]])[:, 0, 0].round(3).tolist()
        [0.96, 0.885, 0.815]
        >>> mitigated.expectation([[0.0]]).round(3).tolist()
        [[1.0]]
    """

    @checked(circuit=CIRCUIT, noise=function(2, "the folded circuit and its factor"))
    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        noise: Noise,
        inputs: Iterable[str | sympy.Symbol] = (),
        parameters: Iterable[str | sympy.Symbol] | None = None,
        observables: Observables = (),
        *,
        factors: Sequence[int] = (1, 3, 5),
        fit: str = "exponential",
        dtype: DTypeLike = "complex128",
    ) -> None:
        check_factors(factors)
        check_fit(fit)
        self.factors, self.fit = tuple(factors), fit
        names = (
            checked_names(inputs, "inputs"),
            None if parameters is None else checked_names(parameters, "parameters"),
        )

        def noisy(folded: cirq.Circuit, factor: int) -> cirq.AbstractCircuit:
            return CIRCUIT(noise(folded, factor), "the result of noise")

        self._folded = [
            compile_circuit(noisy(fold(circuit, one), one), *names, observables, dtype=dtype)
            for one in self.factors
        ]
        qubits = sorted(circuit.all_qubits())
        returned = noisy(circuit_then_reverse(circuit), 1) + join_zeros(qubits)
        self._returned = compile_circuit(returned, *names, cirq.Z(qubits[0]), dtype=dtype)

    def at_factors(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the expectation values with noise, by factor.

        Args:
            inputs: As for `CompiledCircuit.expectation`.
            parameters: As for `CompiledCircuit.expectation`.

        Returns:
            [F, B, K]; [F, K] for one example.
        """
        return np.stack([one.expectation(inputs, parameters) for one in self._folded])

    def expectation(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the expectation values extrapolated to zero noise.

        Args:
            inputs: As for `CompiledCircuit.expectation`.
            parameters: As for `CompiledCircuit.expectation`.

        Returns:
            [B, K]; [K] for one example.
        """
        return extrapolate(self.factors, self.at_factors(inputs, parameters), self.fit)

    def return_probability(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the probability of |0...0> after the circuit and its reverse, with noise.

        It is 1 without noise. Its square root estimates the fidelity of the circuit's state, which
        has half of the noise; without knowledge of the ideal values, it shows how far these are
        to be trusted.

        Args:
            inputs: As for `CompiledCircuit.expectation`.
            parameters: As for `CompiledCircuit.expectation`.

        Returns:
            [B]; a scalar for one example.
        """
        probability: np.ndarray = (1 + self._returned.expectation(inputs, parameters)[..., 0]) / 2
        return probability
