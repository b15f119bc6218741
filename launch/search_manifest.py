"""The manifest of a search, made from that of an inference job: a pod for each seed."""

from collections.abc import Sequence
from typing import Any

from launch.job_parts import SETTINGS_LABEL
from launch.names import inference_job, part_of_job
from launch.pods import Object, pod_specs

SEARCH = "search"
"""The component label of a search's objects, and the name of its containers."""

MODULE = "studies.search.seed_process"

_INFERENCE = "inference"
_THREADS, _ENGINE_THREADS = "QFLEET_THREADS", "QFLEET_NUM_THREADS"


def search_objects(
    inference: Sequence[Object], run: str, pods: int, limit: int, args: Sequence[str]
) -> list[Object]:
    """Return the objects of a search: the account, STORAGE, its policy, and an Indexed Job.

    Args:
        inference: The objects of an Indexed inference job, with the overlay applied.
        run: RUN of that job, the name of the search.
        pods: Number of pods, one for each seed.
        limit: Most pods at a time.
        args: Arguments of the program of each pod.
    """
    old = [_INFERENCE, inference_job(run), part_of_job(run, _INFERENCE)]
    names = {one: f"{one.removesuffix(_INFERENCE)}{SEARCH}" for one in old}
    found = [_renamed(one, names) for one in inference]
    for one in found:
        if SETTINGS_LABEL in one["metadata"]["labels"]:
            one["data"] = {"QFLEET_STORAGE": one["data"]["QFLEET_STORAGE"]}
        if one["kind"] == "Job":
            one["spec"] |= {"completions": pods, "parallelism": limit}
            _run_seeds(one, args)
    return found


def _renamed(thing: Any, names: dict[str, str]) -> Any:
    """Return a copy with other texts in the place of some."""
    if isinstance(thing, dict):
        return {key: _renamed(value, names) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_renamed(value, names) for value in thing]
    return names.get(thing, thing) if isinstance(thing, str) else thing


def _run_seeds(job: Object, args: Sequence[str]) -> None:
    """Let the pods of a Job search seeds, with as many threads as they have CPUs."""
    (pod,) = pod_specs(job)
    container = pod["containers"][0]
    plain = [one.replace("$(", "$$(") for one in args]  # the kubelet would expand it
    container["command"] = ["python", "-m", MODULE, *plain]
    for variable in container["env"]:
        if variable["name"] == _THREADS:
            variable["name"] = _ENGINE_THREADS
