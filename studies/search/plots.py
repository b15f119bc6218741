"""The plots of a search: error against price, and the lowest error by evaluations."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from inference.svg_plots import COLOURS, STYLE, WIDTH_INCHES, figure_of, plain_text, to_svg

LEAST_ERROR = 1e-12
"""Smallest error that is drawn: smaller ones are rounding, and may be negative."""

MAX_CURVES = 10

_LINES = ("-", "--", ":", "-.")
_CURVE_COLOURS = ("negative", "positive", "train", "warning", "muted", "ink")


def front_plot(
    points: Sequence[tuple[int, float]], front: Sequence[tuple[int, float]], is_error: bool
) -> str:
    """Plot the error of all circuits by their CNOTs, and the front.

    Args:
        points: CNOTs and error of all circuits.
        front: Those of the front.
        is_error: False if the reference is not known, so that errors are energies.
    """
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES * 0.75, 3.4)
        for pairs, colour, size, name in (
            (points, "muted", 3, "trained circuits"),
            (sorted(front), "negative", 6, "front"),
        ):
            counts, errors = _columns(pairs, is_error)
            axes.plot(
                counts, errors, linestyle="-" if name == "front" else "", marker="o",
                drawstyle="steps-post", markersize=size, color=COLOURS[colour], label=name,
                alpha=1 if name == "front" else 0.35,
            )  # fmt: skip
        _label(axes, "CNOTs", is_error)
        figure.legend(loc="outside upper right", ncols=2)
        return to_svg(figure, "front", "Error by CNOTs")


def history_plot(seeds: Mapping[str, Sequence[tuple[int, float]]], is_error: bool) -> str:
    """Plot the lowest error so far by evaluations, a curve for each of the first seeds.

    Args:
        seeds: Evaluations and error of each circuit, in order, by the name of the seed.
        is_error: As for `front_plot`.
    """
    styles = cycle((line, colour) for line in _LINES for colour in _CURVE_COLOURS)
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES, 3.2)
        for (name, results), (line, colour) in zip(
            [*seeds.items()][:MAX_CURVES], styles, strict=False
        ):
            counts, errors = _columns(results, is_error)
            axes.plot(
                np.cumsum(counts), np.minimum.accumulate(errors), drawstyle="steps-post",
                linestyle=line, color=COLOURS[colour], linewidth=1.6, label=plain_text(name),
            )  # fmt: skip
        _label(axes, "evaluations", is_error)
        axes.set_xscale("log")
        figure.legend(loc="outside upper right", ncols=5)
        return to_svg(figure, "history", "Lowest error by evaluations")


def _columns(pairs: Sequence[tuple[int, float]], is_error: bool) -> tuple[np.ndarray, np.ndarray]:
    counts = np.array([count for count, _ in pairs], float)
    errors = np.array([error for _, error in pairs], float)
    return counts, np.maximum(errors, LEAST_ERROR) if is_error else errors


def _label(axes: Axes, horizontal: str, is_error: bool) -> None:
    if is_error:
        axes.set_yscale("log")
    axes.set(xlabel=horizontal, ylabel="error" if is_error else "energy")
