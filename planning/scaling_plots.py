"""The two plots of `make scaling`: time against qubits, efficiency against workers."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from planning.bottlenecks import GOAL
from planning.scaling_point import ScalingPoint

TIME, EFFICIENCY = "time_against_qubits.png", "efficiency_against_workers.png"


def draw(points: Sequence[ScalingPoint], folder: Path) -> None:
    """Write both into a folder."""
    for name, made in ((TIME, time(points)), (EFFICIENCY, efficiency(points))):
        made.savefig(folder / name, dpi=110, metadata={"Software": None})
        plt.close(made)


def time(points: Sequence[ScalingPoint]) -> Figure:
    """Milliseconds an example against qubits, a line for each number of workers."""
    figure, panels = _panels(points)
    colors = _colors([one.workers for one in points])
    for axes, (work, chosen) in zip(panels, _by_work(points).items(), strict=True):
        for workers, color in colors.items():
            own = [one for one in chosen if one.workers == workers]
            heights = [1e3 / one.rate for one in own]
            _line(axes, [one.qubits for one in own], heights, own, color)
        axes.set(title=work, yscale="log", xlabel="qubits")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(2, 0.5)))
        axes.set_xticks(sorted({one.qubits for one in points}))
    panels[0].set_ylabel("ms an example, all workers together")
    labels = {f"{workers} worker{'s' * (workers > 1)}": c for workers, c in colors.items()}
    _legend(figure, labels, points)
    return figure


def efficiency(points: Sequence[ScalingPoint]) -> Figure:
    """Rate over that of independent workers against workers, a line for each width."""
    figure, panels = _panels(points)
    colors = _colors([one.qubits for one in points])
    for axes, (work, chosen) in zip(panels, _by_work(points).items(), strict=True):
        axes.axhline(GOAL, color="0.6", linewidth=1, linestyle=":")
        for qubits, color in colors.items():
            own = [one for one in chosen if one.qubits == qubits]
            workers = [one.workers for one in own]
            _line(axes, workers, [one.efficiency for one in own], own, color)
            plain = [one for one in own if not one.crowded]
            axes.plot(
                [one.workers for one in plain],
                [one.ratio / one.workers for one in plain],
                color=color, linestyle="--", linewidth=1,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.set(title=work, xlabel="workers", ylim=(0, 1.15))
        axes.set_xticks(sorted({one.workers for one in points}))
    panels[0].set_ylabel(
        "rate over independent workers'\n(dashed: over one worker's, for each worker)"
    )
    _legend(figure, {f"{qubits} qubits": color for qubits, color in colors.items()}, points)
    return figure


def _by_work(points: Sequence[ScalingPoint]) -> dict[str, list[ScalingPoint]]:
    """The points of each panel, by qubits and workers."""
    panels: dict[str, list[ScalingPoint]] = {}
    for one in sorted(points, key=lambda one: (one.kind, one.qubits, one.workers)):
        panels.setdefault(f"{one.kind}: {one.work}", []).append(one)
    return panels


def _panels(points: Sequence[ScalingPoint]) -> tuple[Figure, list[Axes]]:
    count = len(_by_work(points))
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
    places: Sequence[int],
    heights: Sequence[float],
    points: Sequence[ScalingPoint],
    color: str,
) -> None:
    """A line through what was measured; hollow and on no line where workers shared cores."""
    for crowded in (False, True):
        chosen = [
            (x, y)
            for x, y, one in zip(places, heights, points, strict=True)
            if one.crowded is crowded
        ]
        if chosen:
            axes.plot(
                *zip(*chosen, strict=True), color=color, marker="o", markersize=5,
                linestyle="none" if crowded else "-",
                markerfacecolor="none" if crowded else color,
            )  # fmt: skip


def _legend(figure: Figure, labels: dict[str, str], points: Sequence[ScalingPoint]) -> None:
    handles = [
        plt.Line2D([], [], color=color, marker="o", markersize=5, label=label)
        for label, color in labels.items()
    ]
    if any(one.crowded for one in points):
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
