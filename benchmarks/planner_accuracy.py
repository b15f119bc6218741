"""How far a plan is off: `python -m benchmarks.planner_accuracy`; QUICK=1 takes fewer turns.

Steps of 10, 13 and 16 qubits, 1 and 2 workers, batches of 64 and 256 are foretold as `make plan`
does, from other batches, and measured. All take turns in the same gangs, and of each the fastest
turn counts, so that what else runs on the machine disturbs both alike. A second prediction is made
from the other two sizes alone: what a plan is worth where its own size can't be measured.

It writes benchmarks/planner.json, which every plan quotes, and ends with 1 where a bound is missed.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine
from common.errors import run_main
from common.settings import Settings
from planning import measurement_cache
from planning.machine_profile import (
    FULL,
    QUICK,
    cases_to_fit,
    fit_point,
    group_set_ups,
    local_cpu_count,
)
from planning.step_measurement import measure_group
from planning.step_model import FitPoint, StepModel
from planning.workload import WorkloadAnalysis
from planning.workload_analysis import analyze_workload

QUBITS, WORKERS, BATCHES = (10, 13, 16), (1, 2), (64, 256)
MEDIAN, WORST = 0.15, 0.35
FILE = Path(__file__).with_name("planner.json")


def main() -> int:
    """Measure, compare, write."""
    settings = Settings.from_args(["MODEL=qcnn", *sys.argv[1:]])
    effort, cores = QUICK if settings.planning.quick else FULL, local_cpu_count()
    facts = machine.facts()
    workloads = {}
    for qubits in QUBITS:
        asked = settings.replace(qubits=qubits)
        workload = measurement_cache.workload(asked) or analyze_workload(asked)
        measurement_cache.keep_workload(asked, workload)
        workloads[qubits] = workload.each_evolved()
    fitted: list[FitPoint] = []
    held: list[FitPoint] = []
    for workers, threads in group_set_ups(cores, pods=False):
        if workers not in WORKERS:
            continue
        cases: list[Any] = []
        for qubits, workload in workloads.items():
            cases += cases_to_fit(workload, settings, qubits, workers, threads, effort)
        fits = len(cases)
        cases += [
            {
                "qubits": qubits,
                "batch": batch,
                "seconds": effort.seconds,
                "model": settings.model.model,
            }
            for qubits in QUBITS
            for batch in BATCHES
        ]
        found = measure_group(cases * effort.turns, workers=workers, settings=settings)
        for number, case in enumerate(cases):
            turns = [lines for lines in found[number :: len(cases)] if lines]
            best = min(turns, key=lambda lines: lines[0].step_seconds)
            one = fit_point(best, workloads[case["qubits"]], workers, pods=False)
            (fitted if number < fits else held).append(one)
    rows = [_row(one, fitted, workloads[one.qubits], cores) for one in held]
    return _report(rows, facts, settings.planning.quick)


def _row(
    one: FitPoint, fitted: list[FitPoint], workload: WorkloadAnalysis, cores: int
) -> dict[str, Any]:
    batch = one.rows * one.workers
    asked = {"workers": one.workers, "batch": batch, "threads": one.threads}
    foretold = StepModel(fitted, cores).step(workload, **asked).seconds
    others = [point for point in fitted if point.qubits != one.qubits]
    without = StepModel(others, cores).step(workload, **asked).seconds
    return {
        "qubits": one.qubits,
        **asked,
        "measured_ms": round(1e3 * one.step, 4),
        "foretold_ms": round(1e3 * foretold, 4),
        "error": round(abs(foretold / one.step - 1), 4),
        "from_other_sizes_ms": round(1e3 * without, 4),
        "error_from_other_sizes": round(abs(without / one.step - 1), 4),
    }


def _report(rows: list[dict[str, Any]], facts: dict[str, str], quick: bool) -> int:
    print(f"{'qubits':>6} {'workers':>7} {'batch':>5} {'measured':>10} {'foretold':>10} {'off':>6}"
          f" {'by others':>10} {'off':>6}")  # fmt: skip
    for row in rows:
        print(
            f"{row['qubits']:6} {row['workers']:7} {row['batch']:5} {row['measured_ms']:7.3f} ms"
            f" {row['foretold_ms']:7.3f} ms {row['error']:6.1%}"
            f" {row['from_other_sizes_ms']:7.3f} ms {row['error_from_other_sizes']:6.1%}"
        )
    errors = [row["error"] for row in rows]
    others = [row["error_from_other_sizes"] for row in rows]
    said = {
        "median": statistics.median(errors),
        "worst": max(errors),
        "median_from_other_sizes": statistics.median(others),
        "worst_from_other_sizes": max(others),
    }
    for name, value in said.items():
        print(f"{name.replace('_', ' ')}: {value:.1%}")
    if not quick:
        FILE.write_text(json.dumps({**said, "machine": facts, "rows": rows}, indent=1) + "\n")
        print(f"written to {FILE}")
    missed = [f"median above {MEDIAN:.0%}"] * (said["median"] > MEDIAN)
    missed += [f"worst above {WORST:.0%}"] * (said["worst"] > WORST)
    for one in missed:
        print(f"missed: {one}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(run_main(main))
