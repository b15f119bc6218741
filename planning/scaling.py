"""`make scaling`: how much faster more workers are, and what keeps them from being faster still.

Each number of workers is one gang, which measures in turns: the whole gang; each worker by itself
at the same time, with as many examples a step and without exchange; the first worker alone, with
as many examples, and with the whole batch. Turns are taken several times, so that a machine whose
speed drifts does not look like scaling. What follows is a product of three ratios:

    gang / one worker = W x  gang / W independent workers         efficiency: what exchanges cost
                          x  W independent / (W x one of them)    what neighbours cost
                          x  one with its share / one with all    what few examples a step cost
"""

import logging
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from common import storage
from common.errors import QfleetError, SettingsError, exit_on_signals, run_main
from common.settings import Settings
from common.settings.settings import AUTO
from planning import step_measurement
from planning.bottlenecks import headline
from planning.scaling_point import ScalingPoint, by_case, scaling_points
from planning.step_measurement import Case, StepMeasurement
from training import logging_setup

log = logging.getLogger("qfleet")


@dataclass(frozen=True)
class ScalingCases:
    """How much is measured.

    Attributes:
        workers: Numbers of workers.
        qubits: Widths of the circuit.
        weak: Examples a step in each worker.
        strong: Examples a step in all workers, however many.
        rounds: Turns.
        seconds: How long a turn measures, about.
    """

    workers: Sequence[int]
    qubits: Sequence[int]
    weak: Sequence[int]
    strong: Sequence[int]
    rounds: int
    seconds: float


FULL = ScalingCases((1, 2, 4, 8), (8, 10, 12, 14, 16), (64,), (64, 256), rounds=7, seconds=0.5)
# In two workers 32 each is 64 in all, so that both kinds of scaling take the same measurements.
QUICK = ScalingCases((1, 2), (8, 12), (32,), (64,), rounds=2, seconds=0.4)


def main() -> int:
    """Measure, and write what was found into a folder below STORAGE."""
    settings = Settings.from_args(sys.argv[1:])
    logging_setup.start_console(0, verbose=settings.job.verbose)
    form, settings = selected_cases(settings)
    exit_on_signals()
    folder = storage.path(settings.job.storage) / f"scaling_{datetime.now():%Y-%m-%d_%H-%M-%S}"
    conditions = _conditions(settings, form)
    storage.write_json(folder / "conditions.json", conditions)  # told now if it can't be written
    from planning.scaling_report import write  # matplotlib: a second, while nothing is measured

    points: list[ScalingPoint] = []
    left_out: dict[int, str] = {}
    try:
        # A gang of one is measured beside each larger one; by itself only where there is no other.
        for workers in [number for number in form.workers if number > 1] or form.workers:
            try:
                found = _gang(form, workers, settings)
            except QfleetError as error:
                # A larger gang may find no place or no memory: what was measured before stands.
                if not points:
                    raise
                log.warning(f"{workers} workers are left out: {error}")
                left_out[workers], found = str(error), []
            points += found
            for one in found:
                if one.workers == workers:
                    log.info(headline(one))
            write(folder, points, left_out, conditions)  # also for who interrupts the next gang
    finally:
        if not points:
            storage.delete(folder)
    log.info(f"the report is in {folder}/report.md")
    return 0


