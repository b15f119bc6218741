"""`launch run`: apply a training job to the cluster and follow it until it ends."""

import contextlib
import math
from collections.abc import Sequence
from typing import Literal

from common import devices, events, runs
from common.commands import command
from common.environments import ROOT, WORKER_PYTHON
from common.errors import (
    EXIT_INTERRUPTED,
    ClusterError,
    StorageError,
    StorageUnavailable,
)
from common.runs import auto_settings
from common.settings import Settings
from common.start_check import is_in_bucket
from launch import api_errors, apply, cluster_storage, job, manifests, ownership, start_check
from launch.client_commands import PROGRAM_OF_PART
from launch.commands import select
from launch.console import ClientConsole
from launch.engines import BY_KIND
from launch.engines.engine import Engine
from launch.job_watcher import JobWatcher
from launch.kube_client import KubeClient
from launch.pods import Object, StorageLocation

PLANNER = (str(WORKER_PYTHON), "-m", "planning.auto")
"""Command that chooses WORKERS and BATCH: the client's own environment has no TensorFlow."""
UNCHANGED = "nothing would change: the running job is only followed"
MAX_DIFFERENCES = 6

Action = Literal["create", "recreate", "follow"]


def run(settings: Settings) -> int:
    """Apply a training job and follow it.

    Returns:
        The job's exit code; 130 after Ctrl-C, which leaves it running.
    """
    # Reports errors that need no cluster.
    build = manifests.build(auto_settings.with_placeholder_numbers(settings))
    if not is_in_bucket(settings):
        start_check.check(settings)
    cluster = KubeClient.connect(settings)
    cluster.check()
    engines = select.engines(cluster, settings)
    if is_in_bucket(settings):
        _check_in_bucket(cluster, build.storage, settings)
    with ClientConsole() as console:
        name = select_run(cluster, build.storage, settings.run_name, engines, console)
        if name != settings.run_name:
            if settings.job.study:  # a trial is never trained twice
                console.print(f"run {settings.run_name} is finished")
                return 0
            console.print(f"run {settings.run_name} is finished: this one is {name}")
        engine, live = select.choose_engine(cluster, engines, name)
        chosen = " (JOB_API=auto)" if settings.cluster.job_api == "auto" else ""
        console.print(
            f"training {settings.model.model} in a {engine.kind}{chosen}, namespace"
            f" {cluster.namespace}, context {cluster.context}"
        )
        if reason := devices.reason_for_cpu(settings):
            console.print(reason)
        settings = settings.replace(job_api=engine.api, run=name)
        if auto_settings.is_automatic(settings):
            settings = _resolve_auto(cluster, build.storage, settings, live, console)
        objects = manifests.build(settings, before=build).objects
        ownership.check(cluster, objects)
        action = _decide_action(cluster, objects, live, console)
        return carry_out(action, cluster, objects, engine.kind, settings, console)


def carry_out(
    action: Action,
    cluster: KubeClient,
    objects: Sequence[Object],
    kind: str,
    settings: Settings,
    console: ClientConsole,
) -> int:
    """Apply the job of a kind and follow it; with DRY_RUN, only report what would change.

    Returns:
        The job's exit code; 0 with DRY_RUN; 130 after Ctrl-C, which leaves it running.
    """
    body = next(one for one in objects if one["kind"] == kind)
    dry_run, recreated = settings.cluster.dry_run, kind if action == "recreate" else ""
    if recreated and not dry_run:
        apply.remove(cluster, body)
    if action != "follow":
        apply.apply_all(cluster, objects, console.print, recreated=recreated, dry_run=dry_run)
    elif dry_run:
        console.print(UNCHANGED)
    if dry_run:
        return 0
    name = body["metadata"]["name"]
    return _follow(cluster, kind, name, settings, console, again=action == "follow")


def _check_in_bucket(cluster: KubeClient, location: StorageLocation, settings: Settings) -> None:
    """Check DATA in a bucket; one that can't be read here is left to the job."""
    with (
        contextlib.suppress(ClusterError, StorageError, StorageUnavailable),
        cluster_storage.open_storage(cluster, location),
    ):
        start_check.check(settings)


