"""The fidelity kernel: overlaps of the states of two rows."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet.argument_checks import checked, integer, optional
from qfleet.circuit_checks import CIRCUIT
from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.lowering import lower_noisy
from qfleet.compiler.circuit.symbols import check_symbols, parameter_names
from qfleet.engine.arguments import checked_symbols
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError, CircuitError
from qfleet.kernels.pair_shots import MAX_SHOTS, estimate
from qfleet.kernels.quantum_kernel import QuantumKernel

MAX_NOISY_QUBITS = 6
"""Up to here, the 4**N Pauli words of a density matrix are read."""

_AMPLITUDES = 8192
"""Amplitudes of a product whose left factor is conjugated at a time: 32 MiB of 256 rows."""


_SHOTS, _SEED = optional(integer(1, MAX_SHOTS)), integer(0, 2**64 - 1)


class FidelityKernel(QuantumKernel):
    """The fidelity |<psi(x)|psi(y)>|**2 of the states of two rows.

    Havlicek et al. (arXiv:1804.11326), Schuld and Killoran (arXiv:1803.07128). The states of all
    rows are computed once, and all fidelities by matrix products. With noise, it is the overlap
    tr(rho(x) rho(y)) of density matrices, from the expectation values of all Pauli words.

    Args:
        circuit: Encodes a row, as for `qfleet.compile` without observables. With noise channels, it
            has at most 6 qubits.
        inputs: As for `qfleet.compile`; names of the I columns of a row.
        parameters: As for `qfleet.compile`.
        parameter_values: [P] values of the parameters; None if there are none.
        shots: Measurements per pair; exact unless given. A value is a number of shots from the
            binomial distribution of the fidelity, divided by `shots`, as if the circuit of x and
            the reverse of that of y were measured.
        seed: Of shots. A pair draws equal numbers in every matrix and in every order, so that
            matrices are symmetric, and smooth in the parameters.
        dtype: As for `qfleet.compile`; the matrix is float32 for complex64, or else float64.
        device: As for `qfleet.compile`.
        memory_limit: Most bytes of matrix and states in a call; the free memory unless given.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: As for `qfleet.compile`, or a noisy circuit has too many qubits.
        MemoryLimitError: A state does not fit into the free memory.

    Examples:
        >>> import numpy as np
        >>> from qfleet.circuits import zz_feature_map
        >>> model = zz_feature_map(2)
        >>> kernel = FidelityKernel(model.circuit, model.inputs)
        >>> kernel(np.array([[0.1, 0.2], [0.3, 0.5], [2.0, 1.0]])).round(3).tolist()
        [[1.0, 0.008, 0.034], [0.008, 1.0, 0.093], [0.034, 0.093, 1.0]]
    """

    @checked(circuit=CIRCUIT, shots=_SHOTS, seed=_SEED)
    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Iterable[str | sympy.Symbol],
        parameters: Iterable[str | sympy.Symbol] | None = None,
        parameter_values: ArrayLike | None = None,
        *,
        shots: int | None = None,
        seed: int = 0,
        dtype: DTypeLike = "complex128",
        device: str | None = None,
        memory_limit: int | None = None,
    ) -> None:
        items = lower_noisy(circuit, allows_noise=True)
        words: list[cirq.PauliString[cirq.Qid]] = []
        if any(isinstance(item, NoiseChannel) for item in items):
            words = _pauli_words(sorted(circuit.all_qubits()))
        names = sorted(parameter_names(circuit))
        columns, shared = checked_symbols(inputs, parameters, names)
        check_symbols(circuit, columns, shared)
        qubits = sorted(circuit.all_qubits())
        compiled = CompiledCircuit.from_factors(
            items, columns, shared, words, qubits=qubits, dtype=dtype, device=device
        )
        super().__init__(compiled, parameter_values, memory_limit)
        self.shots, self.seed = shots, seed

    def _changeable(self) -> Mapping[str, Callable[[Any, str], Any]]:
        return {**super()._changeable(), "shots": _SHOTS, "seed": _SEED}

    @property
    def _is_noisy(self) -> bool:
        return self.compiled.readouts > 0

    @property
    def _dimension(self) -> int:
        return 1 << len(self.compiled.qubits)

    @property
    def _feature_bytes(self) -> int:
        if self._is_noisy:
            return self.compiled.readouts * np.dtype(self.compiled.real_dtype).itemsize
        return int(self.compiled.dtype.itemsize) * self._dimension

    def _features(self, rows: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        if self._is_noisy:
            return self.compiled.expectation(rows, parameters)
        return self.compiled.state(rows, parameters)

    def _values(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        products = _products(left, right)
        if self._is_noisy:
            values = (products + 1) / self._dimension
        else:
            values = np.square(products.real)
            values += np.square(products.imag)
        return np.clip(values, 0, 1, out=values)  # rounding may lead out of this interval

    def _has_unit_diagonal(self) -> bool:
        return not self._is_noisy

    def _estimate(self, matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if self.shots is not None:
            estimate(matrix, rows, columns, self.shots, self.seed)
        return matrix

    def matrix_and_pullback(
        self, X: ArrayLike, parameter_values: ArrayLike | None = None
    ) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """See the base class."""
        if self.shots is not None:
            raise ArgumentError(
                f"shots is {self.shots}: gradients are those of exact kernels, make one without"
                " shots"
            )
        return super().matrix_and_pullback(X, parameter_values)

    def _feature_gradient(
        self, features: np.ndarray, matrix: np.ndarray, upstream: np.ndarray
    ) -> np.ndarray:
        upstream = upstream.astype(matrix.dtype)
        if self._is_noisy:
            gradient: np.ndarray = 2 / self._dimension * (upstream @ features)
            return gradient
        # dL/dRe + i dL/dIm of psi_j is 4 sum_i dL/dK_ij <psi_i|psi_j> psi_i.
        gradient = 4 * ((upstream * _products(features, features)).T @ features)
        return gradient

    def _parameter_gradient(
        self,
        rows: np.ndarray,
        parameters: np.ndarray,
        features: np.ndarray,
        upstream: np.ndarray,
    ) -> np.ndarray:
        if self._is_noisy:
            found = self.compiled.vjp(rows, parameters, upstream, input_gradients=False)
        else:
            found = self.compiled.gradient_of_states(
                *(rows, parameters, upstream, features), input_gradients=False
            )
        return found.parameters


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the inner products [n, m] of [n, F] and [m, F], the left one conjugated."""
    products: np.ndarray = np.conj(left[:, :_AMPLITUDES]) @ right[:, :_AMPLITUDES].T
    for start in range(_AMPLITUDES, left.shape[1], _AMPLITUDES):
        part = slice(start, start + _AMPLITUDES)
        products += np.conj(left[:, part]) @ right[:, part].T
    return products


def _pauli_words(qubits: list[cirq.Qid]) -> list["cirq.PauliString[cirq.Qid]"]:
    """Return all Pauli words but the identity."""
    if len(qubits) > MAX_NOISY_QUBITS:
        raise CircuitError(
            f"the circuit has noise and {len(qubits)} qubits, so that its overlaps need"
            f" 4**{len(qubits)} Pauli words: use at most {MAX_NOISY_QUBITS} qubits, a circuit"
            " without noise, or ProjectedKernel"
        )
    paulis = (cirq.I, cirq.X, cirq.Y, cirq.Z)
    words = itertools.product(paulis, repeat=len(qubits))
    next(words)
    return [
        cirq.PauliString({q: p for q, p in zip(qubits, word, strict=True) if p is not cirq.I})
        for word in words
    ]
