"""Histograms that grow per batch, in bounded memory."""

import numpy as np

FINE_BINS = 2**13
"""Bins of a histogram on each side of 0. A bin of a plot is the sum of many of them."""

CALIBRATION_BINS = 10


class Histogram:
    """Counts of numbers by group. The range doubles if a number is outside.

    When the range doubles, pairs of bins become one. So the counts do not depend on the order of
    the numbers.

    Attributes:
        largest: The largest absolute value so far.
    """

    def __init__(self) -> None:
        self.largest = 0.0
        self._limit = 1.0
        self._counts = np.zeros((2, 2 * FINE_BINS), np.int64)

    def add(self, values: np.ndarray, groups: np.ndarray) -> None:
        """Count values [n] of groups [n], each 0 or 1."""
        if not len(values):
            return
        self.largest = max(self.largest, float(np.abs(values).max()))
        while self.largest > self._limit:
            pairs = self._counts.reshape(2, FINE_BINS, 2).sum(axis=2)
            self._counts[:] = 0
            self._counts[:, FINE_BINS // 2 : FINE_BINS + FINE_BINS // 2] = pairs
            self._limit *= 2
        scaled = values.astype(np.float64) * (FINE_BINS / self._limit)
        bins = np.clip(np.floor(scaled).astype(np.int64) + FINE_BINS, 0, 2 * FINE_BINS - 1)
        bins += 2 * FINE_BINS * groups
        self._counts += np.bincount(bins, minlength=4 * FINE_BINS).reshape(2, -1)

    def rebinned(self, edge: float, bins: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the bins of a plot from -edge to edge. Outliers count in the outer bins.

        Args:
            edge: Right end of the plot.
            bins: Number of bins; even, so that 0, where the class changes, is an edge.

        Returns:
            Edges float64 [bins + 1], and counts int64 [2, bins] by group.
        """
        edges = np.linspace(-edge, edge, bins + 1)
        indices = np.rint(edges * (FINE_BINS / self._limit)).astype(int) + FINE_BINS
        indices = np.clip(indices, 0, 2 * FINE_BINS)
        indices[0], indices[-1] = 0, 2 * FINE_BINS
        sums = np.concatenate([np.zeros((2, 1), np.int64), self._counts.cumsum(axis=1)], axis=1)
        return edges, np.diff(sums[:, indices], axis=1)


class ProbabilityCalibration:
    """Accuracy of the predicted class by its probability.

    Attributes:
        counts: int64 [CALIBRATION_BINS], examples by the probability of the predicted class.
        correct: int64 [CALIBRATION_BINS], of these, the correct ones.
        confidence: float64 [CALIBRATION_BINS], sums of their probabilities.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(CALIBRATION_BINS, np.int64)
        self.correct = np.zeros(CALIBRATION_BINS, np.int64)
        self.confidence = np.zeros(CALIBRATION_BINS)

    def add(self, probabilities: np.ndarray, is_correct: np.ndarray) -> None:
        """Add examples: the probability of the predicted class [n], and if it is the label [n]."""
        bins = np.clip((probabilities * CALIBRATION_BINS).astype(int), 0, CALIBRATION_BINS - 1)
        self.counts += np.bincount(bins, minlength=CALIBRATION_BINS)
        self.correct += np.bincount(bins[is_correct], minlength=CALIBRATION_BINS)
        self.confidence += np.bincount(bins, probabilities, minlength=CALIBRATION_BINS)

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of probability and accuracy."""
        differences = np.abs(self.correct - self.confidence)
        return float(differences.sum() / max(1, self.counts.sum()))
