"""The report's plots that depend on the task; see `svg_plots` for style and colours."""

import matplotlib as mpl
import numpy as np

from inference.histogram import CALIBRATION_BINS, ProbabilityCalibration
from inference.svg_plots import COLOURS, STYLE, WIDTH_INCHES, figure_of, to_svg

DASHED = (0, (4, 3))


def calibration(measured: ProbabilityCalibration) -> str:
    """Plot accuracy by the probability of the predicted class, with the number of examples."""
    used = measured.counts > 0
    counts = measured.counts[used]
    confidence = measured.confidence[used] / counts
    accuracy = measured.correct[used] / counts
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)
    with mpl.rc_context(STYLE):
        figure, (axes, below) = figure_of(
            WIDTH_INCHES * 0.6, 3.6, nrows=2, sharex=True, height_ratios=(3, 1)
        )
        axes.plot([0, 1], [0, 1], color=COLOURS["muted"], linewidth=1, linestyle=DASHED)
        axes.plot(confidence, accuracy, color=COLOURS["train"], marker="o", ms=5)
        axes.set(xlim=(0, 1.02), ylim=(0, 1.05), ylabel="accuracy")
        below.stairs(measured.counts, edges, fill=True, color=COLOURS["train"], alpha=0.42)
        below.set(xlabel="probability of the predicted class", ylabel="examples")
        return to_svg(figure, "calibration", "Accuracy by predicted probability")


def residuals(predictions: np.ndarray, labels: np.ndarray) -> str:
    """Plot predictions and residuals [n] by label [n]."""
    lowest, highest = float(labels.min()), float(labels.max())
    with mpl.rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure, (left, right) = figure_of(WIDTH_INCHES, 3.6, ncols=2)
        dots = {"linestyle": "", "marker": "o", "ms": 3, "alpha": 0.5, "mew": 0}
        left.plot(
            [lowest, highest], [lowest, highest], color=COLOURS["muted"], linewidth=1,
            linestyle=DASHED,
        )  # fmt: skip
        left.plot(labels, predictions, color=COLOURS["train"], **dots)
        left.set(xlabel="label", ylabel="prediction")
        right.axhline(0, color=COLOURS["muted"], linewidth=1, linestyle=DASHED)
        right.plot(labels, predictions - labels, color=COLOURS["positive"], **dots)
        right.set(xlabel="label", ylabel="residual")
        return to_svg(figure, "residuals", "Predictions and residuals by label")


def energies(
    fields: np.ndarray,
    values: np.ndarray,
    references: np.ndarray,
    name: str,
    limit: float | None,
) -> str:
    """Plot energies and their errors by a field, all [members].

    Args:
        fields: Values of the field.
        values: Energies.
        references: Exact energies.
        name: Name of the field.
        limit: An error that is marked.
    """
    order = np.argsort(fields)
    fields, values, references = fields[order], values[order], references[order]
    errors = np.maximum(np.abs(values - references), 1e-9)
    with mpl.rc_context(STYLE):
        figure, (axes, below) = figure_of(
            WIDTH_INCHES, 4.6, nrows=2, sharex=True, height_ratios=(2, 1)
        )
        axes.plot(fields, references, color=COLOURS["muted"], linewidth=1.4, label="exact")
        axes.plot(
            fields, values, color=COLOURS["train"], linestyle="", marker="o", ms=5, label="model"
        )
        axes.set(ylabel="energy")
        axes.legend(loc="best")
        below.plot(fields, errors, color=COLOURS["positive"], marker="o", ms=4)
        if limit:
            below.axhline(limit, color=COLOURS["muted"], linewidth=1, linestyle=DASHED)
        below.set(yscale="log", xlabel=name, ylabel="error")
        return to_svg(figure, "energies", "Energies and their errors")
