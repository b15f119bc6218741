"""The manifest of a step benchmark, made from that of a training job.

Its pods run training/benchmark/worker.py and keep nothing.
"""

import secrets
from collections.abc import Sequence
from copy import deepcopy

from common.settings import Scope, Settings, names_in_scope
from common.settings.launcher_variables import HEARTBEAT_FILE
from common.settings.schema import format_value
from launch.engines import BY_KIND, TEMPLATE_KINDS
from launch.engines.engine import Engine
from launch.engines.jobset import ADDRESSES
from launch.job_parts import SETTINGS_LABEL
from launch.pods import COMPONENT, EVENTS_TO_LOG, PART_OF, Object

BENCHMARK = "benchmark"
"""The component label of a benchmark's objects."""

KEPT_VARIABLES = frozenset(
    {"HOME", EVENTS_TO_LOG["name"], ADDRESSES}
    | {f"QFLEET_{name.upper()}" for name in names_in_scope(Scope.BENCHMARK_ENV)}
    | {HEARTBEAT_FILE}
)


def benchmark_objects(training: Sequence[Object], cases: str, settings: Settings) -> list[Object]:
    """Return the objects of a step benchmark.

    Args:
        training: The objects of a training job, with the overlay applied.
        cases: CASES of training/benchmark/worker.py.
        settings: Those of Scope.BENCHMARK_POD hold for all cases.
    """
    # The account, the job, its network policy and a user's model; no settings of a run, no storage.
    found: list[Object] = [
        deepcopy(one)
        for one in training
        if one["metadata"]["labels"].get(COMPONENT, "training") == "training"
        and SETTINGS_LABEL not in one["metadata"]["labels"]
    ]
    for one in found:
        if one["kind"] in TEMPLATE_KINDS:
            _make_benchmark(one, TEMPLATE_KINDS[one["kind"]], [cases, *_args(settings)])
        if one["kind"] in BY_KIND:
            one["metadata"]["labels"].pop(PART_OF)  # which selects training jobs
        if one["kind"] != "ServiceAccount":
            one["metadata"]["labels"][COMPONENT] = BENCHMARK
    return found


def _args(settings: Settings) -> list[str]:
    """Return arguments for the settings that differ from their defaults."""
    found = [f"workers={settings.training.workers}"]
    for name in names_in_scope(Scope.BENCHMARK_POD):
        value = settings.get(name)
        if value != Settings.fields()[name].default:
            found.append(f"{name}={format_value(value)}")
    return found


def _make_benchmark(job: Object, engine: Engine, args: Sequence[str]) -> None:
    # Nothing is kept that a restart could continue from: a lost worker ends the job.
    engine.forbid_restarts(job)
    template = engine.template(job)
    template["metadata"]["labels"][COMPONENT] = BENCHMARK
    template["metadata"]["labels"].pop(PART_OF)  # which selects pods that may reach storage
    container = template["spec"]["containers"][0]
    container["command"] = ["python", "-m", "training.benchmark.worker", *args]
    container.pop("envFrom", None)
    container["env"] = [one for one in container["env"] if one["name"] in KEPT_VARIABLES]
    # There is no run, in whose folder the workers would find it.
    container["env"].append({"name": "RENDEZVOUS_SECRET", "value": secrets.token_hex(32)})
