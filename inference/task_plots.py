"""The report's plots that depend on the task; see `svg_plots` for style and colours."""

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from inference.histogram import CALIBRATION_BINS, ProbabilityCalibration
from inference.svg_plots import COLOURS, STYLE, WIDTH_INCHES, figure_of, to_svg

DASHED = (0, (4, 3))

MATRIX_BLOCKS = 40
"""Most rows and columns of a plotted matrix: each is a shape of the SVG."""


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


def kernel_matrix(matrix: np.ndarray) -> str:
    """Plot a kernel matrix [n, n]; large ones as means of blocks."""
    blocks = min(MATRIX_BLOCKS, len(matrix))
    edges = np.linspace(0, len(matrix), blocks + 1).astype(int)
    sums = np.add.reduceat(np.add.reduceat(matrix, edges[:-1], axis=0), edges[:-1], axis=1)
    sizes = np.diff(edges)
    colour = mpl.colors.to_rgb(COLOURS["train"])
    shades = mpl.colors.LinearSegmentedColormap.from_list("kernel", [(*colour, 0), (*colour, 1)])
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        figure, axes = figure_of(WIDTH_INCHES * 0.5, WIDTH_INCHES * 0.45)
        means = sums / np.outer(sizes, sizes)
        axes.pcolormesh(edges, edges, means, cmap=shades, vmin=0, vmax=1)
        axes.set(xlabel="row, by label", ylabel="row, by label", aspect="equal")
        axes.invert_yaxis()
        return to_svg(figure, "kernel-matrix", "Kernel matrix of training rows")


def kernel_spectrum(eigenvalues: np.ndarray) -> str:
    """Plot eigenvalues [n], the largest first."""
    shown = np.maximum(eigenvalues, 1e-12)
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES, 2.6)
        axes.plot(np.arange(1, len(shown) + 1), shown, color=COLOURS["train"], marker="o", ms=2.5)
        axes.set(yscale="log", xlabel="number of the eigenvalue", ylabel="eigenvalue / n")
        return to_svg(figure, "kernel-spectrum", "Eigenvalues of the kernel matrix")


def kernel_widths(qubits: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> str:
    """Plot mean and standard deviation of fidelities by width, all [widths]."""
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES * 0.6, 2.6)
        lines = (means, "train", "mean"), (deviations, "positive", "standard deviation")
        for values, colour, name in lines:
            shown = np.maximum(values, 1e-12)
            axes.plot(qubits, shown, color=COLOURS[colour], marker="o", ms=4, label=name)
        axes.set(yscale="log", xlabel="qubits", ylabel="fidelity of two rows")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="best")
        return to_svg(figure, "kernel-widths", "Fidelities of two rows by number of qubits")
