"""`launch status` and `launch list`: the state of jobs."""

import textwrap

from common import runs
from common.commands import command
from common.errors import ClusterError, StorageError, StorageUnavailable
from common.metrics import line
from common.settings import Settings
from common.text import printable
from launch import cluster_storage, controllers, diagnosis, job
from launch.commands import select
from launch.console import ClientConsole
from launch.job import Pod
from launch.kube_client import KubeClient
from launch.outcome import outcome_of
from launch.pods import Object, StorageLocation
from launch.startup import events_about_job

HEADS = ("WORKER", "STATE", "RESTARTS", "NODE", "AGE", "EXIT", "MESSAGE")
MAX_MESSAGE_CHARACTERS = 100


def status(settings: Settings) -> int:
    """Print the state of RUN's job, or of the newest job."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    console = ClientConsole()
    live = select.newest(cluster, settings)
    if live is None and not settings.job.run:
        console.print(f"there is no job of qfleet in namespace {cluster.namespace}")
        return 0
    location = select.storage_location(cluster, settings, live)
    if live is None:
        _print_stored_run(cluster, location, settings.job.run, console)
        return 0
    run = select.run_of(live)
    pods = select.pods(cluster, live)
    console.print(
        f"job {live['metadata']['name']} {job.phase(live)}, a {live['kind']} created"
        f" {job.age(live)} ago, namespace {cluster.namespace}, context {cluster.context}"
    )
    if pods:
        console.table(HEADS, [_row(pod) for pod in pods])
    for sentence in _explanations(cluster, live, pods):
        console.print(sentence)
    console.print(f"run {run} in {location.storage}/{run}")
    return 0


def _row(pod: Pod) -> tuple[str, ...]:
    return (
        str(pod.index),
        pod.display_state,
        str(pod.restarts),
        pod.node,
        job.age(pod.object),
        "" if pod.exit_code is None else str(pod.exit_code),
        textwrap.shorten(pod.termination_message, MAX_MESSAGE_CHARACTERS, placeholder=" ..."),
    )


def _explanations(cluster: KubeClient, live: Object, pods: list[Pod]) -> list[str]:
    """Return what keeps the job from running, or its outcome."""
    if job.is_finished(live):
        return [outcome_of(live, pods).sentence]
    sentences = [resize] if (resize := diagnosis.describe_resize(live)) else []
    if len(pods) < job.worker_count(live):
        obstacle = diagnosis.creation_obstacle(events_about_job(cluster, live))
        sentences += [obstacle.sentence] if obstacle else []
    if not pods and (conflict := controllers.job_conflict(cluster, live)):
        sentences.append(conflict)
    obstacles = (diagnosis.find_obstacle(pod) for pod in pods if not pod.started)
    first = next(filter(None, obstacles), None)
    return sentences + ([first.sentence] if first else [])


def _print_stored_run(
    cluster: KubeClient,
    location: StorageLocation,
    run: str,
    console: ClientConsole,
) -> None:
    """Print the state of a run that has no job in the cluster."""
    console.print(f"there is no job of run {run} in namespace {cluster.namespace}")
    try:
        with cluster_storage.open_storage(cluster, location) as root:
            stored = runs.Run.at(root, run)
            if stored.finished():
                test = stored.result()["metrics"].get("test", {})
                known = {name: value for name, value in test.items() if value is not None}
                metrics = f": test {printable(line(known))}" if known else ""
                console.print(f"run {run} is finished{metrics}; it is in {stored.path}")
            elif stored.exists():
                console.print(
                    f"run {run} is unfinished, in {stored.path}: run `{command('train')}"
                    f" TARGET=k8s RUN={run}` to {stored.continuation}"
                )
    except cluster_storage.StorageNotReady:
        return
    except (ClusterError, StorageError, StorageUnavailable) as error:
        console.print(f"storage can't be read here: {error}")


def list_jobs(settings: Settings) -> int:
    """List qfleet's jobs in the namespace."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    rows = []
    for part in ("training", "inference", "search"):
        for one in select.jobs(cluster, settings, part):
            running = [pod for pod in select.pods(cluster, one) if "running" in pod.state]
            workers = f"{len(running)}/{job.worker_count(one)}"
            rows.append((select.run_of(one), part, job.phase(one), workers, job.age(one)))
    if not rows:
        ClientConsole().print(f"no jobs of qfleet in namespace {cluster.namespace}")
        return 0
    ClientConsole().table(("RUN", "JOB", "PHASE", "RUNNING", "AGE"), rows)
    return 0
