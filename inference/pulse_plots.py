"""The report's plots of a pulse; see `svg_plots` for style and colours."""

from itertools import product

import matplotlib as mpl
import numpy as np

from inference.pulse_figures import PulseFigures, Sensitivity
from inference.svg_plots import COLOURS, STYLE, WIDTH_INCHES, figure_of, to_svg

_LINES = (
    ("train", "-"), ("positive", "-"), ("negative", "-"), ("warning", "-"),
    ("train", "--"), ("positive", "--"), ("negative", "--"), ("warning", "--"), ("muted", "-"),
)  # fmt: skip
_LEAST = 1e-9  # of a logarithmic axis


def envelopes(figures: PulseFigures) -> str:
    """Plot the amplitudes of all channels by time."""
    with mpl.rc_context(STYLE):
        figure, axes = figure_of(WIDTH_INCHES, 2.8)
        for at, name in enumerate(figures.channels):
            colour, style = _LINES[at % len(_LINES)]
            axes.plot(
                figures.times, figures.amplitudes[:, at], color=COLOURS[colour], linestyle=style,
                drawstyle="steps-mid", label=name,
            )  # fmt: skip
        axes.set(xlabel="time in ns", ylabel="amplitude in rad/ns")
        axes.legend(loc="best", ncols=2)
        return to_svg(figure, "envelopes", "Envelopes of the channels by time")


def populations(figures: PulseFigures) -> str:
    """Plot the probabilities of computational states and of leakage by time."""
    count = figures.populations.shape[1]
    states = [*product(range(2), repeat=len(figures.levels))]
    places = [int(np.ravel_multi_index(state, figures.levels)) for state in states]
    step = figures.times[0] * 2
    times = np.arange(len(figures.populations)) * step
    columns = min(count, 2)
    with mpl.rc_context(STYLE):
        figure, grid = figure_of(
            WIDTH_INCHES, 2.4 * (count // columns), nrows=count // columns, ncols=columns,
            sharex=True, sharey=True, squeeze=False,
        )  # fmt: skip
        for start, axes in enumerate(np.ravel(grid)):
            found = figures.populations[:, start]
            shown = [*found[:, places].T, 1 - found[:, places].sum(axis=1)]
            names = [*("".join(map(str, state)) for state in states), "higher levels"]
            for at, (values, name) in enumerate(zip(shown, names, strict=True)):
                colour, style = _LINES[at % len(_LINES)]
                axes.plot(times, values, color=COLOURS[colour], linestyle=style, label=name)
            axes.set_title(f"from {names[start]}")
        lines = np.ravel(grid)[0].get_legend_handles_labels()
        figure.legend(*lines, loc="outside lower center", ncols=len(names))
        for axes in np.ravel(grid)[-columns:]:
            axes.set(xlabel="time in ns")
        return to_svg(figure, "populations", "Populations by time")


def sensitivity(figures: PulseFigures) -> str:
    """Plot infidelities by the deviation of the frequencies, and of the drives."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = figure_of(WIDTH_INCHES, 2.8, ncols=2, sharey=True)
        shown: tuple[tuple[object, Sensitivity, float, str], ...] = (
            (left, figures.by_frequency, 1e3, "deviation of the frequencies in MHz"),
            (right, figures.by_drive, 100, "deviation of the drives in %"),
        )
        for axes, found, factor, name in shown:
            _curve(axes, found, factor, name)
        left.set(ylabel="infidelity")
        return to_svg(figure, "sensitivity", "Infidelity by deviations of the device")


def _curve(axes: object, found: Sensitivity, factor: float, name: str) -> None:
    plot = axes.plot  # type: ignore[attr-defined]
    curve = np.maximum(found.infidelities, _LEAST)
    plot(found.deviations * factor, curve, color=COLOURS["train"])
    marks = np.interp(found.trained, found.deviations, curve)
    plot(
        np.array(found.trained) * factor, marks, color=COLOURS["positive"], linestyle="",
        marker="o", ms=4,
    )  # fmt: skip
    axes.set(yscale="log", xlabel=name)  # type: ignore[attr-defined]
