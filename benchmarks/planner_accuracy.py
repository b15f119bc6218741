"""Prediction error of plans: `python -m benchmarks.planner_accuracy`; QUICK=1 takes fewer turns.

Steps of 10, 13 and 16 qubits, with 1 and 2 workers and batches of 64 and 256, are predicted as
`make plan` does, from other batches, and measured. All take turns in the same groups of workers,
and the fastest turn of each counts, so other programs disturb both alike. A second prediction uses
only the other two widths, as plans do where their own width can't be measured.

It writes benchmarks/planner.json, which every plan reports, and exits with 1 if a bound is
exceeded.
"""

import json
import statistics
import sys
from typing import Any

from benchmarks import machine
from common.errors import run_main
from common.processes import cpu_count
from common.settings import Settings
from planning import measurement_cache
from planning.accuracy import FILE
from planning.benchmark_group import measure_group
from planning.fit import FitPoint
from planning.machine_profile import FULL, QUICK, cases_to_fit, fit_point, group_setups
from planning.step_model import StepModel
from planning.workload import WorkloadAnalysis
from planning.workload_analysis import analyze_workload

QUBITS, WORKERS, BATCHES = (10, 13, 16), (1, 2), (64, 256)
MAX_MEDIAN_ERROR, MAX_ERROR = 0.15, 0.35


def main() -> int:
    """Measure, compare with predictions, and write the errors."""
    settings = Settings.from_args(["MODEL=qcnn", *sys.argv[1:]])
    effort, cores = QUICK if settings.planning.quick else FULL, cpu_count()
    facts = machine.facts()
    workloads = {}
    for qubits in QUBITS:
        sized = settings.replace(qubits=qubits)
        workload = measurement_cache.load_workload(sized) or analyze_workload(sized)
        measurement_cache.store_workload(sized, workload)
        workloads[qubits] = workload.without_spanning_states()
    fitted: list[FitPoint] = []
    held_out: list[FitPoint] = []
    for workers, threads in group_setups(cores, pods=False):
        if workers not in WORKERS:
            continue
        cases: list[Any] = []
        for qubits, workload in workloads.items():
            cases += cases_to_fit(workload, settings.model.model, qubits, workers, threads, effort)
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
            turns = [ranks for ranks in found[number :: len(cases)] if ranks]
            best = min(turns, key=lambda ranks: ranks[0].step_seconds)
            one = fit_point(best, workloads[case["qubits"]], workers, pods=False)
            (fitted if number < fits else held_out).append(one)
    rows = [_row(one, fitted, workloads[one.qubits], cores) for one in held_out]
    return _report(rows, facts, settings.planning.quick)


def _row(
    one: FitPoint, fitted: list[FitPoint], workload: WorkloadAnalysis, cores: int
) -> dict[str, Any]:
    batch = one.rows * one.workers
    option = {"workers": one.workers, "batch": batch, "threads": one.threads}
    predicted = StepModel(fitted, cores).step(workload, **option).seconds
    others = [point for point in fitted if point.qubits != one.qubits]
    without = StepModel(others, cores).step(workload, **option).seconds
    return {
        "qubits": one.qubits,
        **option,
        "measured_ms": round(1e3 * one.step, 4),
        "predicted_ms": round(1e3 * predicted, 4),
        "error": round(abs(predicted / one.step - 1), 4),
        "from_other_sizes_ms": round(1e3 * without, 4),
        "error_from_other_sizes": round(abs(without / one.step - 1), 4),
    }


def _report(rows: list[dict[str, Any]], facts: dict[str, str], quick: bool) -> int:
    print(f"{'qubits':>6} {'workers':>7} {'batch':>5} {'measured':>10} {'predicted':>10} {'off':>6}"
          f" {'by others':>10} {'off':>6}")  # fmt: skip
    for row in rows:
        print(
            f"{row['qubits']:6} {row['workers']:7} {row['batch']:5} {row['measured_ms']:7.3f} ms"
            f" {row['predicted_ms']:7.3f} ms {row['error']:6.1%}"
            f" {row['from_other_sizes_ms']:7.3f} ms {row['error_from_other_sizes']:6.1%}"
        )
    errors = [row["error"] for row in rows]
    others = [row["error_from_other_sizes"] for row in rows]
    summary = {
        "median": statistics.median(errors),
        "worst": max(errors),
        "median_from_other_sizes": statistics.median(others),
        "worst_from_other_sizes": max(others),
    }
    for name, value in summary.items():
        print(f"{name.replace('_', ' ')}: {value:.1%}")
    if not quick:
        FILE.write_text(json.dumps({**summary, "machine": facts, "rows": rows}, indent=1) + "\n")
        print(f"Written to {FILE}")
    exceeded = [f"median above {MAX_MEDIAN_ERROR:.0%}"] * (summary["median"] > MAX_MEDIAN_ERROR)
    exceeded += [f"worst above {MAX_ERROR:.0%}"] * (summary["worst"] > MAX_ERROR)
    for one in exceeded:
        print(f"bound exceeded: {one}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(run_main(main))
