"""A worker that measures short trainings: `python -m training.benchmark.worker CASES`.

It uses the strategy, learner and input of training, on synthetic examples in memory, without a run,
data set or storage. CASES is a JSON list. All cases run in one process, so that TensorFlow starts
once:

    [{"qubits": 12, "batch": 256, "seconds": 2.0, "model": "qcnn"}, ...]

A case may contain any setting except those of the whole process (PROCESS_SETTINGS), and:

    seconds      approximate duration of the measurement
    data         `turned` (default): each example rotates every qubit; `excitations`: one qubit;
                 with TASK=energy or TASK=state, DATA
    placement    where angles enter the circuit: `cluster` (default), `angle` or `reupload`
    angles       angles per example; QUBITS unless given
    classes      classes that the model predicts: 2 unless given
    independent  `all`: each worker trains by itself, on `batch` examples of its own, without
                 all-reduce; `first`: only worker 0 does, and the others wait

CASES may be `-`. Then the worker imports TensorFlow, emits the event "benchmark_ready", and reads
CASES as one line of standard input.

Workers start a measurement together and take the same number of steps. A case that is repeated
later keeps its model until then. For each case, each worker emits the event "measurement", whose
`result` has the case's index as `case` and the fields of planning/step_measurement.py.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from common.errors import SettingsError
from common.events import emit
from common.settings import VARIATIONAL_TASKS, Settings
from qfleet.placement import PLACEMENTS
from training.process.worker_process import exit_worker, start_worker

PROCESS_SETTINGS = ("workers", "threads", "seed", "config")
DATA = ("turned", "excitations")
INDEPENDENT = ("", "all", "first")
LATER = "-"
"""As CASES: they come on standard input."""

MAX_CASE_SECONDS = 3600
_EXAMPLE = '{"qubits": 12, "batch": 256, "seconds": 2.0}'


@dataclass(frozen=True)
class BenchmarkCase:
    """One case.

    Attributes:
        settings: Settings of a worker in the group, or of a single worker with `independent`.
        seconds: Approximate duration of the measurement.
        data: One of DATA, or the Hamiltonian or state of a variational task.
        placement: One of PLACEMENTS.
        angles: Angles per example.
        classes: Classes that the model predicts.
        independent: One of INDEPENDENT.
    """

    settings: Settings
    seconds: float
    data: str
    placement: str
    angles: int
    classes: int
    independent: str

    @classmethod
    def from_json(cls, content: Any, args: Sequence[str], workers: int) -> Self:
        """Read a case of CASES.

        Args:
            content: The case.
            args: Settings of all cases.
            workers: Number of workers.

        Raises:
            SettingsError: A name or a value is not allowed.
        """
        if not isinstance(content, dict):
            raise SettingsError(f"a case is an object such as {_EXAMPLE}, not {content!r}")
        for name in PROCESS_SETTINGS:
            if name in content:
                raise SettingsError(
                    f"{name} is equal in all cases of a benchmark: set it outside of CASES"
                )
        rest = dict(content)
        seconds = rest.pop("seconds", 2.0)
        data = rest.pop("data", DATA[0])
        placement = rest.pop("placement", PLACEMENTS[0])
        angles = rest.pop("angles", None)
        classes = rest.pop("classes", 2)
        independent = rest.pop("independent", "")
        if not isinstance(seconds, int | float) or not 0 < seconds <= MAX_CASE_SECONDS:
            raise SettingsError(
                f"seconds of a case is a number above 0 and up to {MAX_CASE_SECONDS:,}, not"
                f" {seconds!r}"
            )
        own = [f"{name}={value}" for name, value in rest.items()]
        size = 1 if independent else workers
        settings = Settings.from_args([*args, *own, f"workers={size}"])
        allowed = (data,) if settings.data.task in VARIATIONAL_TASKS else DATA
        if data not in allowed or independent not in INDEPENDENT:
            raise SettingsError(
                f"data of a case is one of {', '.join(DATA)}, and independent one of"
                f" {', '.join(INDEPENDENT[1:])}, not {data!r} and {independent!r}"
            )
        angles = settings.model.qubits if angles is None else angles
        for name, number, least in (("angles", angles, 1), ("classes", classes, 2)):
            if not isinstance(number, int) or number < least:
                raise SettingsError(f"{name} of a case is {least} or more, not {number!r}")
        if placement not in PLACEMENTS:
            raise SettingsError(
                f"placement of a case is one of {', '.join(PLACEMENTS)}, not {placement!r}"
            )
        return cls(settings, float(seconds), data, placement, angles, classes, independent)


def read_cases(text: str, args: Sequence[str], workers: int) -> list[BenchmarkCase]:
    """Read CASES.

    Args:
        text: CASES.
        args: Settings of all cases.
        workers: Number of workers.

    Raises:
        SettingsError: It is not a list of cases.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"CASES is not JSON ({error}): pass a list of {_EXAMPLE}") from None
    if not isinstance(content, list) or not content:
        raise SettingsError(f"CASES is a list of cases such as [{_EXAMPLE}]")
    return [BenchmarkCase.from_json(case, args, workers) for case in content]


def main() -> None:
    """Measure the cases, together with the other workers."""
    text, *args = sys.argv[1:] or [""]
    settings, cluster, preemption, watchdog = start_worker(
        Settings.from_args(args), leaves_checkpoint=False
    )
    watchdog.enter("step benchmark", math.inf)  # its parent limits the time
    if text == LATER:
        import training.benchmark.step_benchmark  # noqa: F401 - takes seconds, whatever the cases are

        emit("benchmark_ready")
        if not (text := sys.stdin.readline()):
            return  # the parent has no cases
    cases = read_cases(text, args, cluster.size)
    from training.group.join import open_rendezvous

    with open_rendezvous(settings, cluster, preemption, watchdog) as rendezvous:
        rendezvous.meet()
        # TensorFlow is imported only here, so that user errors appear within a second.
        from training.benchmark.step_benchmark import StepBenchmark
        from training.step.peer_errors import PeerErrorTranslator

        with PeerErrorTranslator(cluster, preemption, rendezvous.wait_for_loss):
            benchmark = StepBenchmark(settings, cluster)
            for index, case in enumerate(cases):
                result = benchmark.measure(case, cases[index + 1 :])
                if result is not None:
                    emit("measurement", result={"case": index, **result})
        rendezvous.finish()


if __name__ == "__main__":
    exit_worker(main)