def _resolve_auto(
    cluster: KubeClient,
    location: StorageLocation,
    settings: Settings,
    live: Object | None,
    console: ClientConsole,
) -> Settings:
    """Replace WORKERS=auto and BATCH=auto by the numbers of a job or run, or by planned ones."""
    with (
        contextlib.suppress(cluster_storage.StorageNotReady),
        cluster_storage.open_storage(cluster, location) as root,
    ):
        settings = auto_settings.training_settings(settings, root, settings.run_name)
    if live is not None and not job.is_finished(live):
        numbers = auto_settings.with_placeholder_numbers(settings)
        return numbers.replace(workers=job.configured_workers(live))
    if auto_settings.is_automatic(settings):
        console.print("planning with measurements in pods, unless they are cached")
        settings, reason = auto_settings.resolve_auto(settings, PLANNER, ROOT)
        training = settings.training
        console.print(f"WORKERS={training.workers} BATCH={training.global_batch}: {reason}")
    return settings


def select_run(
    cluster: KubeClient,
    location: StorageLocation,
    wanted: str,
    engines: Sequence[Engine],
    console: ClientConsole,
) -> str:
    """Return the name of the run; if it is finished, with the next free number.

    STORAGE decides. If this machine can't read it, the jobs in the cluster decide.
    """
    try:
        with cluster_storage.open_storage(cluster, location) as root:
            return runs.next_name(root, wanted)
    except cluster_storage.StorageNotReady:
        return wanted
    except (ClusterError, StorageError, StorageUnavailable) as error:
        if isinstance(error, api_errors.Unreachable):
            raise
        console.print(f"using the jobs in the cluster, since storage can't be read here: {error}")
    for name in runs.numbered(wanted):
        live = select.live_job(cluster, engines, name)
        if live is None or job.phase(live) != "Succeeded":
            return name
    raise AssertionError("numbered names do not end")


def _decide_action(
    cluster: KubeClient, objects: Sequence[Object], live: Object | None, console: ClientConsole
) -> Action:
    """Decide what to do with an existing job of the same run, and report it."""
    if live is None:
        return "create"
    name = live["metadata"]["name"]
    if live["metadata"].get("deletionTimestamp"):
        console.print(f"job {name} is terminating; recreating it when it is gone")
        return "recreate"
    if job.is_finished(live):
        console.print(
            f"job {name} has ended ({job.phase(live)}), but its run is not finished; recreating"
            " the job"
        )
        return "recreate"
    differing = describe_differences(cluster, objects)
    if differing and not job.has_started(live):
        console.print(f"job {name} has not started yet; recreating it with {differing}")
        return "recreate"
    log_resume(live, differing, f"{command('cluster stop')} {select.run_of(live)}", console)
    return "follow"


def describe_differences(cluster: KubeClient, objects: Sequence[Object]) -> str:
    """Return how an existing job's settings differ from `objects`; empty if they do not."""
    differing = apply.differing_settings(cluster, objects)
    rest = ", ..." if len(differing) > MAX_DIFFERENCES else ""
    return ", ".join(differing[:MAX_DIFFERENCES]) + rest


def log_resume(live: Object, differing: str, end: str, console: ClientConsole) -> None:
    """Report that a running job is followed as it is, and how to apply other settings."""
    name = live["metadata"]["name"]
    console.print(f"job {name} already exists ({job.phase(live)}); following it")
    if differing:
        console.print(
            f"the running job keeps its settings: {differing}. To apply the new ones, run `{end}`"
            " and then this command again."
        )


def _follow(
    cluster: KubeClient,
    kind: str,
    name: str,
    settings: Settings,
    console: ClientConsole,
    *,
    again: bool,
) -> int:
    """Follow a job to its end and report its outcome; `again` if it existed before.

    Raises:
        ClusterError: It can't start.
    """
    run = settings.run_name
    part = "training" if kind in BY_KIND else "inference"
    try:
        # A group that is elastic continues without the pod.
        timeout = (
            math.inf
            if settings.training.is_elastic
            else settings.fault_tolerance.rendezvous_timeout
        )
        outcome = JobWatcher(cluster, kind, name, console, timeout, again=again).until_end()
    except KeyboardInterrupt:
        others = (
            f"`{command('cluster logs')} {run}` prints its logs, `{command('cluster stop')} {run}`"
            " stops it"
            if kind in BY_KIND
            else f"`{command(f'cluster delete {part}')} RUN={run}` deletes it"
        )
        console.print(
            f"job {name} keeps running; `{command(PROGRAM_OF_PART[part])} TARGET=k8s RUN={run}`"
            f" follows it again, {others}"
        )
        return EXIT_INTERRUPTED
    except api_errors.Unreachable:
        raise
    except ClusterError as error:
        raise ClusterError(
            f"{error} (job {name} stays and keeps waiting; `{command(f'cluster delete {part}')}"
            f" RUN={run}` deletes it)"
        ) from None
    if outcome.code:
        events.emit("error", outcome.sentence, exit_code=outcome.code)
    else:
        console.print(outcome.sentence)
    return outcome.code
