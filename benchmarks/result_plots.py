"""The two plots: time by number of qubits, and time by batch."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.cases import Row
from benchmarks.systems import SYSTEMS

_MARKERS = "os^Dv<>PX*"
_STYLE = {
    name: (system.title, f"C{index}", _MARKERS[index % len(_MARKERS)])
    for index, (name, system) in enumerate(SYSTEMS.items())
}
_COLUMNS = 4  # of the legend
_BATCH_QUBITS = (8, 16)


def plot(rows: Sequence[Row], folder: Path) -> None:
    """Write time_against_qubits.png and time_against_batch.png."""
    qcnn = [row for row in rows if row["model"] == "qcnn"]
    train = [row for row in qcnn if row["task"] == "train"]
    forward = [row for row in qcnn if row["task"] == "forward"]

    def plot_by_qubits(axes: Axes, selected: Sequence[Row]) -> None:
        _lines(axes, _best_batches(selected), lambda row: row["qubits"])
        axes.set_xlabel("qubits (each system at its best batch)")
        axes.set_xticks(sorted({row["qubits"] for row in qcnn}))

    def plot_by_batch(axes: Axes, selected: Sequence[Row]) -> None:
        _lines(axes, selected, lambda row: row["batch"])
        axes.set_xscale("log", base=2)
        axes.set_xlabel("batch")
        axes.xaxis.set_major_formatter("{x:.0f}")

    _figure(
        folder / "time_against_qubits.png",
        plot_by_qubits,
        {"QCNN, training step": train, "QCNN, forward": forward},
    )
    _figure(
        folder / "time_against_batch.png",
        plot_by_batch,
        {
            f"QCNN of {qubits} qubits, training step": [r for r in train if r["qubits"] == qubits]
            for qubits in _BATCH_QUBITS
        },
    )


def _best_batches(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest batch of each system and width."""
    best: dict[tuple[str, int], Row] = {}
    for row in sorted(rows, key=lambda row: -row["ms_per_circuit"]):
        best[row["system"], row["qubits"]] = row
    return list(best.values())


def _lines(axes: Axes, rows: Sequence[Row], x: Callable[[Row], int]) -> None:
    for system, (name, color, marker) in _STYLE.items():
        points = sorted((x(row), row["ms_per_circuit"]) for row in rows if row["system"] == system)
        if points:
            axes.plot(*zip(*points, strict=True), color=color, marker=marker, label=name)


def _figure(
    path: Path, plot_panel: Callable[[Axes, Sequence[Row]], None], panels: dict[str, list[Row]]
) -> None:
    figure, all_axes = plt.subplots(1, len(panels), figsize=(9, 4.4), sharey=True, squeeze=False)
    for axes, (title, rows) in zip(all_axes[0], panels.items(), strict=True):
        plot_panel(axes, rows)
        axes.set_yscale("log")
        axes.set_title(title, fontsize=12)
        axes.grid(alpha=0.3)
    all_axes[0][0].set_ylabel("ms per circuit")
    handles = {
        label: handle
        for axes in all_axes[0]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncols=_COLUMNS, fontsize="small"
    )
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
