"""The result of a simulation of a state."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import cirq
import numpy as np


class StateVectorTrialResult(cirq.StateVectorTrialResult):
    """Cirq's result with the same values, computed without a slow complex division."""

    @cached_property
    def final_state_vector(self) -> np.ndarray:
        """[2**N] the normalised final state."""
        state = self._get_merged_sim_state().target_tensor.reshape(-1)
        norm = np.linalg.norm(state)
        if abs(norm - 1) > np.sqrt(np.finfo(state.dtype).eps):
            return np.asarray(super().final_state_vector)  # with a warning
        # NumPy divides a complex by a real number as it multiplies by this one, to the last bit.
        inverse = state.dtype.type(complex(1 / norm, -0.0))
        normalized = state * inverse
        change = abs(np.vdot(normalized, normalized) - 1) - abs(np.vdot(state, state) - 1)
        return np.asarray(normalized if change < 0 else state)


def trial_result(
    resolver: cirq.ParamResolver,
    records: Mapping[str, np.ndarray],
    state: np.ndarray,
    qubits: Sequence[cirq.Qid],
) -> StateVectorTrialResult:
    """Return the result of one run.

    Args:
        resolver: Values of the symbols.
        records: [1, instances of the key, measured qubits] by key.
        state: [2**N], the final state.
        qubits: The N qubits, the first the most significant bit.
    """
    outcomes = {key: record[0, -1] for key, record in records.items()}
    final = cirq.StateVectorSimulationState(
        initial_state=state, qubits=qubits, dtype=state.dtype.type
    )
    return StateVectorTrialResult(resolver, outcomes, final)
