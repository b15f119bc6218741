"""`launch search`: the seeds of a search in the pods of a Job, for studies/search."""

import json

from common import events
from common.settings import Settings
from launch import apply, job, manifests, ownership
from launch.console import ClientConsole
from launch.job_watcher import JobWatcher
from launch.kube_client import KubeClient
from launch.pods import Object, pod_specs
from launch.search_manifest import search_objects


def search(settings: Settings, task: str) -> int:
    """Run the pods of TASK in a Job, and delete it when all have succeeded.

    A Job that runs already is followed first. If it had other arguments, a new one follows it.

    Args:
        settings: RUN, the name of the search, and the cluster.
        task: JSON with the number of pods, the most pods at a time, and their arguments.

    Returns:
        The exit code of the Job.
    """
    parts = json.loads(task)
    pods, limit, args = int(parts["pods"]), int(parts["limit"]), list(parts["args"])
    settings = settings.replace(parallelism=max(pods, 2), weights="", input="")
    inference = manifests.build(settings, "inference").objects
    objects = search_objects(inference, settings.run_name, pods, limit, args)
    cluster = KubeClient.connect(settings)
    cluster.check()
    ownership.check(cluster, objects)
    (body,) = (one for one in objects if one["kind"] == "Job")
    live = cluster.get("Job", body["metadata"]["name"])
    with ClientConsole() as console:
        if live is not None and not job.is_finished(live):
            console.print(f"job {body['metadata']['name']} already exists; following it")
            code = _follow(cluster, live, settings, console, again=True)
            if code or _program(live) == _program(body):
                return code or _delete(cluster, objects)
        if live is not None:
            apply.remove(cluster, body)
        apply.apply_all(cluster, objects, console.print, recreated="Job" if live else "")
        return _follow(cluster, body, settings, console) or _delete(cluster, objects)


def _follow(
    cluster: KubeClient,
    body: Object,
    settings: Settings,
    console: ClientConsole,
    *,
    again: bool = False,
) -> int:
    """Follow a Job to its end, and return its exit code."""
    timeout = settings.fault_tolerance.rendezvous_timeout
    name = body["metadata"]["name"]
    outcome = JobWatcher(cluster, "Job", name, console, timeout, again=again).until_end()
    if outcome.code:
        events.emit("error", outcome.sentence, exit_code=outcome.code)
    return outcome.code


def _program(body: Object) -> list[str]:
    """Return the program of a Job's pods with its arguments."""
    (pod,) = pod_specs(body)
    return list(pod["containers"][0]["command"])


def _delete(cluster: KubeClient, objects: list[Object]) -> int:
    """Delete the objects of a search except the account, which other jobs use."""
    for body in reversed(apply.apply_order(objects)):  # pods before their policy
        if body["kind"] != "ServiceAccount":
            apply.delete(cluster, body)
    return 0
