"""Features as the amplitudes of states, as of PennyLane's AmplitudeEmbedding."""

import numpy as np

from common.data.table_limits import MIB
from common.errors import DataError
from common.settings.amplitude_checks import MAX_STATE_QUBITS


def states(features: np.ndarray, amplitudes: int) -> np.ndarray:
    """Return rows, padded with zeros and divided by their norms.

    Args:
        features: float [n, columns], without a row of zeros.
        amplitudes: Width of the states, at least `columns`.

    Returns:
        float32 [n, amplitudes], of norm 1.
    """
    padded = np.zeros((len(features), amplitudes), np.float32)
    # Squares of the largest numbers would overflow.
    scaled = features / np.abs(features).max(axis=1, keepdims=True)
    padded[:, : features.shape[1]] = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return padded


def with_norm(features: np.ndarray, norm: float) -> np.ndarray:
    """Append a column of one value, whose amplitude shows the norm of a row.

    A row of norm r gets the amplitude norm / sqrt(r^2 + norm^2) there.

    Args:
        features: float [n, columns].
        norm: A typical norm of a row.
    """
    return np.column_stack([features, np.full(len(features), norm)])


def typical_norm(features: np.ndarray) -> float:
    """Return the root mean square of the norms of rows; 1 if all are 0.

    Args:
        features: float [n, columns].
    """
    largest = float(np.abs(features).max(initial=0)) or 1.0
    scaled = features / largest  # squares of the largest numbers would overflow
    return largest * float(np.sqrt((scaled**2).sum(axis=1).mean())) or 1.0


def require_width(features: int, qubits: int) -> None:
    """Raise if a number of features does not fit the amplitudes of QUBITS.

    Args:
        features: Columns, with the one for the norm.
        qubits: QUBITS.

    Raises:
        DataError: There are too many, or there is one, of which the norm leaves only the sign.
    """
    if features == 1:
        raise DataError(
            "ENCODER=amplitude keeps only the sign of 1 feature, since it divides a row by its"
            " norm: provide more columns, or set ENCODER=amplitude-norm"
        )
    if features > 2**qubits:
        needed = (features - 1).bit_length()
        advice = f"need QUBITS={needed}"
        if needed > MAX_STATE_QUBITS:
            advice = f"are more than 2^{MAX_STATE_QUBITS}, the most: set ENCODER=pca or reupload"
        raise DataError(
            f"ENCODER=amplitude with QUBITS={qubits} has {2**qubits:,} amplitudes: {features:,}"
            f" columns {advice}"
        )


def require_memory(rows: int, qubits: int, title: str, memory: int) -> None:
    """Raise if the states of a table need more memory than DATA_MEMORY.

    Args:
        rows: Number of rows.
        qubits: QUBITS.
        title: Name of the table in the message.
        memory: DATA_MEMORY, in MiB.

    Raises:
        DataError: They do.
    """
    needed = rows * 2**qubits * 4 / MIB
    if needed > memory:
        raise DataError(
            f"{title} has {rows:,} rows, whose states of {qubits} qubits need {needed:,.0f} MiB:"
            f" set DATA_MEMORY to as much (it is {memory}), lower QUBITS, or provide fewer rows"
        )


def require_nonzero(features: np.ndarray, title: str, rows: np.ndarray | None = None) -> None:
    """Raise if a row has no direction.

    Args:
        features: float [n, columns].
        title: Name of the table in the message.
        rows: int64 [n], their rows in the table from 0; 0 to n - 1 unless given.

    Raises:
        DataError: All features of a row are 0.
    """
    zero = np.flatnonzero(~features.any(axis=1))
    if len(zero):
        row = zero[0] if rows is None else rows[zero[0]]
        raise DataError(
            f"{title}: row {row + 1} has the value 0 in all features, which ENCODER=amplitude can't"
            " normalise to a state: delete the row, or set ENCODER=amplitude-norm"
        )
