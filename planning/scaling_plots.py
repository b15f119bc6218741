"""The two plots of `make plan SCALING=1`: time against qubits, efficiency against workers."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.text import plural
from planning.bottlenecks import TARGET_EFFICIENCY
from planning.scaling_point import ScalingPoint

TIME, EFFICIENCY = "time_against_qubits.png", "efficiency_against_workers.png"


def draw(points: Sequence[ScalingPoint], folder: Path) -> None:
    """Write both plots into a folder."""
    for name, figure in ((TIME, time(points)), (EFFICIENCY, efficiency(points))):
        figure.savefig(folder / name, dpi=110, metadata={"Software": None})
        plt.close(figure)


def time(points: Sequence[ScalingPoint]) -> Figure:
    """Plot milliseconds per example against qubits, with a line per number of workers."""
    figure, panels = _panels(points)
    colors = _colors([one.workers for one in points])
    for axes, (title, selected) in zip(panels, _by_label(points).items(), strict=True):
        for workers, color in colors.items():
            own = [one for one in selected if one.workers == workers]
            milliseconds = [1e3 / one.examples_per_second for one in own]
            _line(axes, [one.qubits for one in own], milliseconds, own, color)
        axes.set(title=title, yscale="log", xlabel="qubits")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(2, 0.5)))
        axes.set_xticks(sorted({one.qubits for one in points}))
    panels[0].set_ylabel("ms per example, all workers together")
    _legend(figure, {plural(workers, "worker"): c for workers, c in colors.items()}, points)
    return figure


def efficiency(points: Sequence[ScalingPoint]) -> Figure:
    """Plot efficiency against workers, with a line per width."""
    figure, panels = _panels(points)
    colors = _colors([one.qubits for one in points])
    for axes, (title, selected) in zip(panels, _by_label(points).items(), strict=True):
        axes.axhline(TARGET_EFFICIENCY, color="0.6", linewidth=1, linestyle=":")
        for qubits, color in colors.items():
            own = [one for one in selected if one.qubits == qubits]
            workers = [one.workers for one in own]
            _line(axes, workers, [one.efficiency for one in own], own, color)
            plain = [one for one in own if not one.oversubscribed]
            axes.plot(
                [one.workers for one in plain],
                [one.speedup / one.workers for one in plain],
                color=color, linestyle="--", linewidth=1,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.set(title=title, xlabel="workers", ylim=(0, 1.15))
        axes.set_xticks(sorted({one.workers for one in points}))
    panels[0].set_ylabel("rate / rate of independent workers\n(dashed: speedup / workers)")
    _legend(figure, {f"{qubits} qubits": color for qubits, color in colors.items()}, points)
    return figure


def _by_label(points: Sequence[ScalingPoint]) -> dict[str, list[ScalingPoint]]:
    """Return title -> points of each panel, sorted by qubits and workers."""
    panels: dict[str, list[ScalingPoint]] = {}
    for one in sorted(points, key=lambda one: (one.kind, one.qubits, one.workers)):
        panels.setdefault(f"{one.kind}: {one.label}", []).append(one)
    return panels


def _panels(points: Sequence[ScalingPoint]) -> tuple[Figure, list[Axes]]:
    count = len(_by_label(points))
    figure, axes = plt.subplots(
        1, count, figsize=(max(6.0, 3.8 * count), 4.6), sharey=True, squeeze=False
    )
    for one in axes[0]:
        one.grid(alpha=0.3)
    return figure, list(axes[0])


def _colors(values: Sequence[int]) -> dict[int, str]:
    return {value: f"C{number}" for number, value in enumerate(sorted(set(values)))}


def _line(
    axes: Axes,
    x_values: Sequence[int],
    y_values: Sequence[float],
    points: Sequence[ScalingPoint],
    color: str,
) -> None:
    """Draw a line through measured points; oversubscribed ones are hollow and not connected."""
    for oversubscribed in (False, True):
        selected = [
            (x, y)
            for x, y, one in zip(x_values, y_values, points, strict=True)
            if one.oversubscribed is oversubscribed
        ]
        if selected:
            axes.plot(
                *zip(*selected, strict=True), color=color, marker="o", markersize=5,
                linestyle="none" if oversubscribed else "-",
                markerfacecolor="none" if oversubscribed else color,
            )  # fmt: skip


def _legend(figure: Figure, labels: dict[str, str], points: Sequence[ScalingPoint]) -> None:
    handles = [
        plt.Line2D([], [], color=color, marker="o", markersize=5, label=label)
        for label, color in labels.items()
    ]
    if any(one.oversubscribed for one in points):
        handles.append(
            plt.Line2D(
                [],
                [],
                color="0.3",
                marker="o",
                markersize=5,
                markerfacecolor="none",
                linestyle="none",
                label="more workers than cores: no line",
            )
        )
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), 4), fontsize=9)
    figure.tight_layout(rect=(0, 0.07 + 0.05 * (len(handles) > 4), 1, 1))
