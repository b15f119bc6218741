"""The plots of a study: the metric over each varied setting, and learning curves with bands."""

from collections.abc import Mapping, Sequence
from itertools import cycle, product

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from common.metrics import title
from inference.svg_plots import COLOURS, STYLE, WIDTH_INCHES, figure_of, plain_text, to_svg
from studies.tables import mean_interval

MAX_CURVES = 6
"""Most combinations whose learning curves are drawn."""

_CURVE_COLOURS = ("negative", "positive", "train", "warning", "muted", "ink")
_CURVE_LINES = ("-", "--", ":", "-.")
LOG_RATIO = 10
MAX_LABEL = 60


def metric_over_setting(trials: pd.DataFrame, setting: str, metric: str) -> str:
    """Plot a metric of all trials by the value of a setting, with means and 95 % intervals.

    Args:
        trials: Rows with columns for the setting and the metric.
        setting: Name of the setting in lower case.
        metric: Column of the metric, such as `test mse`.
    """
    rows = trials[[setting, metric]].dropna()
    numeric = pd.api.types.is_numeric_dtype(rows[setting])
    values = sorted(rows[setting].unique()) if numeric else list(rows[setting].unique())
    positions = [float(v) for v in values] if numeric else list(map(float, range(len(values))))
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES * 0.6, 2.9)
        for value, position in zip(values, positions, strict=True):
            numbers = rows.loc[rows[setting] == value, metric].to_numpy(float)
            axes.plot(
                np.full(len(numbers), position), numbers, linestyle="", marker="o", markersize=4,
                color=COLOURS["train"], alpha=0.45,
            )  # fmt: skip
        means = [
            mean_interval(rows.loc[rows[setting] == value, metric].tolist()) for value in values
        ]
        # A search draws nearly every value once: there is no mean to show.
        if any(found.count > 1 for found in means):
            axes.errorbar(
                positions, [found.mean for found in means], color=COLOURS["negative"],
                yerr=np.transpose([_errors(f.mean, f.low, f.high) for f in means]),
                marker="o", markersize=6, capsize=4, linewidth=1.6,
                linestyle="-" if numeric else "",
            )  # fmt: skip
        _mark_values(axes, values, positions, numeric=numeric)
        split, _, name = metric.partition(" ")
        axes.set(xlabel=setting.upper(), ylabel=f"{plain_text(title(name))} ({split})")
        return to_svg(figure, f"over-{setting}", f"{metric} by {setting.upper()}")


def _mark_values(
    axes: Axes, values: Sequence[object], positions: Sequence[float], *, numeric: bool
) -> None:
    """Label the values of the setting; numbers of several magnitudes get a logarithmic scale."""
    if not numeric:
        axes.set_xticks(positions, [plain_text(str(value)) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
        return
    if min(positions) > 0 and max(positions) > LOG_RATIO * min(positions):
        axes.set_xscale("log")
    elif len(values) <= 8:
        axes.set_xticks(positions, [f"{position:g}" for position in positions])


def _errors(mean: float, low: float, high: float) -> tuple[float, float]:
    """Return the lengths of the error bar below and above the mean."""
    if np.isnan(low):
        return 0.0, 0.0
    return max(0.0, mean - low), max(0.0, high - mean)


def learning_curves(
    curves: Mapping[str, Sequence[Sequence[float]]], metric: str, split: str = "validation"
) -> str:
    """Plot the metric by epoch: the mean of each combination, and the range over its seeds.

    Args:
        curves: Values by epoch of each seed, by label of the combination, or of one run by its
            name.
        metric: Name of the metric.
        split: The examples that it is measured on, such as training.
    """
    styles = cycle(product(_CURVE_LINES, _CURVE_COLOURS))
    legend_rows = -(-len(curves) // 2)
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES, 2.7 + 0.2 * max(3, legend_rows))
        for (name, seeds), (line, colour) in zip(curves.items(), styles, strict=False):
            length = min(map(len, seeds))
            values = np.array([seed[:length] for seed in seeds], float)
            epochs = np.arange(1, length + 1)
            axes.plot(
                epochs, values.mean(axis=0), color=COLOURS[colour], linewidth=1.7, linestyle=line,
                label=plain_text(name, MAX_LABEL), marker="o" if length == 1 else "",
            )  # fmt: skip
            axes.fill_between(
                epochs, values.min(axis=0), values.max(axis=0), color=COLOURS[colour], alpha=0.18,
                linewidth=0,
            )  # fmt: skip
        axes.set(xlabel="epoch", ylabel=f"{plain_text(title(metric))} ({split})")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside upper right", ncols=2)
        return to_svg(figure, f"curves-{split}", f"Learning curves of the {split} examples")
