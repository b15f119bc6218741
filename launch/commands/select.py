"""Selection of the engine, and of the job that a command is about: RUN, or the only or newest."""

import difflib
from collections.abc import Callable, Sequence
from typing import TypeVar

from common.commands import command
from common.errors import ClusterError, RunError
from common.runs import auto_settings
from common.settings import Settings
from launch import api_errors, job, manifests
from launch.engines import BY_KIND, ENGINES
from launch.engines.engine import Engine
from launch.kube_client import KubeClient
from launch.names import part_of_job, training_job
from launch.pods import COMPONENT, Object, StorageLocation

_Read = TypeVar("_Read")

QFLEET = "app.kubernetes.io/part-of=qfleet"


def engines(cluster: KubeClient, settings: Settings) -> list[Engine]:
    """Return the engine of JOB_API, or those that the cluster serves for `auto`.

    Raises:
        ClusterError: The cluster serves none of them.
    """
    if settings.cluster.job_api != "auto":
        chosen = ENGINES[settings.cluster.job_api]
        cluster.kind(chosen.kind)
        return [chosen]
    served = [engine for engine in ENGINES.values() if cluster.serves(engine.kind)]
    if not served:
        raise api_errors.no_engine()
    return served


def choose_engine(
    cluster: KubeClient, found: Sequence[Engine], run: str
) -> tuple[Engine, Object | None]:
    """Return the engine that trains a run, and its job if it exists.

    It is the engine of the run's unfinished job, or the first one.

    Args:
        cluster: The cluster.
        found: The engines of JOB_API; see `engines`.
        run: The run.

    Raises:
        RunError: An engine that JOB_API excludes trains the run.
    """
    served = [engine for engine in ENGINES.values() if cluster.serves(engine.kind)]
    live = live_job(cluster, served, run)
    if live is not None and not job.is_finished(live):
        engine = BY_KIND[live["kind"]]
        if engine not in found:
            raise RunError(
                f"run {run} is trained by {engine.kind} {live['metadata']['name']}: follow it with"
                f" JOB_API={engine.api}, or end it first (`{command('cluster stop')} {run}`)"
            )
        return engine, live
    return found[0], live_job(cluster, found[:1], run)


def live_job(cluster: KubeClient, found: Sequence[Engine], run: str) -> Object | None:
    """Return the training job of a run, whichever of these engines it has; an unfinished one first.

    Raises:
        Forbidden: The user may read the jobs of none of them.
    """
    name = training_job(run)
    read = _of_readable(found, lambda engine: [cluster.get(engine.kind, name)])
    existing = [one for one in read if one is not None and not _is_part(one)]
    return min(existing, key=job.is_finished, default=None)


def jobs(cluster: KubeClient, settings: Settings, part: str = "training") -> list[Object]:
    """Return qfleet's jobs of a part: training, inference or search; the newest last."""
    if part != "training":
        found = cluster.list("Job", f"{QFLEET},{COMPONENT}={part}")
    else:
        found = _of_readable(
            engines(cluster, settings), lambda engine: cluster.list(engine.kind, QFLEET)
        )
        found = [one for one in found if not _is_part(one)]
    return sorted(found, key=job.created_at)


def _is_part(found: Object) -> bool:
    """Return True for the JobSet of a TrainJob."""
    owners = found["metadata"].get("ownerReferences") or []
    return any(owner["kind"] in BY_KIND for owner in owners)


def _of_readable(found: Sequence[Engine], read: Callable[[Engine], list[_Read]]) -> list[_Read]:
    """Return what is read of each engine; a user may have the rights for one of them only."""
    results: list[_Read] = []
    refusals: list[ClusterError] = []
    for engine in found:
        try:
            results += read(engine)
        except api_errors.Forbidden as error:
            refusals.append(error)
    if refusals and len(refusals) == len(found):
        raise refusals[0]
    return results


def run_of(found: Object) -> str:
    """Return the run of a job."""
    labels = found["metadata"].get("labels") or {}
    return str(labels.get("qfleet/run") or found["metadata"]["name"])


def pods(cluster: KubeClient, found: Object) -> list[job.Pod]:
    """Return a job's pods, by rank."""
    selector = job.pod_selector(found["kind"], found["metadata"]["name"])
    return job.sorted_pods(cluster.list("Pod", selector))


def newest(cluster: KubeClient, settings: Settings) -> Object | None:
    """Return the newest training of RUN, or of any run if RUN is not set; None if there is none."""
    found = jobs(cluster, settings)
    return next((one for one in reversed(found) if settings.job.run in ("", run_of(one))), None)


def only(
    cluster: KubeClient, settings: Settings, part: str = "training", others: Sequence[str] = ()
) -> tuple[str, Object | None]:
    """Return RUN and its job, or those of the only run. For commands that can't be undone.

    Args:
        cluster: The jobs' cluster.
        settings: RUN and JOB_API are used.
        part: training, inference or search.
        others: Runs to consider although their jobs no longer exist.

    Raises:
        RunError: There is none, or there are several.
    """
    run = settings.job.run
    found = {run_of(one): one for one in jobs(cluster, settings, part)}
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
        return manifests.build(auto_settings.with_placeholder_numbers(settings)).storage
    found = [cluster.get("ConfigMap", part_of_job(run_of(live), "training")), live]
    if template := BY_KIND[live["kind"]].template_kind:
        found.append(cluster.get(template, live["metadata"]["name"]))
    return StorageLocation.from_objects([one for one in found if one])
