"""States before the first block: their check, and the gates before the first symbol."""

from collections.abc import Sequence, Set

import cirq
import numpy as np

from qfleet.compiler.circuit.factor import Factor
from qfleet.errors import CircuitError

MAX_NORM_ERROR = 1e-4  # of an initial state, which may be given in complex64


def check_all_listed(unlisted: Set[cirq.Qid]) -> None:
    """Check that there are no qubits that are simulated and have no amplitudes.

    Raises:
        CircuitError: There are such qubits.
    """
    if unlisted:
        raise CircuitError(
            f"the initial state has no qubit {min(unlisted)}, which an observable reads: add it to"
            " the circuit"
        )


def checked_initial_state(state: np.ndarray, qubits: Sequence[cirq.Qid]) -> np.ndarray:
    """Return an initial state as complex128.

    Args:
        state: [2**N] amplitudes; the first qubit is the most significant bit.
        qubits: The N qubits.

    Raises:
        CircuitError: The state has another size or norm.
    """
    state = np.asarray(state, np.complex128)
    if state.shape != (2 ** len(qubits),):
        raise CircuitError(
            f"initial_state has shape {state.shape}: {len(qubits)} qubits need"
            f" ({2 ** len(qubits)},)"
        )
    norm = float(np.linalg.norm(state))
    if not abs(norm - 1) < MAX_NORM_ERROR:
        raise CircuitError(f"initial_state has the norm {norm}: normalize it to 1")
    return state


def simulate_prefix(
    factors: Sequence[Factor], width: int, widest: int, initial: np.ndarray | None
) -> tuple[np.ndarray | None, list[Factor]]:
    """Apply the fixed factors before the first symbol on each qubit to the initial state.

    Args:
        factors: First applied first.
        width: Number of qubits.
        widest: A wider state is left as it is.
        initial: [2**N] state; |0...0> unless given.

    Returns:
        The [2**N] state, None for |0...0>, and the remaining factors.
    """
    if width > widest:
        return initial, list(factors)
    if initial is None:
        state = np.zeros(2**width, np.complex128)
        state[0] = 1
    else:
        state = initial
    parametrized: set[int] = set()  # qubits after their first symbol
    rest = []
    for factor in factors:
        if factor.fixed and not parametrized.intersection(factor.qubits):
            state = apply_matrix(state, factor.matrix, factor.qubits, width)
        else:
            parametrized.update(factor.qubits)
            rest.append(factor)
    return (state if len(rest) < len(factors) else initial), rest


def apply_matrix(
    state: np.ndarray, matrix: np.ndarray, qubits: Sequence[int], width: int
) -> np.ndarray:
    """Apply a matrix to some qubits of a state.

    Args:
        state: [2**N] amplitudes.
        matrix: [D, D] matrix, D = 2**len(qubits).
        qubits: Positions; the first is the matrix's most significant bit.
        width: N.

    Returns:
        [2**N] amplitudes.
    """
    count = len(qubits)
    tensor = state.reshape((2,) * width)
    gate = matrix.reshape((2,) * (2 * count))
    result = np.tensordot(gate, tensor, (range(count, 2 * count), qubits))
    return np.moveaxis(result, range(count), qubits).reshape(-1)
