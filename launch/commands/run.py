"""`launch run`: a training job into the cluster, and along with it until it ends."""

import contextlib
import sys
from collections.abc import Sequence

from common import runs
from common.errors import ClusterError, RunError, StorageError, StorageUnavailable
from common.runs import auto_settings
from common.settings import Settings
from launch import api_errors, apply, cluster_storage, job, manifests
from launch.console import ClientConsole
from launch.job_watcher import JobWatcher
from launch.kube_client import KubeClient, Object

INTERRUPTED = 130
PLANNER = (str(auto_settings.ROOT / ".venv/bin/python"), "-m", "planning.auto")
"""Command that chooses WORKERS and BATCH: the client's own environment has no TensorFlow."""
NOTHING = "nothing would change: a job that runs is followed as it is"


def run(settings: Settings) -> int:
    """Apply a training job and follow it.

    Returns:
        The job's exit code; 130 after Ctrl-C, which leaves it running.
    """
    asked, settings = settings, auto_settings.with_placeholder_numbers(settings)
    objects = manifests.training(settings)  # first what is wrong without any cluster
    cluster = KubeClient.connect(settings)
    cluster.check()
    cluster.kind("TFJob")
    with ClientConsole() as screen:
        place = f"namespace {cluster.namespace} of context {cluster.context}"
        screen.say(f"training {settings.model.model} as a TFJob in {place}")
        name = which(cluster, objects, settings.run_name, screen)
        if name != settings.run_name:
            screen.say(f"run {settings.run_name} is finished: this one is {name}")
        live = cluster.get("TFJob", name)
        if auto_settings.is_automatic(asked):
            settings = _with_numbers(cluster, objects, asked, name, live, screen)
        settings = settings.replace(run=name)
        objects = manifests.training(settings)
        stand = _stand(cluster, objects, live, screen)
        if settings.cluster.dry_run:
            if stand == "runs":
                screen.say(NOTHING)
            else:
                show_changes(cluster, objects, screen, anew="TFJob" if stand == "anew" else "")
            return 0
        if stand == "anew":
            apply.remove(cluster, "TFJob", name)
        if stand != "runs":
            for body in apply.ordered(objects):
                screen.say(str(apply.apply(cluster, body)))
        return follow(cluster, "TFJob", name, settings, screen, again=stand == "runs")


def _with_numbers(
    cluster: KubeClient,
    objects: Sequence[Object],
    settings: Settings,
    name: str,
    live: Object | None,
    screen: ClientConsole,
) -> Settings:
    """WORKERS=auto and BATCH=auto as numbers: a living job's and the run's own, else planned."""
    with (
        contextlib.suppress(cluster_storage.StorageNotReady),
        cluster_storage.open_storage(cluster, cluster_storage.StorageLocation.of(objects)) as root,
    ):
        settings = auto_settings.inherit_from_run(settings, root, name)
    if live is not None and not job.finished(live):
        return auto_settings.with_placeholder_numbers(settings).replace(
            workers=job.configured_workers(live)
        )
    if auto_settings.is_automatic(settings):
        screen.say("planning in pods of the cluster, unless that was done before")
        settings, why = auto_settings.resolve_auto(
            settings, PLANNER, auto_settings.ROOT
        )
        screen.say(
            f"WORKERS={settings.training.workers} BATCH={settings.training.global_batch}: {why}"
        )
    return settings


def which(
    cluster: KubeClient, objects: Sequence[Object], wanted: str, screen: ClientConsole
) -> str:
    """The run that is meant: a finished one takes the next number.

    What STORAGE holds decides. Where this machine can't read it, the TFJobs in the cluster do.
    """
    try:
        with cluster_storage.open_storage(
            cluster, cluster_storage.StorageLocation.of(objects)
        ) as root:
            return runs.next_name(root, wanted)
    except cluster_storage.StorageNotReady:
        return wanted
    except (ClusterError, StorageError, StorageUnavailable) as error:
        if isinstance(error, api_errors.Unreachable):
            raise
        screen.say(f"going by the jobs in the cluster, since storage can't be read here: {error}")
    for name in runs.numbered(wanted):
        live = cluster.get("TFJob", name)
        if live is None or job.phase(live) != "Succeeded":
            return name
    raise AssertionError("there is always a next number")


