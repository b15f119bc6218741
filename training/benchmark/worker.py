"""A worker that measures short trainings: `python -m training.benchmark.worker CASES`.

It uses the strategy, learner and input of training, on synthetic examples in memory, without a run,
data set or storage. CASES is a JSON list. All cases run in one process, so that TensorFlow starts
once:

    [{"qubits": 12, "batch": 256, "seconds": 2.0, "model": "qcnn"}, ...]

A case may contain any setting except those of the whole process (PROCESS_SETTINGS), and:

    seconds      approximate duration of the measurement
    data         `turned` (default): each example rotates every qubit; `excitations`: one qubit;
                 with TASK=energy or TASK=state, DATA
    placement    where angles enter the circuit: `cluster` (default), `angle`,
                 `reupload` or `amplitude`
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

import math
import sys

from common.events import emit
from common.settings import Settings
from training.benchmark.case import read_cases
from training.process.worker_process import exit_worker, start_worker

LATER = "-"
"""As CASES: they come on standard input."""


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
            benchmark = StepBenchmark(settings, cluster, rendezvous.group_secret)
            for index, case in enumerate(cases):
                result = benchmark.measure(case, cases[index + 1 :])
                if result is not None:
                    emit("measurement", result={"case": index, **result})
        rendezvous.finish()


if __name__ == "__main__":
    exit_worker(main)
