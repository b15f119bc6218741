"""Statistics of predictions: sums and histograms that grow per batch, in bounded memory."""

import numpy as np

from common.text import plural

FINE_BINS = 2**13
"""Bins of a histogram on each side of 0. A bin of a plot is the sum of many of them."""

MAX_READOUTS = 12
"""Maximum number of readouts with a histogram."""


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


class Scores:
    """Statistics of the predictions of a model.

    Args:
        readouts: Readouts per example; None for a model without a readout layer.
        labelled: True if labels are known.
        circuits: Number of circuits simulated per example.

    Attributes:
        total: Number of examples so far.
        seconds: Time of the predictions, without compilation.
        workers: Number of processes that computed predictions.
        predictions: Histogram of the predictions, by label if labels are known.
        readouts: Histograms of the first MAX_READOUTS readouts, likewise.
        counts: int64 [2, 2]: rows are labels -1, +1 (only the first if labels are unknown);
            columns are predicted labels.
    """

    def __init__(self, readouts: int | None, labelled: bool, circuits: int) -> None:
        self.readouts_per_example = readouts
        self.labelled, self.circuits = labelled, circuits
        self.total = 0
        self.seconds = 0.0
        self.workers = 1
        self.predictions = Histogram()
        self.readouts = [Histogram() for _ in range(min(readouts or 0, MAX_READOUTS))]
        self.counts = np.zeros((2, 2), np.int64)
        self._squares = 0.0

    def add(
        self, predictions: np.ndarray, readouts: np.ndarray | None, labels: np.ndarray | None
    ) -> None:
        """Add examples.

        Args:
            predictions: float32 [n]; the sign is the class, 0 counts as +1.
            readouts: float32 [n, readouts] in [-1, 1], or None.
            labels: float32 [n] of -1 and +1, or None.
        """
        groups = np.zeros(len(predictions), np.int64)
        if labels is not None:
            groups = (labels > 0).astype(np.int64)
            self._squares += float(np.sum((predictions.astype(np.float64) - labels) ** 2))
        self.total += len(predictions)
        cells = 2 * groups + (predicted_signs(predictions) > 0)
        self.counts += np.bincount(cells, minlength=4).reshape(2, 2)
        self.predictions.add(predictions, groups)
        for i, histogram in enumerate(self.readouts):
            assert readouts is not None
            histogram.add(readouts[:, i], groups)

    @property
    def rate(self) -> str:
        """The rate with its unit: circuits per second, or examples if there are no circuits."""
        rate = self.total * max(1, self.circuits) / max(self.seconds, 1e-9)
        suffix = f" by {plural(self.workers, 'worker')}" if self.workers > 1 else ""
        return f"{rate:,.0f} {'circuits' if self.circuits else 'examples'}/s{suffix}"

    @property
    def mse(self) -> float | None:
        """Mean squared error against labels of -1 and +1; None without labels."""
        return self._squares / self.total if self.labelled and self.total else None

    @property
    def accuracy(self) -> float | None:
        """Fraction of predictions that have the sign of the label; None without labels."""
        return float(np.trace(self.counts)) / self.total if self.labelled and self.total else None

    @property
    def confusion(self) -> np.ndarray | None:
        """`counts` if labels are known; else None."""
        return self.counts if self.labelled else None

    @property
    def predicted_counts(self) -> tuple[int, int]:
        """Number of examples with predicted label -1, and +1."""
        negative, positive = self.counts.sum(axis=0)
        return int(negative), int(positive)


def predicted_signs(predictions: np.ndarray) -> np.ndarray:
    """Return the classes, float32 [n] of -1 and +1, of predictions [n]."""
    return np.where(predictions >= 0, 1, -1).astype(np.float32)


def mean_squared_error(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean squared error, summed in float64."""
    return float(np.mean((predictions.astype(np.float64) - labels) ** 2))
