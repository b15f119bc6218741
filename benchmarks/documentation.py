"""Measurements in the documentation: `python -m benchmarks.documentation` prints the tables.

`--write` updates them in README.md and docs/, `--check` fails if they are stale. The sources are
results.json (`make benchmark`), planner.json (`python -m benchmarks.planner_accuracy`),
gpu_h100.json (`make gpu-check`) and measurements.json, which is edited by hand after a measurement.
"""

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_tables, markdown, table
from benchmarks.lost_cases import lost_table
from benchmarks.systems import SYSTEMS
from common.errors import SettingsError, run_main

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
PLANNER = "planner.json"
# Qubits and batch of the QCNN training steps that README.md lists.
PERFORMANCE_CASES = ((8, 32), (12, 32), (16, 16), (20, 2))
COMMAND = "python -m benchmarks.documentation --write"


def performance() -> str:
    """Return README.md's table: a training step, compared with the fastest other systems."""
    rows = _read("results.json")
    times: dict[tuple[int, int], dict[str, float]] = {case: {} for case in PERFORMANCE_CASES}
    for row in rows:
        case = (row["qubits"], row["batch"])
        if (row["task"], row["model"]) == ("train", "qcnn") and case in times:
            times[case][row["system"]] = row["ms_per_circuit"]

    def cells(case: tuple[int, int]) -> tuple[str, ...]:
        found = times[case]
        own = found["qfleet"]
        others = {name: time / own for name, time in found.items() if name != "qfleet"}
        tfq = f"{others.pop('tfq'):.3g} times" if "tfq" in others else "not measured"
        best = min(others, key=lambda name: others[name], default="")
        fastest = f"{others[best]:.3g} times ({SYSTEMS[best].title})" if best else "not measured"
        return str(case[0]), str(case[1]), f"{own:.3g} ms per circuit", tfq, fastest

    columns = ("qubits", "batch", "qfleet", "TensorFlow Quantum", "fastest other system")
    return markdown.table(columns, [cells(case) for case in PERFORMANCE_CASES])


def planner_accuracy() -> str:
    """Return predicted and measured steps of trainings, and the errors."""
    found = _read(PLANNER)
    columns = ("training", "workers", "predicted", "measured", "error")
    rows = [
        (
            row["case"],
            f"{row['workers']}{' (recommended)' if row['recommended'] else ''}",
            f"{row['predicted_ms']:.2f} ms",
            f"{row['measured_ms']:.2f} ms",
            f"{row['error']:.0%}",
        )
        for row in found["rows"]
    ]
    where = (
        f"{len(rows)} trainings: model, qubits, batch, and examples, rows or data set."
        f" Median error {found['median']:.1%}, worst {found['worst']:.1%}. The recommended number"
        f" of workers takes at most {found['loss']:.0%} longer than the best."
        f" {_machine(found['machine'])}"
    )
    title = "Accuracy of plans"
    return _section(title, "python -m benchmarks.planner_accuracy", where, columns, rows)


def measurements() -> str:
    """Return every table of docs/benchmarks.md."""
    sections = [
        _section(
            each["title"],
            each["command"],
            each["conditions"],
            each["columns"],
            each["rows"],
            each.get("notes", ""),
        )
        for each in _read("measurements.json")
    ]
    return "\n\n".join([*sections, planner_accuracy()])


def scoreboard() -> str:
    """Return the training times of all systems, in multiples of qfleet's."""
    return table.ratio_table(_read("results.json"), "train")


def lost() -> str:
    """Return the cases in which qfleet is not the fastest, with the reasons."""
    return lost_table(_read("results.json"))


def _gpu_table(render: Callable[[gpu_tables.Document], str]) -> str:
    return render(gpu_tables.read(gpu_tables.MEASURED))


BLOCKS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("README.md", "performance", performance),
    ("docs/benchmarks.md", "measurements", measurements),
    ("docs/choosing-a-simulator.md", "scoreboard", scoreboard),
    ("docs/choosing-a-simulator.md", "lost cases", lost),
    *(
        ("docs/gpu.md", name, functools.partial(_gpu_table, render))
        for name, render in gpu_tables.BLOCKS.items()
    ),
)


def main(args: Sequence[str] = ()) -> int:
    """Print the tables, write them with `--write`, or compare them with `--check`."""
    args = args or sys.argv[1:]
    for file, name, render in BLOCKS:
        path = ROOT / file
        if not args:
            print(render())
            continue
        text = path.read_text(encoding="utf-8")
        updated = markdown.replace_block(text, name, COMMAND, render(), file)
        if args[0] == "--write":
            path.write_text(updated, encoding="utf-8")
        elif text != updated:
            raise SettingsError(f"the block '{name}' of {file} is stale: run `{COMMAND}`")
    return 0


def _section(
    title: str,
    command: str,
    conditions: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: str = "",
) -> str:
    reproduce = f"Reproduce with `{command}`. {conditions}"
    parts = [f"## {title}", reproduce, markdown.table(columns, rows)]
    return "\n\n".join([*parts, *([notes] if notes else [])])


def _machine(facts: Mapping[str, str]) -> str:
    return f"{facts['CPU']}, {facts['cores']} cores, {facts['memory']}."


def _read(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(run_main(main))
