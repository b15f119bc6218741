"""The projected kernel: distances of the one-qubit density matrices of two rows."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet.argument_checks import checked, number
from qfleet.circuit_checks import CIRCUIT
from qfleet.compiler.choose_method import Method
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.errors import ArgumentError
from qfleet.kernels.quantum_kernel import QuantumKernel


def _gamma(value: object, name: str) -> float:
    found = number(value, name)
    if found <= 0:
        raise ArgumentError(f"{name} is {found:g}: pass a positive number")
    return found


class ProjectedKernel(QuantumKernel):
    """The projected quantum kernel, exp(-gamma sum_k |rho_k(x) - rho_k(y)|**2).

    Huang et al., "Power of data in quantum machine learning" (arXiv:2011.01938). rho_k is the
    density matrix of qubit k, from the expectation values of X, Y and Z, and |.| the Frobenius
    norm. Its values do not vanish with the number of qubits as fidelities do.

    Args:
        circuit: Encodes a row, as for `qfleet.compile` with observables, also with noise.
        inputs: As for `qfleet.compile`; names of the I columns of a row.
        parameters: As for `qfleet.compile`.
        parameter_values: [P] values of the parameters; None if there are none.
        gamma: Inverse squared width of the Gaussian, positive.
        method: As for `qfleet.compile`.
        trajectories: As for `qfleet.compile`.
        shots: Measurements of X, Y and Z of each qubit and row; exact unless given.
        seed: As for `qfleet.compile`.
        dtype: As for `qfleet.compile`; the matrix is float32 for complex64, or else float64.
        device: As for `qfleet.compile`.
        memory_limit: Most bytes of the matrix in a call; the free memory unless given.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: As for `qfleet.compile`.
        MemoryLimitError: A state does not fit into the free memory.

    Examples:
        >>> import numpy as np
        >>> from qfleet.circuits import zz_feature_map
        >>> model = zz_feature_map(2)
        >>> kernel = ProjectedKernel(model.circuit, model.inputs, gamma=0.5)
        >>> kernel(np.array([[0.1, 0.2], [0.3, 0.5]])).round(3).tolist()
        [[1.0, 0.374], [0.374, 1.0]]
    """

    @checked(circuit=CIRCUIT, gamma=_gamma)
    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Iterable[str | sympy.Symbol],
        parameters: Iterable[str | sympy.Symbol] | None = None,
        parameter_values: ArrayLike | None = None,
        *,
        gamma: float = 1.0,
        method: Method = "auto",
        trajectories: int | None = None,
        shots: int | None = None,
        seed: int = 0,
        dtype: DTypeLike = "complex128",
        device: str | None = None,
        memory_limit: int | None = None,
    ) -> None:
        qubits = sorted(circuit.all_qubits())
        compiled = compile_circuit(
            circuit,
            inputs,
            parameters,
            [pauli(qubit) for qubit in qubits for pauli in (cirq.X, cirq.Y, cirq.Z)],
            method=method,
            trajectories=trajectories,
            shots=shots,
            seed=seed,
            dtype=dtype,
            device=device,
        )
        super().__init__(compiled, parameter_values, memory_limit)
        self.gamma = gamma

    def _changeable(self) -> Mapping[str, Callable[[Any, str], Any]]:
        return {**super()._changeable(), "gamma": _gamma}

    @property
    def _feature_bytes(self) -> int:
        return self.compiled.readouts * np.dtype(np.float64).itemsize

    def _features(self, rows: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return self.compiled.expectation(rows, parameters).astype(np.float64, copy=False)

    def _values(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        squares = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)
        distances = np.maximum(squares - 2 * (left @ right.T), 0)
        # The squared distance of two density matrices is half that of their Bloch vectors.
        values: np.ndarray = np.exp(-self.gamma / 2 * distances)
        return values

    def _feature_gradient(
        self, features: np.ndarray, matrix: np.ndarray, upstream: np.ndarray
    ) -> np.ndarray:
        weights = upstream * matrix
        change: np.ndarray = weights @ features - weights.sum(axis=1)[:, None] * features
        return 2 * self.gamma * change

    def _parameter_gradient(
        self,
        rows: np.ndarray,
        parameters: np.ndarray,
        features: np.ndarray,
        upstream: np.ndarray,
    ) -> np.ndarray:
        return self.compiled.vjp(rows, parameters, upstream, input_gradients=False).parameters
