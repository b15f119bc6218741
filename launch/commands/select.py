"""Selection of the job that a command is about: RUN, or the only or newest job."""

import difflib
from collections.abc import Sequence

from common.errors import RunError
from common.runs import auto_settings
from common.settings import Settings
from launch import job, manifests
from launch.cluster_storage import StorageLocation
from launch.kube_client import KubeClient, Object
from launch.names import part_of_job

QFLEET = "app.kubernetes.io/part-of=qfleet"


def jobs(cluster: KubeClient, kind: str = "TFJob") -> list[Object]:
    """Return qfleet's jobs of a kind, the newest last."""
    return sorted(cluster.list(kind, QFLEET), key=job.created_at)


def run_of(found: Object) -> str:
    """Return the run of a job."""
    labels = found["metadata"].get("labels") or {}
    return str(labels.get("qfleet/run") or found["metadata"]["name"])


def pods(cluster: KubeClient, found: Object) -> list[job.Pod]:
    """Return a job's pods, by rank."""
    selector = job.pod_selector(found["kind"], found["metadata"]["name"])
    return job.sorted_pods(cluster.list("Pod", selector))


def newest(cluster: KubeClient, settings: Settings, kind: str = "TFJob") -> Object | None:
    """Return the newest job of RUN, or of any run if RUN is not set; None if there is none."""
    found = jobs(cluster, kind)
    return next((one for one in reversed(found) if settings.job.run in ("", run_of(one))), None)


def only(
    cluster: KubeClient, settings: Settings, kind: str = "TFJob", others: Sequence[str] = ()
) -> tuple[str, Object | None]:
    """Return RUN and its job, or those of the only run. For commands that can't be undone.

    Args:
        cluster: The jobs' cluster.
        settings: RUN is used.
        kind: TFJob or Job.
        others: Runs to consider although their jobs no longer exist.

    Raises:
        RunError: There is none, or there are several.
    """
    run = settings.job.run
    found = {run_of(one): one for one in jobs(cluster, kind)}
    names = list(dict.fromkeys([*found, *others]))
    if run:
        if run not in names:
            near = difflib.get_close_matches(run, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise RunError(
                f"there is no job of run {run} in namespace {cluster.namespace}:"
                f" {hint if names else 'it has no jobs of qfleet'}"
            )
        return run, found.get(run)
    if not names:
        raise RunError(f"there is no job of qfleet in namespace {cluster.namespace}")
    unfinished = [name for name, one in found.items() if not job.is_finished(one)] or names
    if len(unfinished) > 1:
        several = ", ".join(unfinished)
        raise RunError(f"there are several jobs ({several}): choose one with RUN=name")
    return unfinished[0], found.get(unfinished[0])


def storage_location(
    cluster: KubeClient, settings: Settings, live: Object | None
) -> StorageLocation:
    """Return the storage of a job, or that of the settings if there is no job."""
    if live is None:
        numbers = auto_settings.with_placeholder_numbers(settings)
        return StorageLocation.from_objects(manifests.training(numbers))
    config = cluster.get("ConfigMap", part_of_job(run_of(live), "training"))
    return StorageLocation.from_objects([live, *([config] if config else [])])
