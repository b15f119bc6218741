"""The plots of `make fleet`: time and cost, checkpoint intervals, reachable numbers of qubits."""

from collections.abc import Mapping, Sequence

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.text import plural
from planning.fleet.hardware import FLEETS, epoch, reach
from planning.fleet.study import CheckpointInterval, SweepPoint

TICKS = {
    0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h",
    345_600: "4 days", 2_592_000: "30 days", 31_536_000: "1 year",
}  # fmt: skip


def workers(points: Sequence[SweepPoint], price: float) -> Figure:
    """Plot time, and cost or worker-hours, against workers, with a line per batch."""
    figure, (time_axes, cost_axes) = plt.subplots(1, 2, figsize=(11, 4.6))
    for number, (data, batch) in enumerate(dict.fromkeys((one.data, one.batch) for one in points)):
        own = [one for one in points if (one.data, one.batch) == (data, batch)]
        label = f"batch {batch:,}, {data}" if data else f"batch {batch:,}"
        _time_line(time_axes, own, f"C{number}", label)
        done = [one for one in own if np.isfinite(one.seconds)]
        hours = [one.workers * one.seconds / 3600 * (price or 1.0) for one in done]
        cost_axes.plot([one.workers for one in done], hours, f"C{number}o-", markersize=3)
    _seconds_axis(time_axes, "y")
    time_axes.set(xscale="log", xlabel="workers", title="time to the result")
    finite = any(np.isfinite(one.seconds) for one in points)  # an empty axis has no logarithm
    cost_axes.set(xscale="log", yscale="log" if finite else "linear", xlabel="workers")
    cost_axes.set_title("cost" if price else "worker-hours")
    for axes in (time_axes, cost_axes):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    cost_axes.yaxis.set_major_formatter("{x:,g}")
    figure.legend(loc="upper left", bbox_to_anchor=(0.57, 0.9), fontsize=9)
    note = "dotted: without stragglers and losses; band: 10 to 90 % of the runs"
    _note(figure, f"{note}; dashed vertical line: from here on, most runs never finish")
    return figure


def _time_line(axes: Axes, points: Sequence[SweepPoint], color: str, label: str) -> None:
    done = [one for one in points if np.isfinite(one.seconds)]
    counts = [one.workers for one in done]
    axes.plot(counts, [p.seconds for p in done], f"{color}o-", markersize=3, label=label)
    low, high = [p.low_seconds for p in done], [p.high_seconds for p in done]
    axes.fill_between(counts, low, high, color=color, alpha=0.2, lw=0)
    ideal = [p.undisturbed_seconds for p in points]
    axes.plot([p.workers for p in points], ideal, f"{color}:", lw=1)
    for failing in [p for p in points if p not in done][:1]:
        axes.axvline(failing.workers, color=color, lw=1, ls="--")


def checkpoints(
    intervals: Mapping[int, Sequence[CheckpointInterval]], optimum_seconds: float
) -> Figure:
    """Plot the overhead of checkpoints and losses against the interval between checkpoints."""
    figure, axes = plt.subplots(figsize=(7, 4.6))
    for color, (count, row) in enumerate(intervals.items()):
        finite = [one for one in row if np.isfinite(one.overhead)]
        axes.plot(
            [one.seconds for one in finite], [100 * one.overhead for one in finite],
            f"C{color}o-", markersize=3, label=plural(count, "worker"),
        )  # fmt: skip
    if np.isfinite(optimum_seconds):
        axes.axvline(optimum_seconds, color="0.4", lw=1, ls="--", label="Daly's optimum")
    _seconds_axis(axes, "x")
    positive = any(0 < one.overhead < np.inf for row in intervals.values() for one in row)
    axes.set(
        yscale="log" if positive else "linear",
        ylabel="% longer than without losses and checkpoints",
    )
    axes.set(xlabel="work between two checkpoints", title="checkpoint interval")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    _note(figure, "losses of workers other than the chief cost the same at any interval")
    return figure


def reachable_fleets(examples: int, batch: int, limit_seconds: float = 3600.0) -> Figure:
    """Plot the seconds of an epoch against qubits for each fleet, with a line at the limit."""
    figure, axes = plt.subplots(figsize=(8, 5))
    for color, fleet in enumerate(FLEETS):
        costs = [(n, epoch(fleet, n, examples, batch)) for n in range(16, 46)]
        fitting = [(n, cost) for n, cost in costs if cost is not None]
        shown = [(n, cost) for n, cost in fitting if cost.seconds < 3e7]
        qubits = reach(fleet, limit_seconds, examples, batch)
        label = f"{fleet.name}: {qubits} qubits"
        axes.plot([n for n, _ in shown], [c.seconds for _, c in shown], f"C{color}-", label=label)
        sharded = [(n, c.seconds) for n, c in shown if c.state_shards > 1]
        if sharded:
            axes.plot(*zip(*sharded, strict=True), f"C{color}s", markersize=4)
        if shown and fitting[-1][0] == shown[-1][0]:
            axes.plot(shown[-1][0], shown[-1][1].seconds, f"C{color}x", markersize=9)
        if last := epoch(fleet, qubits, examples, batch):
            axes.plot(qubits, last.seconds, f"C{color}o", markersize=7)
    axes.axhline(limit_seconds, color="0.4", lw=1, ls="--")
    _seconds_axis(axes, "y")
    axes.set(xlabel="qubits", ylabel="an epoch", xlim=(16, None))
    axes.set_title(f"qubits within reach: {examples:,} examples per hour")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="lower right")
    _note(figure, "dot: most qubits per hour; squares: sharded states; cross: memory limit")
    return figure


def _seconds_axis(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with ticks in seconds, minutes, hours and days."""
    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = getattr(axes, f"get_{which}lim")()
    shown = {at: text for at, text in TICKS.items() if low <= at <= high}
    if len(shown) >= 2:
        axis.set_ticks(list(shown), labels=list(shown.values()))
        axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    else:
        axis.set_major_formatter("{x:,g} s")


def _note(figure: Figure, text: str) -> None:
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.text(0.5, 0.015, text, ha="center", fontsize=8, color="0.35")
