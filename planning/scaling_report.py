"""What `make scaling` leaves: scaling.csv, two plots, and report.md with a paragraph a case."""

import csv
import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import storage
from common.storage import StoragePath
from planning.bottlenecks import main_bottleneck, paragraph
from planning.scaling_plots import EFFICIENCY, TIME, draw
from planning.scaling_point import ScalingPoint
from planning.step_measurement import MEASURED_PARTS

# A worker alone computes all the time; with less than this of its core, something else had it.
BUSY_CPU_PERCENT = 0.85

TABLE, REPORT = "scaling.csv", "report.md"


def write(
    folder: StoragePath,
    points: Sequence[ScalingPoint],
    left_out: Mapping[int, str],
    conditions: Mapping[str, Any],
) -> None:
    """Write all of it; report.md last."""
    storage.write_atomic(folder / TABLE, table(points))
    with tempfile.TemporaryDirectory() as name:
        draw(points, Path(name))
        for plot in (TIME, EFFICIENCY):
            storage.write_atomic(folder / plot, Path(name) / plot)
    storage.write_atomic(folder / REPORT, report(points, left_out, conditions))


def table(points: Sequence[ScalingPoint]) -> str:
    """All points as CSV; what there is for each worker stands in one cell, blanks between."""
    text = io.StringIO()
    heads = ["kind", "qubits", "workers", "batch", "cores", "more_workers_than_cores"]
    heads += ["examples_per_second", "independent_examples_per_second"]
    heads += ["efficiency", "ratio_to_one_worker"]
    heads += [f"{part}_ms" for part in MEASURED_PARTS] + [
        f"independent_{part}_ms" for part in MEASURED_PARTS
    ]
    heads += ["wait_ms", "steps_per_call", "cpu_of_each_worker", "mib_of_each_worker", "limit"]
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(heads)
    for one in points:
        rows.writerow(
            [one.kind, one.qubits, one.workers, one.batch, one.cores, str(one.crowded).lower()]
            + [f"{one.rate:.1f}", f"{one.alone:.1f}", f"{one.efficiency:.4f}", f"{one.ratio:.4f}"]
            + [f"{ms[part]:.4f}" for ms in (one.step_ms, one.alone_ms) for part in MEASURED_PARTS]
            + [f"{one.wait_ms:.4f}", one.steps_per_call, " ".join(f"{cpu:.2f}" for cpu in one.cpu)]
            + [" ".join(map(str, one.rss_mib)), main_bottleneck(one)]
        )
    return text.getvalue()


HEAD = """\
# Scaling: {model}, {where}

`{command}`, {when}{processor}. Each worker computes with {threads} on cores of its own; the
examples turn every qubit, so that each is a simulation of its own (examples that turn few angles,
as those of DATA=excitations, cost a few simulations a step, however many they are, and gain little
by workers).

Efficiency is the gang's rate over that of as many independent workers at the same time, without
exchange and with as many examples a step each (the same processes, on the same cores, each training
by itself). The ratio to one worker stands beside it: it also
holds what neighbours cost each other (caches, the way to memory) and, where the global batch is
fixed, that a worker has fewer examples a step. Each number is the median of {turns}.
"""


def report(
    points: Sequence[ScalingPoint], left_out: Mapping[int, str], conditions: Mapping[str, Any]
) -> str:
    """report.md: how it was measured, a table, a paragraph for each point."""
    told = dict(conditions)
    threads, rounds = told["threads"], told["rounds"]
    text = [
        HEAD.format(
            **told
            | {
                "where": "on this machine" if told["target"] == "local" else "in a cluster",
                "processor": f", {told['processor']}" if told["processor"] else "",
                "threads": f"{threads} thread" + "s" * (threads > 1),
                "turns": f"{rounds} turns" if rounds > 1 else "one turn",
            }
        )
    ]
    if crowded := sorted({one.workers for one in points if one.crowded}):
        cores = max(one.cores for one in points)
        numbers = " and ".join(map(str, crowded))
        each = f" of {threads} threads" if threads > 1 else ""
        text.append(
            f"**There are {cores} cores for {numbers} workers{each}**: these share cores, and are"
            " drawn hollow, without a line. They say nothing of a machine, or a cluster, that has"
            " the cores.\n"
        )
    for workers, why in left_out.items():
        text.append(f"**{workers} workers are left out**: {why}.\n")
    own = [one.alone_cpu for one in points if not one.crowded and threads == 1]
    if own and min(own) < BUSY_CPU_PERCENT:
        text.append(
            f"**Other programs used these cores**: a worker that waits for nobody had"
            f" {min(own):.0%} of its own. The numbers tell of both; measure again on a machine that"
            " has nothing else to do.\n"
        )
    text.append(f"![Time against qubits]({TIME})\n\n![Efficiency against workers]({EFFICIENCY})\n")
    for work in dict.fromkeys((one.kind, one.work) for one in points):
        chosen = [one for one in points if (one.kind, one.work) == work]
        text.append(f"## {work[0].capitalize()} scaling: {work[1]}\n")
        text += [_rows(chosen), *(paragraph(one) + "\n" for one in _in_order(chosen))]
    return "\n".join(text)


def _in_order(points: Sequence[ScalingPoint]) -> list[ScalingPoint]:
    return sorted(points, key=lambda one: (one.qubits, one.workers))


def _rows(points: Sequence[ScalingPoint]) -> str:
    lines = ["| qubits | workers | examples/s | efficiency | ratio to one | limit |"]
    lines.append("|" + "---|" * 6)
    for one in _in_order(points):
        ratio = "-" if one.crowded else f"{one.ratio:.2f}"
        lines.append(
            f"| {one.qubits} | {one.workers} | {one.rate:,.0f} | {one.efficiency:.2f} | {ratio}"
            f" | {main_bottleneck(one)} |"
        )
    return "\n".join(lines) + "\n"
