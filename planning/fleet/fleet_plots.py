"""The plots of `make fleet`: time and cost against workers, checkpoints, qubits within reach."""

from collections.abc import Mapping, Sequence

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planning.fleet.hardware import FLEETS, epoch, reach
from planning.fleet.study import Interval, SweepPoint

TICKS = {
    0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h",
    345_600: "4 days", 2_592_000: "30 days", 31_536_000: "1 year",
}  # fmt: skip


def workers(points: Sequence[SweepPoint], price: float) -> Figure:
    """Time to the result, and cost where there is a price, against workers; a line a batch."""
    figure, all_axes = plt.subplots(1, 2, figsize=(11, 4.6))
    worth = price or 1.0
    for color, (data, batch) in enumerate(dict.fromkeys((one.data, one.batch) for one in points)):
        own = [one for one in points if (one.data, one.batch) == (data, batch)]
        label = f"batch {batch:,}, {data}" if data else f"batch {batch:,}"
        done = [one for one in own if np.isfinite(one.seconds)]
        at = [one.workers for one in done]
        axes = all_axes[0]
        axes.plot(at, [p.seconds for p in done], f"C{color}o-", markersize=3, label=label)
        axes.fill_between(
            at, [p.low for p in done], [p.high for p in done], color=f"C{color}", alpha=0.2, lw=0
        )
        axes.plot([p.workers for p in own], [p.undisturbed for p in own], f"C{color}:", lw=1)
        hours = [p.workers * p.seconds / 3600 * worth for p in done]
        all_axes[1].plot(at, hours, f"C{color}o-", markersize=3)
        for lost in [p for p in own if p not in done][:1]:
            axes.axvline(lost.workers, color=f"C{color}", lw=1, ls="--")
    _seconds(all_axes[0], "y")
    all_axes[0].set(xscale="log", xlabel="workers", title="time to the result")
    ends = any(np.isfinite(one.seconds) for one in points)  # an axis without points has no log
    all_axes[1].set(xscale="log", yscale="log" if ends else "linear", xlabel="workers")
    all_axes[1].set_title("cost" if price else "worker-hours")
    for axes in all_axes:
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    all_axes[1].yaxis.set_major_formatter("{x:,g}")
    figure.legend(loc="upper left", bbox_to_anchor=(0.57, 0.9), fontsize=9)
    note = "dotted: nothing goes wrong; band: 10 to 90 % of the runs"
    _note(figure, f"{note}; dashed upright: from so many workers on most runs never finish")
    return figure


def checkpoints(tried: Mapping[int, Sequence[Interval]], wanted: float) -> Figure:
    """What checkpoints and losses add to a run, against the distance between two checkpoints."""
    figure, axes = plt.subplots(figsize=(7, 4.6))
    for color, (count, found) in enumerate(tried.items()):
        known = [one for one in found if np.isfinite(one.overhead)]
        axes.plot(
            [one.seconds for one in known], [100 * one.overhead for one in known],
            f"C{color}o-", markersize=3, label=f"{count:,} worker{'s' * (count > 1)}",
        )  # fmt: skip
    if np.isfinite(wanted):
        axes.axvline(wanted, color="0.4", lw=1, ls="--", label="Daly's optimum")
    _seconds(axes, "x")
    above = any(0 < one.overhead < np.inf for found in tried.values() for one in found)
    axes.set(
        yscale="log" if above else "linear",
        ylabel="% longer than with no losses and no checkpoints",
    )
    axes.set(xlabel="work between two checkpoints", title="distance of checkpoints")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    _note(figure, "losses of other workers than the chief cost the same at any distance")
    return figure


def reachable_fleets(examples: int, batch: int, limit: float = 3600.0) -> Figure:
    """Seconds of an epoch against qubits on each fleet, and the line of an hour."""
    figure, axes = plt.subplots(figsize=(8, 5))
    for color, fleet in enumerate(FLEETS):
        found = [(n, epoch(fleet, n, examples, batch)) for n in range(16, 46)]
        known = [(n, one) for n, one in found if one is not None and one.seconds < 3e7]
        qubits = reach(fleet, limit, examples, batch)
        label = f"{fleet.name}: {qubits} qubits"
        axes.plot([n for n, _ in known], [e.seconds for _, e in known], f"C{color}-", label=label)
        split = [(n, e.seconds) for n, e in known if e.split > 1]
        axes.plot(*zip(*split, strict=True), f"C{color}s", markersize=4) if split else None
        held = [n for n, e in found if e is not None]
        if known and held[-1] == known[-1][0]:
            axes.plot(known[-1][0], known[-1][1].seconds, f"C{color}x", markersize=9)
        hit = epoch(fleet, qubits, examples, batch)
        if hit:
            axes.plot(qubits, hit.seconds, f"C{color}o", markersize=7)
    axes.axhline(limit, color="0.4", lw=1, ls="--")
    _seconds(axes, "y")
    axes.set(xlabel="qubits", ylabel="an epoch", xlim=(16, None))
    axes.set_title(f"qubits within reach: {examples:,} examples in an hour")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="lower right")
    _note(figure, "dot: the most in an hour; squares: states split over nodes; cross: memory ends")
    return figure


def _seconds(axes: Axes, which: str) -> None:
    """A logarithmic axis of seconds, told as a person says them."""
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
