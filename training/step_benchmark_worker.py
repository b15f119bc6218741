"""A short training on examples made in memory, measured: `python -m training.step_benchmark_worker CASES`.

One worker, as the gang on this machine or the operator starts it: the same strategy, learner and
input as training's, but no run, no data set and no storage. CASES is a JSON list, done one after
another in one process, so that TensorFlow starts once:

    [{"qubits": 12, "batch": 256, "seconds": 2.0, "model": "qcnn"}, ...]

Any setting may stand in a case but those of the whole process (FIXED). Three names are no settings:

    seconds  how long to measure, about
    data     `turned` (default): each example turns every qubit; `excitations`: each turns one
    independent  `all`: each worker trains by itself, on `batch` examples of its own, and no step has an
             exchange; `first`: worker 0 alone does, while the others wait

CASES may be `-`: then they are read from standard input, one line, once a worker is ready for them,
which it reports by an event `benchmark_ready`.

Workers begin to measure together and do the same number of steps. A case that comes again later
keeps its model until then, so that turns can be taken. Each worker emits an event `measurement` per
case; its `result` is a StepMeasurement (planning/step_measurement.py).
"""

import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from common import events
from common.errors import SettingsError, run_main
from common.settings import Settings
from training import logging_setup
from training.cluster import ClusterSpec
from training.preemption import Preemption, exit_with_parent
from training.rendezvous import RendezvousServer, join_rendezvous

FIXED = ("workers", "threads", "seed", "config")
DATA = ("turned", "excitations")
LATER = "-"
INDEPENDENT = ("", "all", "first")


@dataclass(frozen=True)
class BenchmarkCase:
    """What is measured.

    Attributes:
        settings: Those of a worker in the gang; with `independent`, those of a worker by itself.
        seconds: How long, about.
        data: One of DATA.
        independent: One of INDEPENDENT.
    """

    settings: Settings
    seconds: float
    data: str
    independent: str

    @classmethod
    def of(cls, told: Any, args: Sequence[str], workers: int) -> Self:
        """A case as it stands in CASES.

        Raises:
            SettingsError: A name or a value in it is not allowed.
        """
        if not isinstance(told, dict):
            raise SettingsError(f"a case is an object such as {_EXAMPLE}, not {told!r}")
        for name in FIXED:
            if name in told:
                raise SettingsError(f"{name} is the same in all cases of a probe: say it once")
        rest = dict(told)
        seconds, data, independent = (
            rest.pop(name, default) for name, default in (("seconds", 2.0), ("data", "turned"),
                                                          ("independent", ""))
        )  # fmt: skip
        if not isinstance(seconds, int | float) or not 0 < seconds <= 3600:
            raise SettingsError(f"a case's seconds are a number above 0 to 3,600, not {seconds!r}")
        if data not in DATA or independent not in INDEPENDENT:
            raise SettingsError(
                f"a case's data is one of {', '.join(DATA)} and its independent one of"
                f" {', '.join(INDEPENDENT[1:])}, not {data!r} and {independent!r}"
            )
        said = [f"{name}={value}" for name, value in rest.items()]
        settings = Settings.from_args([*args, *said, f"workers={1 if independent else workers}"])
        return cls(settings, float(seconds), data, independent)


_EXAMPLE = '{"qubits": 12, "batch": 256, "seconds": 2.0}'


def read(text: str, args: Sequence[str], workers: int) -> list[BenchmarkCase]:
    """The cases of CASES, with the settings that hold for all of them.

    Raises:
        SettingsError: It is no list of cases.
    """
    try:
        told = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"CASES is not JSON ({error}): give a list of {_EXAMPLE}") from None
    if not isinstance(told, list) or not told:
        raise SettingsError(f"CASES is a list of cases such as [{_EXAMPLE}]")
    return [BenchmarkCase.of(one, args, workers) for one in told]


def main() -> None:
    """Measure the cases, in step with the gang's other workers."""
    text, *args = sys.argv[1:] or [""]
    settings = Settings.from_args(args)
    cluster = ClusterSpec.from_environment(settings.training.workers)
    events.start(cluster.rank)
    logging_setup.start_console(cluster.rank, verbose=settings.job.verbose)
    preemption = Preemption(is_chief=False)  # it has nothing to leave behind
    preemption.watch()
    exit_with_parent()
    if text == LATER:
        import training.step_benchmark  # noqa: F401 - takes seconds, and is wanted whatever the cases are

        events.emit("benchmark_ready")
        if not (text := sys.stdin.readline()):
            return  # who started it wants nothing after all
    cases = read(text, args, cluster.size)
    if cluster.is_chief and cluster.size > 1:
        RendezvousServer(cluster, settings.fault_tolerance.rendezvous_port).open(
            {}, settings.fault_tolerance.rendezvous_timeout
        )
    elif cluster.size > 1:
        join_rendezvous(
            cluster,
            settings.fault_tolerance.rendezvous_port,
            settings.fault_tolerance.rendezvous_timeout,
        )
    # TensorFlow only now: what was wrong so far has been said within a second.
    from training.step_benchmark import StepBenchmark
    from training.train import translate_peer_errors

    with translate_peer_errors(cluster, lambda: None, preemption):
        probe = StepBenchmark(settings, cluster)
        for number, case in enumerate(cases):
            line = probe.measure(case, cases[number + 1 :])
            if line is not None:
                events.emit("measurement", result={"case": number, **line})


if __name__ == "__main__":
    code = run_main(main)
    logging.shutdown()
    events.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's own farewell may wait for peers that are gone.
    os._exit(code)
