"""Noisy circuits from mixed initial states: the weighted mean of their vectors."""

from dataclasses import dataclass
from random import Random

import cirq
import numpy as np

import qfleet
from tests.support.random_circuits import INPUTS, PARAMETERS, draw_case

SEEDS = (1, 2, 3)
BATCH, RANK, QUBITS = 3, 4, 3


@dataclass(frozen=True)
class MixedCase:
    """A noisy circuit, a batch of mixed states, and what the vectors of their mixtures give.

    Attributes:
        circuit: The circuit.
        observables: K observables.
        inputs: [B, I].
        parameters: [P].
        matrices: [B, 2**N, 2**N] density matrices: the sum of p_k |k><k|.
        upstream: [B, K] gradient by the values.
        values: [B, K]: the sum of p_k times the values of |k>.
        by_inputs: [B, I]: the same sum of gradients.
        by_parameters: [P].
        by_matrices: [B, 2**N, 2**N]: G of dL = Re tr(G drho).
    """

    circuit: cirq.Circuit
    observables: list[cirq.PauliSum]
    inputs: np.ndarray
    parameters: np.ndarray
    matrices: np.ndarray
    upstream: np.ndarray
    values: np.ndarray
    by_inputs: np.ndarray
    by_parameters: np.ndarray
    by_matrices: np.ndarray

    @property
    def gradients(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By inputs, parameters and matrices."""
        return self.by_inputs, self.by_parameters, self.by_matrices


def draw_mixed_case(seed: int) -> MixedCase:
    """Draw a circuit with depolarizing noise after its gates, and mixtures of vectors."""
    qubits, rng = cirq.LineQubit.range(QUBITS), np.random.default_rng(seed)
    case = draw_case(Random(seed), QUBITS)
    circuit = cirq.Circuit(
        case.circuit, [cirq.ry(0.3).on(one) for one in qubits], cirq.amplitude_damp(0.2)(qubits[0])
    ).with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.02)))
    observables = [cirq.PauliSum.wrap(one) for one in case.observables]
    compiled = qfleet.compile(circuit, INPUTS, PARAMETERS, observables, initial_states=True)
    inputs, parameters = rng.normal(size=(BATCH, len(INPUTS))), rng.normal(size=len(PARAMETERS))
    upstream = rng.normal(size=(BATCH, len(observables)))
    # A unitary of vectors, so that each matrix has as many eigenvalues as weights.
    bases = np.linalg.qr(rng.normal(size=(BATCH, 2**QUBITS, 2**QUBITS, 2)) @ [1, 1j])[0]
    weights = rng.dirichlet(np.ones(2**QUBITS), BATCH)
    weights[:, RANK:] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    matrices = np.einsum("bk,bik,bjk->bij", weights, bases, bases.conj())
    values, by_inputs, by_parameters = 0, 0, 0
    by_matrices = np.empty_like(matrices)  # column k of G B: half the gradient by vector k
    for k in range(2**QUBITS):
        share = weights[:, k, None]
        found, gradients = compiled.value_and_gradient(
            *(inputs, parameters, upstream),
            initial_states=bases[:, :, k],
            state_gradients=True,
        )
        _, shared = compiled.value_and_gradient(
            *(inputs, parameters, share * upstream), initial_states=bases[:, :, k]
        )
        values = values + share * found
        by_inputs = by_inputs + share * gradients.inputs
        by_parameters = by_parameters + shared.parameters
        by_matrices[:, :, k] = gradients.initial_states / 2
    by_matrices = by_matrices @ bases.conj().swapaxes(1, 2)
    return MixedCase(
        *(circuit, observables, inputs, parameters, matrices, upstream),
        *(values, by_inputs, by_parameters, by_matrices),
    )
