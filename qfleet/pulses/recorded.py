"""Evaluations of an objective that a file keeps, so that a killed optimization continues."""

import hashlib
from pathlib import Path

import numpy as np

from qfleet.errors import ArgumentError
from qfleet.pulses.objective import GateObjective

_NUMBER = np.dtype("<f8")
_DIGEST_BYTES = hashlib.sha256().digest_size


class RecordedEvaluations:
    """An objective whose evaluations are appended to a file, and read from it the next time.

    The file has a SHA-256 of the devices, the pulse, the gate and the first point. Then follow the
    numbers of each evaluation, float64: the point [P], the infidelity, and its gradient [P]. An
    evaluation that is cut off at the end is computed again. One process at a time writes the file.

    Args:
        objective: The objective.
        start: The first point, [P].
        file: Path of the file, which is created.

    Raises:
        ArgumentError: The file can't be read or written, or is of another optimization.
    """

    def __init__(self, objective: GateObjective, start: np.ndarray, file: str | Path) -> None:
        self._objective, self._path = objective, Path(file)
        self._count = len(start)
        try:
            self._known = self._read(_identity(objective, start))
        except OSError as error:
            raise self._failure("opened", error) from None
        self._used = 0

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the infidelity and its gradient [P]: of the file, or computed and appended.

        Args:
            point: [P].

        Raises:
            ArgumentError: The file has another point in its place, or can't be written; or as for
                the objective.
        """
        count = self._count
        if self._used < len(self._known):
            row = self._known[self._used]
            self._used += 1
            if not np.array_equal(row[:count], point):
                raise ArgumentError(
                    f"file {str(self._path)!r:.80} was written by another version of qfleet or"
                    " SciPy: delete it to begin again"
                )
            return float(row[count]), row[count + 1 :].copy()
        value, gradient = self._objective(point)
        row = np.concatenate([point, [value], gradient]).astype(_NUMBER)
        try:
            with self._path.open("ab") as opened:
                opened.write(row.tobytes())
        except OSError as error:
            raise self._failure("written", error) from None
        return value, gradient

    @staticmethod
    def best(content: bytes, count: int) -> tuple[float, np.ndarray]:
        """Return the least infidelity of a file, and its point [P].

        Args:
            content: Of a file that has at least one evaluation.
            count: P.
        """
        rows = _rows(content, count)
        least = rows[rows[:, count].argmin()]
        return float(least[count]), least[:count].copy()

    def _read(self, identity: bytes) -> np.ndarray:
        """Return the evaluations of the file, [E, 2 P + 1], and drop one that is cut off."""
        found = self._path.read_bytes() if self._path.exists() else b""
        if not identity.startswith(found[:_DIGEST_BYTES]):
            raise ArgumentError(
                f"file {str(self._path)!r:.80} is of another optimization: pass another file, or"
                " the same devices, pulse, gate and first numbers"
            )
        rows = _rows(found, self._count)
        if found != (whole := identity + rows.tobytes()):
            self._path.write_bytes(whole)
        return rows

    def _failure(self, what: str, error: OSError) -> ArgumentError:
        return ArgumentError(
            f"file {str(self._path)!r:.80} can't be {what}: {error.strerror}; pass the path of a"
            " file in a folder that exists"
        )


def _rows(content: bytes, count: int) -> np.ndarray:
    """Return the whole evaluations of a file, [E, 2 P + 1]."""
    width, numbers = 2 * count + 1, content[_DIGEST_BYTES:]
    whole = numbers[: len(numbers) - len(numbers) % (width * _NUMBER.itemsize)]
    return np.frombuffer(whole, _NUMBER).reshape(-1, width)


def _identity(objective: GateObjective, start: np.ndarray) -> bytes:
    """Return a digest of all that decides the infidelity."""
    text = repr((objective.propagator, objective.pulse, objective.angles))
    digest = hashlib.sha256(text.encode())
    digest.update(objective.fidelity.target.tobytes())
    digest.update(start.astype(_NUMBER).tobytes())
    return digest.digest()
