"""Statistics of predictions by task: sums and histograms that grow per batch, in bounded memory."""

import math
from collections.abc import Mapping

import numpy as np

from common.data.origin import Origin
from common.data.target import Target
from common.text import plural
from inference.histogram import Histogram, ProbabilityCalibration
from inference.largest_errors import LargestErrors

MAX_READOUTS = 12
"""Maximum number of readouts with a histogram."""

MAX_DIGITS = 300
"""Powers of ten above it are near the limit of float64."""

MAX_PAIRS = 2000
"""Predictions of numbers that are kept for plots, the first ones."""


class Scores:
    """Statistics of the predictions of a model. Abstract; see `scores_for`.

    Args:
        target: What the model predicts.
        readouts: Readouts per example; None for a model without a readout layer.
        labelled: True if labels are known.
        circuits: Number of circuits simulated per example.

    Attributes:
        total: Number of examples so far.
        seconds: Time of the predictions, without compilation.
        workers: Number of processes that computed predictions.
        readouts: Histograms of the first MAX_READOUTS readouts, by sign of the label for two
            classes.
        errors: The largest ones, where labels and origin are known and examples are independent.
        unmitigated: Those without zero-noise extrapolation; None where it is not used.
    """

    unmitigated: "Scores | None" = None

    def __init__(self, target: Target, readouts: int | None, labelled: bool, circuits: int) -> None:
        self.target = target
        self.readouts_per_example = readouts
        self.labelled, self.circuits = labelled, circuits
        self.total = 0
        self.seconds = 0.0
        self.workers = 1
        self.errors = LargestErrors()
        self.readouts = [Histogram() for _ in range(min(readouts or 0, MAX_READOUTS))]

    def add(
        self,
        predictions: np.ndarray,
        readouts: np.ndarray | None,
        labels: np.ndarray | None,
        unmitigated: np.ndarray | None = None,
        origin: Origin | None = None,
    ) -> None:
        """Add examples.

        Args:
            predictions: float32 [n], or [n, outputs] for several outputs.
            readouts: float32 [n, readouts] in [-1, 1], or None.
            labels: float32 [n], encoded by the target, or None.
            unmitigated: As `predictions`, without zero-noise extrapolation, if it is used.
            origin: Of the examples, by which errors are named.
        """
        if self.unmitigated is not None:
            assert unmitigated is not None
            self.unmitigated.add(unmitigated, None, labels)
        self.total += len(predictions)
        groups = self._groups(labels, len(predictions))
        for i, histogram in enumerate(self.readouts):
            assert readouts is not None
            histogram.add(readouts[:, i], groups)
        self._add(predictions, labels, origin)

    def _groups(self, labels: np.ndarray | None, count: int) -> np.ndarray:
        return np.zeros(count, np.int64)

    def _add(
        self, predictions: np.ndarray, labels: np.ndarray | None, origin: Origin | None
    ) -> None:
        raise NotImplementedError

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name as in training, the loss first; empty without labels or examples."""
        return self._metrics() if self.labelled and self.total else {}

    def _metrics(self) -> dict[str, float]:
        raise NotImplementedError

    @property
    def rate(self) -> str:
        """The rate with its unit: circuits per second, or examples if there are no circuits."""
        rate = self.total * max(1, self.circuits) / max(self.seconds, 1e-9)
        suffix = f" by {plural(self.workers, 'worker')}" if self.workers > 1 else ""
        return f"{rate:,.0f} {'circuits' if self.circuits else 'examples'}/s{suffix}"


class ClassScores(Scores):
    """Scores of a classification.

    Attributes:
        counts: int64 [classes, classes]: rows are labels (only the first if they are unknown);
            columns are predicted labels.
        calibration: Of the predicted classes, if labels are known.
        predictions: Histogram of the signed predictions of two classes, by label.
    """

    def __init__(self, target: Target, readouts: int | None, labelled: bool, circuits: int) -> None:
        super().__init__(target, readouts, labelled, circuits)
        classes = len(target.classes)
        self.counts = np.zeros((classes, classes), np.int64)
        self.calibration = ProbabilityCalibration()
        self.predictions = Histogram()
        self._loss = 0.0

    def _groups(self, labels: np.ndarray | None, count: int) -> np.ndarray:
        if labels is None or self.target.kind != "signs":
            return super()._groups(labels, count)
        return self.target.class_indices(labels)

    def _add(
        self, predictions: np.ndarray, labels: np.ndarray | None, origin: Origin | None
    ) -> None:
        target, classes = self.target, len(self.target.classes)
        predicted = target.predicted_classes(predictions.reshape(len(predictions), -1))
        known = np.zeros_like(predicted) if labels is None else target.class_indices(labels)
        cells = np.bincount(classes * known + predicted, minlength=classes**2)
        self.counts += cells.reshape(classes, classes)
        if target.kind == "signs":
            self.predictions.add(predictions, self._groups(labels, len(predictions)))
        if labels is None:
            return
        probabilities = class_probabilities(target, predictions)
        rows = np.arange(len(predictions))
        self.calibration.add(probabilities[rows, predicted], predicted == known)
        if origin:
            sizes = probabilities[rows, predicted] * (predicted != known)
            names = target.classes
            self.errors.add(sizes, origin, lambda i: (names[known[i]], names[predicted[i]]))
        if target.kind == "signs":
            self._loss += float(np.sum((predictions.astype(np.float64) - labels) ** 2))
        else:
            self._loss -= float(np.log(np.maximum(probabilities[rows, known], 1e-300)).sum())

    def _metrics(self) -> dict[str, float]:
        correct = float(np.trace(self.counts))
        return {self.target.loss: self._loss / self.total, "accuracy": correct / self.total}

    @property
    def confusion(self) -> np.ndarray | None:
        """`counts` if labels are known; else None."""
        return self.counts if self.labelled else None

    @property
    def predicted_counts(self) -> list[int]:
        """Number of examples by predicted class."""
        return [int(count) for count in self.counts.sum(axis=0)]

    @property
    def precision_and_recall(self) -> list[tuple[float | None, float | None]]:
        """Precision and recall by class; None where no example counts."""
        correct = np.diag(self.counts)
        predicted, actual = self.counts.sum(axis=0), self.counts.sum(axis=1)
        return [
            (float(c / p) if p else None, float(c / a) if a else None)
            for c, p, a in zip(correct, predicted, actual, strict=True)
        ]


class NumberScores(Scores):
    """Scores of a regression, in the units of the table.

    Attributes:
        pairs: The first MAX_PAIRS predictions and labels: two lists of arrays.
    """

    def __init__(self, target: Target, readouts: int | None, labelled: bool, circuits: int) -> None:
        super().__init__(target, readouts, labelled, circuits)
        self.pairs: tuple[list[float], list[float]] = ([], [])
        self._sums = np.zeros(4)  # squared and absolute error, label, squared label; scaled

    def _add(
        self, predictions: np.ndarray, labels: np.ndarray | None, origin: Origin | None
    ) -> None:
        room = MAX_PAIRS - len(self.pairs[0])
        self.pairs[0].extend(in_units(self.target, predictions[:room]).tolist())
        if labels is None:
            return
        self.pairs[1].extend(in_units(self.target, labels[:room]).tolist())
        truth = labels.astype(np.float64)
        errors = predictions.astype(np.float64) - truth
        parts = (errors**2, np.abs(errors), truth, truth**2)
        self._sums += [part.sum() for part in parts]
        if origin:
            shown = [in_units(self.target, numbers) for numbers in (labels, predictions)]
            sizes = np.abs(errors) * self.target.scale
            self.errors.add(sizes, origin, lambda i: (f"{shown[0][i]:.6g}", f"{shown[1][i]:.6g}"))

    def _metrics(self) -> dict[str, float]:
        squared, absolute, mean, mean_square = self._sums / self.total
        scale = self.target.scale
        r2 = 1 - squared / max(mean_square - mean**2, 1e-12)
        return {"mse": squared * scale**2, "mae": absolute * scale, "r2": float(r2)}


class MemberScores(Scores):
    """Scores of energies or fidelities: all are kept, in order."""

    def __init__(self, target: Target, readouts: int | None, labelled: bool, circuits: int) -> None:
        super().__init__(target, readouts, labelled, circuits)
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def _add(
        self, predictions: np.ndarray, labels: np.ndarray | None, origin: Origin | None
    ) -> None:
        assert labels is not None
        self._parts.append((predictions.astype(np.float64), labels.astype(np.float64)))

    @property
    def values(self) -> np.ndarray:
        """float64 [members]: energies, or fidelities of states or of perturbed devices."""
        return np.concatenate([part[0] for part in self._parts])

    @property
    def references(self) -> np.ndarray:
        """float64 [members]: reference energies, or 1."""
        return np.concatenate([part[1] for part in self._parts])

    def _metrics(self) -> dict[str, float]:
        mean = float(self.values.mean())
        if self.target.kind != "energy":
            return {"infidelity": 1 - mean, "fidelity": mean}
        if not self.target.has_reference:
            return {"energy": mean}
        errors = np.abs(self.values - self.references)
        return {
            "energy": mean,
            "energy_error": float(errors.mean()),
            "largest_error": float(errors.max()),
        }


def scores_for(
    target: Target,
    readouts: int | None,
    labelled: bool,
    circuits: int,
    *,
    is_mitigated: bool = False,
) -> Scores:
    """Return empty scores of a target; see `Scores`."""
    kinds: Mapping[str, type[Scores]] = {"signs": ClassScores, "classes": ClassScores}
    kind = kinds.get(target.kind, NumberScores if target.kind == "number" else MemberScores)
    scores = kind(target, readouts, labelled, circuits)
    if is_mitigated:
        scores.unmitigated = kind(target, None, labelled, circuits)
    return scores


def class_probabilities(target: Target, predictions: np.ndarray) -> np.ndarray:
    """Return float64 [n, classes]: the softmax of logits, or (1 + p) / 2 of signed predictions."""
    if target.kind == "signs":
        positive = (1 + np.clip(predictions.astype(np.float64), -1, 1)) / 2
        return np.stack([1 - positive, positive], axis=1)
    logits = predictions.astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    normalized: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return normalized


def in_units(target: Target, numbers: np.ndarray) -> np.ndarray:
    """Return float64 [n]: scaled predictions or labels of a regression in the table's units.

    They are rounded to what float32 resolves, so that a label looks as in the table.
    """
    return rounded(target, numbers.astype(np.float64) * target.scale + target.center)


def rounded(target: Target, numbers: np.ndarray) -> np.ndarray:
    """Return numbers of a regression, float64 [n], with seven decimals of their scale."""
    digits = 7 - math.ceil(math.log10(target.scale))
    return np.round(numbers, digits) if digits <= MAX_DIGITS else numbers