def _stand(
    cluster: KubeClient, objects: Sequence[Object], live: Object | None, screen: ClientConsole
) -> str:
    """Where a job of this name stands: '' (there is none), runs, or anew (it is to be replaced)."""
    if live is None:
        return ""
    name = live["metadata"]["name"]
    if (live["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") != "qfleet":
        raise RunError(f"TFJob {name} of this namespace is not qfleet's: choose another RUN")
    if live["metadata"].get("deletionTimestamp"):
        screen.say(f"job {name} is being deleted: it is made anew once it is gone")
        return "anew"
    if job.finished(live):
        screen.say(
            f"job {name} has finished ({job.phase(live)}) while run {name} has not: applying it"
            " again would change nothing, so it is deleted and made anew"
        )
        return "anew"
    differing = describe_differences(cluster, objects)
    if differing and not job.has_run(live):
        screen.say(f"job {name} has not started yet and is made anew: {differing}")
        return "anew"
    log_resume(live, differing, f"python -m launch stop {name}", screen)
    return "runs"


def describe_differences(cluster: KubeClient, objects: Sequence[Object]) -> str:
    """What a living job was started with where `objects` say otherwise; empty if nothing."""
    differing = apply.settings_that_differ(cluster, objects)
    return ", ".join(differing[:6]) + ", ..." * (len(differing) > 6)


def log_resume(live: Object, differing: str, end: str, screen: ClientConsole) -> None:
    """Say that a living job is followed as it is, and how to have what differs."""
    name = live["metadata"]["name"]
    screen.say(f"job {name} is there already ({job.phase(live)}): following it")
    if differing:
        screen.say(
            f"it goes on as it was started, with {differing}: to change that, `{end}`, then say"
            " the same again"
        )


def show_changes(
    cluster: KubeClient, objects: Sequence[Object], screen: ClientConsole, anew: str = ""
) -> None:
    """Say what applying would do, object by object, and change nothing.

    Args:
        cluster: Where.
        objects: What would be applied.
        screen: Where it is said.
        anew: A kind of object that would be deleted first.
    """
    for body in apply.ordered(objects):
        if body["kind"] == anew:
            screen.say(f"anew      {body['kind']}/{body['metadata']['name']}")
        else:
            screen.say(str(apply.change(cluster, body)))


def follow(
    cluster: KubeClient,
    kind: str,
    name: str,
    settings: Settings,
    screen: ClientConsole,
    *,
    again: bool,
) -> int:
    """Follow a job to its end, and say how it ended; `again` if it was there before.

    Raises:
        ClusterError: It can't start.
    """
    run = settings.run_name
    verb = "training" if kind == "TFJob" else "inference"
    try:
        patience = settings.fault_tolerance.rendezvous_timeout
        ended = JobWatcher(cluster, kind, name, screen, patience, again=again).until_end()
    except KeyboardInterrupt:
        others = (
            f"`python -m launch logs {run}` shows what it says, `python -m launch stop {run}` ends"
            " it"
            if kind == "TFJob"
            else f"`make delete-{verb} RUN={run}` ends it"
        )
        screen.say(
            f"job {name} goes on; `make {verb} TARGET=k8s RUN={run}` follows it again, {others}"
        )
        return INTERRUPTED
    except api_errors.Unreachable:
        raise
    except ClusterError as error:
        raise ClusterError(
            f"{error} (job {name} stays and waits; `make delete-{verb} RUN={run}` takes it away)"
        ) from None
    if ended.code:
        print(f"qfleet: {ended.sentence}", file=sys.stderr)
    else:
        screen.say(ended.sentence)
    return ended.code
