"""A training job made into a gang of probes (training/step_benchmark_worker.py): measured, and then gone."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from common.settings import Settings
from common.settings import Scope, names_in_scope
from launch.pods import ACCOUNT, COMPONENT, PART_OF, Object

PASSED_SETTINGS = ("Model", "Data", "Training", "Survival")
"""Groups of settings that a probe's workers are told."""

BENCHMARK_SETTINGS = ("QFLEET_WORKERS", "QFLEET_THREADS", "HOME")


def benchmark_objects(training: Sequence[Object], cases: str, settings: Settings) -> list[Object]:
    """The objects of a gang of probes.

    Args:
        training: The finished objects of a training job, overlay and all.
        cases: CASES of training/step_benchmark_worker.py.
        settings: Those of HANDED_OVER hold for all cases.
    """
    run = next(one["metadata"]["name"] for one in training if one["kind"] == "TFJob")
    # The job, the way between its pods, and a person's own model: no settings of a run, no storage.
    kept = (ACCOUNT, run, f"{run}-model")
    found: list[Any] = [deepcopy(one) for one in training if one["metadata"]["name"] in kept]
    for one in found:
        if one["kind"] == "TFJob":
            _probe(one, [cases, *_args(settings)])
        if one["kind"] != "ServiceAccount":
            one["metadata"]["labels"][COMPONENT] = "probe"
    return found


def _args(settings: Settings) -> list[str]:
    """What the pods are told, besides what the manifest says by itself."""
    found = [f"workers={settings.training.workers}"]
    for name in names_in_scope(Scope.BENCHMARK_POD):
        value = settings.get(name)
        found += [f"{name}={value}"] * (value != Settings.fields()[name].default)
    return found


def _probe(job: Any, args: Sequence[str]) -> None:
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    # Nothing is kept that another start could go on from.
    worker["restartPolicy"] = "Never"
    template = worker["template"]["metadata"]
    template["labels"][COMPONENT] = "probe"
    for labelled in (job["metadata"], template):
        labelled["labels"].pop(PART_OF)  # by which jobs are found that train, and pods at storage
    container = worker["template"]["spec"]["containers"][0]
    container["command"] = ["python", "-m", "training.step_benchmark_worker", *args]
    container.pop("envFrom", None)
    container["env"] = [one for one in container["env"] if one["name"] in BENCHMARK_SETTINGS]
