"""Step benchmarks: their cases, and the measurement of one case in one worker.

A case is a JSON object, as training/benchmark/worker.py documents it, such as
{"qubits": 12, "batch": 256, "seconds": 2.0}.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter

from common.settings import Scope, Settings, names_in_scope

Case = Mapping[str, Any]


@dataclass(frozen=True)
class StepMeasurement:
    """The steps of one case in one worker.

    Attributes:
        case: Index of the case in the list.
        rank: Rank of the worker.
        workers: Workers that train together; 1 if each trains independently.
        qubits: Width of the circuit.
        batch: Examples per step over all workers that train together.
        threads: Compute threads of the worker.
        state_shards: Workers that share one state.
        independent: Empty for workers that train together; `all` or `first` as in
            training/benchmark/worker.py.
        data: `turned` or `excitations`.
        steps_per_call: Steps per call of a TensorFlow function.
        host_seconds: Time of an epoch in addition to its steps; 0 where it was not measured.
        steps: Measured steps.
        seconds: Duration of these steps.
        examples_per_second: Rate of all workers that train together.
        step_ms: Milliseconds per step by STEP_PARTS.
        wait_ms: Milliseconds per step that the all-reduce waited for a slower worker.
        cpu_seconds: CPU time of this worker during the steps.
        start_seconds: CPU time from the start of the process until it could build a model.
        build_seconds: Time from then until the end of the first step.
        rss_bytes: Peak resident memory.
        cores: Numbers of the CPUs that the worker could run on.
        node: Node of the cluster; empty on this machine.
    """

    case: int
    rank: int
    workers: int
    qubits: int
    batch: int
    threads: int
    state_shards: int
    independent: str
    data: str
    steps_per_call: int
    host_seconds: float
    steps: int
    seconds: float
    examples_per_second: float
    step_ms: Mapping[str, float]
    wait_ms: float
    cpu_seconds: float
    start_seconds: float
    build_seconds: float
    rss_bytes: int
    cores: tuple[int, ...]
    node: str = ""

    @property
    def step_seconds(self) -> float:
        """Seconds per step."""
        return self.seconds / self.steps

    @classmethod
    def from_result(cls, result: Mapping[str, object]) -> Self:
        """Read the result of a `measurement` event; unknown fields are ignored.

        Raises:
            ValueError: A field is missing or has another type.
        """
        return TypeAdapter(cls).validate_python(dict(result))


def encode_cases(cases: Sequence[Case]) -> str:
    """Return cases as one line of JSON, the argument of a step benchmark."""
    return json.dumps([dict(case) for case in cases])


def common_arguments(settings: Settings) -> list[str]:
    """Return the settings that are the same for all cases, as command-line arguments."""
    values = {name: settings.get(name) for name in names_in_scope(Scope.BENCHMARK)}
    return [f"{name}={'' if value is None else value}" for name, value in values.items()]


def group_by_case(
    cases: Sequence[Case], measurements: Sequence[StepMeasurement]
) -> list[list[StepMeasurement]]:
    """Return the measurements of each case, sorted by rank."""
    grouped: list[list[StepMeasurement]] = [[] for _ in cases]
    for measurement in sorted(measurements, key=lambda one: (one.case, one.rank)):
        grouped[measurement.case].append(measurement)
    return grouped
