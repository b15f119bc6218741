"""`launch status` and `launch list`: where jobs stand."""

import textwrap

from common import runs
from common.errors import ClusterError, StorageError, StorageUnavailable
from common.settings import Settings
from launch import cluster_storage, diagnosis, job
from launch.commands import select
from launch.console import ClientConsole
from launch.job import Pod
from launch.kube_client import KubeClient, Object
from launch.outcome import outcome_of


def status(settings: Settings) -> int:
    """Say where RUN's job stands, or the newest one."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    screen = ClientConsole()
    live = select.newest(cluster, settings)
    if live is None and not settings.job.run:
        screen.say(f"there is no job of qfleet in namespace {cluster.namespace}")
        return 0
    place = select.storage_location(cluster, settings, live)
    if live is None:
        _kept(cluster, place, settings.job.run, screen)
        return 0
    run = select.run_of(live)
    pods = select.pods(cluster, live)
    screen.say(
        f"job {live['metadata']['name']} {job.phase(live)}, made {job.age(live)} ago in namespace"
        f" {cluster.namespace} of context {cluster.context}"
    )
    if pods:
        heads = ("WORKER", "STATE", "RESTARTS", "NODE", "AGE", "EXIT", "LAST SENTENCE")
        screen.table(heads, [_row(pod) for pod in pods])
    for sentence in _sentences(cluster, live, pods):
        screen.say(sentence)
    screen.say(f"run {run} in {place.storage}/{run}: model/weights.h5 once it is finished, text/")
    return 0


def _row(pod: Pod) -> tuple[str, ...]:
    code = "" if pod.exit_code is None else str(pod.exit_code)
    return (
        str(pod.index), pod.said_state, str(pod.restarts), pod.node, job.age(pod.object), code,
        textwrap.shorten(pod.last_words, 100, placeholder=" ..."),
    )  # fmt: skip


def _sentences(cluster: KubeClient, live: Object, pods: list[Pod]) -> list[str]:
    """What keeps the job from running, or how it ended."""
    if job.finished(live):
        return [outcome_of(live, pods).sentence]
    told = [resized] if (resized := diagnosis.resized(live)) else []
    if len(pods) < job.workers(live):
        uid = live["metadata"]["uid"]
        events = diagnosis.sort_events(cluster.list("Event", fields=f"involvedObject.uid={uid}"))
        told += [found.sentence] if (found := diagnosis.not_made(events)) else []
    found = next((one for pod in pods if not pod.begun and (one := diagnosis.obstacle(pod))), None)
    return told + ([found.sentence] if found else [])


def _kept(
    cluster: KubeClient, place: cluster_storage.StorageLocation, run: str, screen: ClientConsole
) -> None:
    """What storage says of a run that has no job in the cluster (any more)."""
    screen.say(f"there is no job of run {run} in namespace {cluster.namespace}")
    try:
        with cluster_storage.open_storage(cluster, place) as root:
            kept = runs.Run.at(root, run)
            if kept.finished():
                test = kept.result()["metrics"]["test"]
                numbers = f"test mse {test['mse']:.4f}, accuracy {test['accuracy']:.3f}"
                screen.say(f"run {run} is finished: {numbers}; it is in {kept.path}")
            elif kept.exists():
                screen.say(
                    f"run {run} is unfinished, in {kept.path}: `make training TARGET=k8s"
                    f" RUN={run}` goes on with it"
                )
    except cluster_storage.StorageNotReady:
        return
    except (ClusterError, StorageError, StorageUnavailable) as error:
        screen.say(f"what is kept of it can't be read here: {error}")


def list_jobs(settings: Settings) -> int:
    """List qfleet's jobs in the namespace."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    rows = []
    for kind in ("TFJob", "Job"):
        for one in select.jobs(cluster, kind):
            running = [pod for pod in select.pods(cluster, one) if "running" in pod.state]
            workers = f"{len(running)}/{job.workers(one)}"
            what = "training" if kind == "TFJob" else "inference"
            rows.append((select.run_of(one), what, job.phase(one), workers, job.age(one)))
    if not rows:
        ClientConsole().say(f"no jobs of qfleet in namespace {cluster.namespace}")
        return 0
    ClientConsole().table(("RUN", "JOB", "PHASE", "RUNNING", "AGE"), rows)
    return 0
