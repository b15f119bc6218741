"""The files of `make plan SCALING=1`: scaling.csv, two plots, and report.md."""

import csv
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import storage
from common.storage import StoragePath
from common.text import plural
from planning.bottlenecks import main_bottleneck, paragraph
from planning.scaling_plots import EFFICIENCY, TIME, draw
from planning.scaling_point import ScalingPoint
from training.step.constants import STEP_PARTS

MIN_CPU_UTILIZATION = 0.85
"""An independent worker of one thread with less than this shared its core with another program."""

TABLE, REPORT = "scaling.csv", "report.md"


def write(
    folder: StoragePath,
    points: Sequence[ScalingPoint],
    left_out: Mapping[int, str],
    conditions: Mapping[str, Any],
) -> None:
    """Write all files; report.md last."""
    storage.write_atomic(folder / TABLE, table(points))
    with tempfile.TemporaryDirectory() as name:
        draw(points, Path(name))
        for plot in (TIME, EFFICIENCY):
            storage.write_atomic(folder / plot, Path(name) / plot)
    storage.write_atomic(folder / REPORT, report(points, left_out, conditions))


def table(points: Sequence[ScalingPoint]) -> str:
    """Return all points as CSV. Values per worker are in one cell, separated by blanks."""
    text = io.StringIO()
    names = ["kind", "qubits", "workers", "batch", "cores", "more_workers_than_cores"]
    names += ["examples_per_second", "independent_examples_per_second"]
    names += ["predicted_examples_per_second"]
    names += ["efficiency", "ratio_to_one_worker"]
    names += [f"{part}_ms" for part in STEP_PARTS]
    names += [f"independent_{part}_ms" for part in STEP_PARTS]
    names += ["wait_ms", "steps_per_call", "cpu_of_each_worker", "mib_of_each_worker", "limit"]
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(names)
    rows.writerows(map(_csv_row, points))
    return text.getvalue()


def _csv_row(one: ScalingPoint) -> list[object]:
    parts = [ms[part] for ms in (one.step_ms, one.independent_step_ms) for part in STEP_PARTS]
    return [
        *(one.kind, one.qubits, one.workers, one.batch, one.cores, str(one.oversubscribed).lower()),
        *(f"{rate:.1f}" for rate in (one.examples_per_second, one.independent_rate)),
        "" if one.predicted_rate is None else f"{one.predicted_rate:.1f}",
        *(f"{ratio:.4f}" for ratio in (one.efficiency, one.speedup)),
        *(f"{milliseconds:.4f}" for milliseconds in parts),
        *(f"{one.wait_ms:.4f}", one.steps_per_call),
        " ".join(f"{cpu:.2f}" for cpu in one.cpu_utilization),
        " ".join(map(str, one.rss_mib)),
        main_bottleneck(one),
    ]


HEADER = """\
# Scaling: {model}, {location}

`{command}`, {when}{processor}. Each worker computes with {threads} on cores of its own. Each
example rotates every qubit, so each example is a simulation of its own. Examples that rotate few
qubits, such as those of DATA=excitations, need a few simulations per step whatever their number,
and gain little from more workers.

Efficiency compares the rate of the workers with that of as many independent workers at the same
time: the same processes on the same cores, each training on as many examples per step, without
communication. The speedup over one worker additionally contains contention (caches, memory
bandwidth) and, with a fixed global batch, the smaller batch per worker. Each number is the median
of {turns}. The predicted examples per second are those of the plan, at its QUBITS.
"""


def report(
    points: Sequence[ScalingPoint], left_out: Mapping[int, str], conditions: Mapping[str, Any]
) -> str:
    """Return report.md: conditions, warnings, plots, and a section per kind of work."""
    processor = conditions["processor"]
    values = {
        **conditions,
        "location": "on this machine" if conditions["target"] == "local" else "in a cluster",
        "processor": f", {processor}" if processor else "",
        "threads": plural(conditions["threads"], "thread"),
        "turns": plural(conditions["rounds"], "turn"),
    }
    sections = [HEADER.format(**values)]
    sections += _warnings(points, left_out, conditions["threads"])
    sections.append(
        f"![Time against qubits]({TIME})\n\n![Efficiency against workers]({EFFICIENCY})\n"
    )
    for kind, label in dict.fromkeys((one.kind, one.label) for one in points):
        selected = [one for one in points if (one.kind, one.label) == (kind, label)]
        selected.sort(key=lambda one: (one.qubits, one.workers))
        sections.append(f"## {kind.capitalize()} scaling: {label}\n")
        sections += [_rows(selected), *(paragraph(one) + "\n" for one in selected)]
    return "\n".join(sections)


def _warnings(
    points: Sequence[ScalingPoint], left_out: Mapping[int, str], threads: int
) -> Iterator[str]:
    if oversubscribed := sorted({one.workers for one in points if one.oversubscribed}):
        cores = max(one.cores for one in points)
        numbers = " and ".join(map(str, oversubscribed))
        each = f" of {threads} threads" if threads > 1 else ""
        yield (
            f"**There are {cores} cores for {numbers} workers{each}**: these share cores, and are"
            " drawn as hollow points without a line. They do not predict a machine, or a cluster,"
            " that has enough cores.\n"
        )
    for workers, reason in left_out.items():
        yield f"**{workers} workers are left out**: {reason}.\n"
    utilization = [
        one.independent_cpu_utilization for one in points if not one.oversubscribed and threads == 1
    ]
    if utilization and min(utilization) < MIN_CPU_UTILIZATION:
        yield (
            f"**Other programs used these cores**: a worker that waits for no other worker had"
            f" {min(utilization):.0%} of its core. Measure again on an idle machine.\n"
        )


def _rows(points: Sequence[ScalingPoint]) -> str:
    lines = ["| qubits | workers | examples/s | predicted | efficiency | speedup | bottleneck |"]
    lines.append("|" + "---|" * 7)
    for one in points:
        speedup = "-" if one.oversubscribed else f"{one.speedup:.2f}"
        predicted = "-" if one.predicted_rate is None else f"{one.predicted_rate:,.0f}"
        lines.append(
            f"| {one.qubits} | {one.workers} | {one.examples_per_second:,.0f}"
            f" | {predicted} | {one.efficiency:.2f} | {speedup} | {main_bottleneck(one)} |"
        )
    return "\n".join(lines) + "\n"
