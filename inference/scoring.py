"""How good answers are: numbers and histograms that grow batch by batch, in bounded memory."""

import numpy as np

FINE_BINS = 2**13
"""Bins of a histogram on each side of 0; what is drawn is made of many of them."""

MAX_READOUTS = 12
"""Readouts that are drawn."""


class Histogram:
    """Counts of numbers, by class, whose range doubles where a number lies outside.

    Halves of a range that doubled are pairs of bins made one, so the counts are those that one
    look at all numbers would give, in whatever order they came.

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
        places = (
            np.floor(values.astype(np.float64) * (FINE_BINS / self._limit)).astype(np.int64)
            + FINE_BINS
        )
        places = np.clip(places, 0, 2 * FINE_BINS - 1) + 2 * FINE_BINS * groups
        self._counts += np.bincount(places, minlength=4 * FINE_BINS).reshape(2, -1)

    def binned(self, edge: float, bins: int) -> tuple[np.ndarray, np.ndarray]:
        """Bins of a plot from -edge to edge; what lies outside counts in the first or the last.

        Args:
            edge: Where the plot ends.
            bins: How many; an even number, so that 0, where the class changes, is an edge.

        Returns:
            Edges float64 [bins + 1], and counts int64 [2, bins] by group.
        """
        edges = np.linspace(-edge, edge, bins + 1)
        places = np.clip(
            np.rint(edges * (FINE_BINS / self._limit)).astype(int) + FINE_BINS, 0, 2 * FINE_BINS
        )
        places[0], places[-1] = 0, 2 * FINE_BINS
        before = np.concatenate([np.zeros((2, 1), np.int64), self._counts.cumsum(axis=1)], axis=1)
        return edges, np.diff(before[:, places], axis=1)


class Scores:
    """What a model said to examples, summed up.

    Args:
        readouts: Readouts of an example; None for a model that does not show them.
        labelled: Whether labels are known.
        circuits: Circuits simulated for one example.

    Attributes:
        total: Examples so far.
        seconds: How long answering took, without compiling.
        workers: Processes that answered.
        answers: Histogram of answers, by label where labels are known.
        readouts: The same of the first MOST_READOUTS readouts.
        counts: int64 [2, 2]: rows are labels -1, +1 (the first alone where they are not known);
            columns are predictions.
    """

    def __init__(self, readouts: int | None, labelled: bool, circuits: int) -> None:
        self.readouts_each, self.labelled, self.circuits = readouts, labelled, circuits
        self.total = 0
        self.seconds = 0.0
        self.workers = 1
        self.answers = Histogram()
        self.readouts = [Histogram() for _ in range(min(readouts or 0, MAX_READOUTS))]
        self.counts = np.zeros((2, 2), np.int64)
        self._squares = 0.0

    def add(
        self, answers: np.ndarray, readouts: np.ndarray | None, labels: np.ndarray | None
    ) -> None:
        """Count more examples.

        Args:
            answers: float32 [n]; the sign is the class, 0 counts as +1.
            readouts: float32 [n, readouts] in [-1, 1], or None.
            labels: float32 [n] of -1 and +1, or None.
        """
        groups = np.zeros(len(answers), np.int64)
        if labels is not None:
            groups = (labels > 0).astype(np.int64)
            self._squares += float(np.sum((answers.astype(np.float64) - labels) ** 2))
        self.total += len(answers)
        self.counts += np.bincount(
            2 * groups + (predicted_label(answers) > 0), minlength=4
        ).reshape(2, 2)
        self.answers.add(answers, groups)
        for i, histogram in enumerate(self.readouts):
            assert readouts is not None
            histogram.add(readouts[:, i], groups)

    @property
    def rate(self) -> str:
        """Circuits simulated in a second, in words; examples of a model without circuits."""
        rate = self.total * max(1, self.circuits) / max(self.seconds, 1e-9)
        together = f" by {self.workers} workers" if self.workers > 1 else ""
        return f"{rate:,.0f} {'circuits' if self.circuits else 'examples'}/s{together}"

    @property
    def mse(self) -> float | None:
        """Mean squared error of answers against labels of -1 and +1; None without labels."""
        return self._squares / self.total if self.labelled and self.total else None

    @property
    def accuracy(self) -> float | None:
        """The share of examples whose answer has the label's sign; None without labels."""
        return float(np.trace(self.counts)) / self.total if self.labelled and self.total else None

    @property
    def confusion(self) -> np.ndarray | None:
        """`counts` where labels are known; else None."""
        return self.counts if self.labelled else None

    @property
    def predicted(self) -> tuple[int, int]:
        """Examples that were answered -1, and +1."""
        negative, positive = self.counts.sum(axis=0)
        return int(negative), int(positive)


def predicted_label(answers: np.ndarray) -> np.ndarray:
    """The classes, float32 [n] of -1 and +1, that answers [n] mean."""
    return np.where(answers >= 0, 1, -1).astype(np.float32)


def mean_squared_error(answers: np.ndarray, labels: np.ndarray) -> float:
    """Mean squared error, summed in float64."""
    return float(np.mean((answers.astype(np.float64) - labels) ** 2))
