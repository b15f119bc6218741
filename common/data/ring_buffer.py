"""Ring buffer for the rows of a worker's partitions, in NumPy."""

import numpy as np


class RingBuffer:
    """Rows of partitions at consecutive offsets; a later offset reuses the slot of an earlier one.

    Rows are addressed by `offset * partitions + partition`, and offsets increase without limit.

    Args:
        slots: Offsets that are stored at a time.
        partitions: Number of partitions.
        features: Angles per row.
    """

    def __init__(self, slots: int, partitions: int, features: int) -> None:
        self.slots = slots
        self._angles = np.zeros((slots, partitions, features), np.float32)
        self._labels = np.zeros((slots, partitions), np.float32)

    def write(
        self, columns: list[np.ndarray], rows: np.ndarray, partitions: np.ndarray, begin: int
    ) -> None:
        """Write rows of a shard.

        Args:
            columns: Columns of the shard: angles, and the label as the last one.
            rows: int64 [offsets, partitions], rows of the shard.
            partitions: int64, their partitions.
            begin: The first offset.
        """
        where = _as_slice(partitions)
        done = 0
        while done < len(rows):
            slot = (begin + done) % self.slots
            count = min(len(rows) - done, self.slots - slot)
            chosen = rows[done : done + count]
            for number, column in enumerate(columns[:-1]):
                self._angles[slot : slot + count, where, number] = column.take(chosen)
            self._labels[slot : slot + count, where] = columns[-1].take(chosen)
            done += count

    def read(self, begin: int, angles: np.ndarray, labels: np.ndarray) -> None:
        """Copy consecutive rows.

        Args:
            begin: Address of the first row.
            angles: float32 [n, features], which receives the angles.
            labels: float32 [n], which receives the labels.
        """
        size = self._labels.size
        all_angles, all_labels = self._angles.reshape(size, -1), self._labels.reshape(size)
        done = 0
        while done < len(labels):
            at = (begin + done) % size
            count = min(len(labels) - done, size - at)
            angles[done : done + count] = all_angles[at : at + count]
            labels[done : done + count] = all_labels[at : at + count]
            done += count


def _as_slice(numbers: np.ndarray) -> slice | np.ndarray:
    """Return a slice if the numbers are evenly spaced: NumPy copies it several times faster."""
    steps = np.diff(numbers)
    if len(steps) and (steps != steps[0]).any():
        return numbers
    step = int(steps[0]) if len(steps) else 1
    return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
