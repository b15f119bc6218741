"""The report's plots."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from common.metrics import title
from inference.gradient_variance import SMALL_VARIANCE, GradientVariance
from inference.histogram import Histogram
from inference.scoring import ClassScores, Scores
from inference.svg_plots import COLOURS, STYLE, WIDTH_INCHES, figure_of, plain_text, to_svg


def loss_curve(
    metrics: Sequence[Mapping[str, Any]],
    loss: str,
    initializations: int,
    initialization_epochs: int,
) -> str:
    """Plot the loss by epoch, with a separate line for each initialization.

    Args:
        metrics: The rows of metrics.jsonl: epoch, the loss and its value in validation; at least
            one.
        loss: Name of the loss.
        initializations: Number of random initializations, of which the best was continued.
        initialization_epochs: Epochs per initialization.
    """
    epochs = np.array([row["epoch"] for row in metrics], int)
    before = initializations * initialization_epochs if initializations > 1 else 0
    bounds = [0, epochs.max()]
    if before:
        bounds = [*range(0, before, initialization_epochs), before, epochs.max()]
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES, 3.3)
        kinds = ((loss, "training", "train"), (f"val_{loss}", "validation", "positive"))
        for key, name, colour in kinds:
            values = np.array([row[key] for row in metrics], float)
            for first, last in pairwise(bounds):
                inside = (epochs > first) & (epochs <= last)
                label = name if last == bounds[-1] else None
                alpha = 1.0 if first >= before else 0.65
                width = 1.8 if first >= before else 1.2
                axes.plot(
                    epochs[inside], values[inside], color=COLOURS[colour], linewidth=width,
                    alpha=alpha, label=label, marker="o" if inside.sum() == 1 else "", ms=3,
                )  # fmt: skip
        axes.set(xlim=(0.5, max(epochs.max() + 0.5, 2)))
        if loss != "energy":
            axes.set(ylim=(0, axes.get_ylim()[1]))
        if before:
            continued = bool(epochs.max() > before)
            _mark_initializations(axes, initializations, initialization_epochs, continued=continued)
        axes.set(xlabel="epoch", ylabel=plain_text(title(loss)))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper right")
        return to_svg(figure, "loss", "Loss curve of training and validation")


def _mark_initializations(axes: Axes, count: int, epochs: int, *, continued: bool) -> None:
    """Shade the initializations, and mark the epoch from which the best one was continued."""
    end = count * epochs + 0.5
    axes.axvspan(0.5, end, color=COLOURS["band"], linewidth=0)
    for edge in range(epochs, count * epochs, epochs):
        axes.axvline(edge + 0.5, color=COLOURS["rule"], linewidth=0.8)
    above: dict[str, Any] = {
        "xycoords": axes.get_xaxis_transform(),
        "va": "bottom",
        "color": COLOURS["muted"],
    }
    axes.annotate(f"{count} random initializations", (0.5, 1.02), **above)
    if continued:
        axes.axvline(end, color=COLOURS["muted"], linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate("best initialization continued", (end, 1.02), **above)


def predictions(scores: ClassScores, classes: Sequence[str]) -> str:
    """Plot the histogram of the predictions, by label if labels are known."""
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES, 2.9)
        edge = max(1.0, scores.predictions.largest) * 1.02
        _histogram(axes, scores.predictions, edge, scores, classes)
        axes.axvline(0, color=COLOURS["muted"], linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xlabel="prediction (its sign is the class)", ylabel="examples")
        if scores.labelled:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)
        return to_svg(figure, "predictions", "Histogram of predictions by label")


def readouts(scores: Scores, classes: Sequence[str]) -> str:
    """Plot histograms of the first readouts, by label if there are two classes."""
    shown = len(scores.readouts)
    columns = min(shown, 4)
    rows = -(-shown // columns)
    # All panels have the same scale, which fits small readouts too.
    largest = max(histogram.largest for histogram in scores.readouts)
    edge = min(1.0, max(0.05, np.ceil(largest * 22) / 20))
    with mpl.rc_context(STYLE):
        width = WIDTH_INCHES * min(1, 0.5 + 0.25 * (columns - 1))
        figure, grid = figure_of(
            width, 2.3 * rows + 0.2, nrows=rows, ncols=columns, sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        for i, axes in enumerate(grid.flat):
            if i >= shown:
                axes.set_visible(False)
                continue
            _histogram(axes, scores.readouts[i], edge, scores, classes)
            axes.set_title(f"readout {i}")
            axes.set(xlim=(-edge * 1.02, edge * 1.02), xticks=(-edge, 0, edge))
        for axes in grid[-1]:
            axes.set_xlabel("expectation value")
        for axes in grid[:, 0]:
            axes.set_ylabel("examples")
        return to_svg(figure, "readouts", "Histograms of readouts by label")


def _histogram(
    axes: Axes, values: Histogram, edge: float, scores: Scores, classes: Sequence[str]
) -> None:
    # Few examples get few bins. An even number makes 0, where the class changes, an edge.
    edges, counts = values.rebinned(edge, 2 * round(min(30, max(6, scores.total**0.5))))
    groups = [(counts[0], COLOURS["train"], "")]
    if scores.labelled and len(classes) == 2:
        groups = [
            (counts[0], COLOURS["negative"], f"label {plain_text(classes[0])}"),
            (counts[1], COLOURS["positive"], f"label {plain_text(classes[1])}"),
        ]
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    for group, colour, name in groups:
        axes.stairs(group, edges, fill=True, color=colour, alpha=0.42, label=name)
        axes.stairs(group, edges, color=colour, linewidth=1.1)


def gradient_variance(measured: GradientVariance, name: str) -> str:
    """Plot the gradient variance by layer, compared with that of a random circuit."""
    layers = measured.layers
    with mpl.rc_context(STYLE | {"axes.grid.axis": "x"}):
        figure, axes = figure_of(WIDTH_INCHES, 0.9 + 0.42 * len(layers))
        positions = np.arange(len(layers))
        values = np.array([max(layer.variance, 1e-12) for layer in layers])
        limits = np.array([layer.plateau for layer in layers])
        low = 10 ** np.floor(np.log10(min(values.min(), limits.min(), SMALL_VARIANCE) / 2))
        high = 10 ** np.ceil(np.log10(max(values.max(), limits.max())))
        axes.plot(
            limits, positions, linestyle="", marker="|", markersize=20, markeredgewidth=2,
            color=COLOURS["muted"], label=f"a random circuit of {measured.qubits} qubits",
        )  # fmt: skip
        kinds = (
            (False, "negative", "this circuit"),
            (True, "warning", "this circuit: barren plateau"),
        )
        for flat, colour, name_of_kind in kinds:
            of_kind = [layer.is_flat == flat for layer in layers]
            axes.plot(
                values[of_kind], positions[of_kind], linestyle="", marker="o", markersize=9,
                color=COLOURS[colour],
                label=name_of_kind if any(of_kind) else None,
            )  # fmt: skip
        axes.set(
            xscale="log", xlim=(low, high), yticks=positions, ylim=(len(layers) - 0.5, -0.5),
            xlabel="variance of d(readout)/d(angle), per radian²",
        )  # fmt: skip
        axes.set_yticklabels(
            [f"{plain_text(layer.name)} ({layer.angles} angles)" for layer in layers]
        )
        figure.legend(loc="outside upper right", ncols=3)
        return to_svg(figure, name, "Gradient variance by layer")