def selected_cases(settings: Settings) -> tuple[ScalingCases, Settings]:
    """What the settings ask for: those that are said replace what the form has.

    Raises:
        SettingsError: A setting has no meaning here.
    """
    said = settings.explicit
    if settings.training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={settings.training.state_shards}: scaling compares with workers that are alone, and a state"
            " that is split has none: leave STATE_SHARDS out"
        )
    if AUTO in (settings.training.workers, settings.training.batch):
        raise SettingsError("scaling measures what `auto` chooses from: give numbers, or none")
    form = QUICK if settings.planning.quick else FULL
    more: dict[str, Any] = {}
    if "workers" in said:
        more["workers"] = [*_doubled(settings.training.workers)]
    if "qubits" in said:
        more["qubits"] = (settings.model.qubits,)
    if settings.training.batch or settings.training.batch_per_worker:
        more["strong"] = (settings.training.batch,) if settings.training.batch else ()
        more["weak"] = (
            (settings.training.batch_per_worker,) if settings.training.batch_per_worker else ()
        )
    form = ScalingCases(**vars(form) | more)
    for batch in form.strong:
        if batch < max(form.workers):
            raise SettingsError(
                f"BATCH={batch} is less than {max(form.workers)} workers, which would leave some"
                " without examples: raise BATCH, or set WORKERS to the most that are wanted"
            )
    told: dict[str, Any] = {
        "batch": None,
        "batch_per_worker": None,
        "partitions": max(settings.data.partitions, *form.workers),
    }
    if "model" not in said:
        told["model"] = "qcnn"
    if "cpu" not in said:
        told["cpu"] = str(settings.training.threads or 1)
    return form, settings.replace(**told)


def _doubled(most: int) -> Iterator[int]:
    workers = 1
    while workers < most:
        yield workers
        workers *= 2
    yield most


def _gang(form: ScalingCases, workers: int, settings: Settings) -> list[ScalingPoint]:
    """All points of one number of workers, measured by one gang."""
    cores = step_measurement.cpu_sets(workers, settings.training.threads or 1)
    local = settings.job.target == "local"
    crowded = local and workers * len(cores[0]) > len({core for own in cores for core in own})
    rounds = 1 if crowded else form.rounds
    kinds = [("weak", batch * workers) for batch in form.weak]
    kinds += [("strong", batch) for batch in form.strong]
    cases: list[Case] = []
    for qubits in form.qubits:
        for number in range(rounds):
            for told in _turn(kinds, workers, backwards=number % 2 == 1):
                cases.append({"qubits": qubits, "seconds": form.seconds, **told})
    where = "on this machine" if local else "in the cluster"
    log.info(
        f"{workers} workers {where}, {len(cases)} measurements"
        + f": they share {len({c for own in cores for c in own})} cores" * crowded
    )

    began = time.monotonic()

    def heard(line: StepMeasurement) -> None:
        if line.rank == 0:
            who = {"": f"{workers} together", "all": f"{workers} independent", "first": "one alone"}
            log.info(
                f"{line.case + 1:4}/{len(cases)}  {time.monotonic() - began:4.0f} s"
                f"  {line.qubits} qubits  batch {line.batch:<4} {who[line.alone]:14}"
                f" {line.examples_per_second:10,.0f} examples/s"
            )

    found = step_measurement.measure_group(
        cases, workers=workers, cores=cores if local else None, settings=settings, heard=heard
    )
    return [
        point
        for qubits in form.qubits
        for kind, batch in kinds
        for point in scaling_points(kind, qubits, batch, workers, by_case(cases, found, qubits))
    ]


def _turn(
    kinds: Sequence[tuple[str, int]], workers: int, *, backwards: bool
) -> list[dict[str, Any]]:
    """What one turn measures of one width, once each; the gang beside its independent peers."""
    turn: list[dict[str, Any]] = []
    for kind, batch in kinds:
        share = -(-batch // workers)
        single = share if kind == "weak" else batch
        turn += [{"batch": batch}, {"batch": share, "alone": "all"}]
        turn += [{"batch": share, "alone": "first"}, {"batch": single, "alone": "first"}]
    if workers == 1:
        turn = [one for one in turn if "alone" not in one]
    once = [one for number, one in enumerate(turn) if one not in turn[:number]]
    return once[::-1] if backwards else once


def _conditions(settings: Settings, form: ScalingCases) -> dict[str, Any]:
    """Where and how it was measured."""
    return {
        "command": " ".join(["make scaling", *sys.argv[1:]]),
        "when": datetime.now().isoformat(timespec="seconds"),
        "target": settings.job.target,
        "processor": _processor() if settings.job.target == "local" else "",
        "model": settings.model.model,
        "threads": settings.training.threads or 1,
        **vars(form),
    }


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    for line in told.read_text(encoding="utf-8").splitlines() if told.is_file() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(run_main(main))
