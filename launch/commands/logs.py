"""`launch logs`: the logs of workers, from their pods or from storage."""

import queue
import re
import textwrap

from common import events, runs
from common import storage as files
from common.commands import command
from common.errors import RunError
from common.settings import Settings
from common.text import printable
from launch import cluster_storage, job
from launch.commands import select
from launch.console import ClientConsole
from launch.job_watcher import FINAL_LOG_SECONDS, POLL_SECONDS
from launch.kube_client import KubeClient
from launch.log_stream import LogFollower, Received
from launch.pods import Object

KEPT_LOG = re.compile(r"worker-(\d+)\.attempt-(\d+)\.log")
DRAIN_SECONDS = 0.01


def logs(settings: Settings) -> int:
    """Print the logs of RUN's workers until the job ends, or those that the run has kept.

    Raises:
        RunError: There are no logs, or RUN is missing.
    """
    cluster = KubeClient.connect(settings)
    cluster.check()
    live = select.newest(cluster, settings)
    with ClientConsole() as console:
        if live is not None and _print_pod_logs(cluster, live, console):
            return 0
    name = select.run_of(live) if live is not None else settings.job.run
    if not name:
        raise RunError(
            f"there is no job of qfleet in namespace {cluster.namespace}: name the run, for example"
            f" `{command('cluster logs')} qcnn`"
        )
    location = select.storage_location(cluster, settings, live)
    with cluster_storage.open_storage(cluster, location) as root:
        _print_kept_logs(runs.Run.at(root, name), console)
    return 0


def _print_kept_logs(run: runs.Run, console: ClientConsole) -> None:
    texts = []
    for path in files.children(run.path / "text"):
        if found := KEPT_LOG.fullmatch(path.name):
            texts.append((int(found[2]), int(found[1]), path))
    if not texts:
        raise RunError(
            f"there are neither pods nor kept logs of run {run.name} in {run.path}: list the jobs"
            f" with `{command('cluster list')}`"
        )
    for attempt, worker, path in sorted(texts, key=lambda text: text[:2]):
        console.print(f"== worker {worker}, attempt {attempt}")
        text = files.read_bytes(path).decode("utf-8", "replace")
        print(printable(text, keep="\n\t"), end="", flush=True)


def _print_pod_logs(cluster: KubeClient, live: Object, console: ClientConsole) -> bool:
    """Print the logs of a job's pods until the job ends; return False if there were none."""
    follower = LogFollower(cluster)
    while True:
        ended = job.is_finished(live)
        pods = select.pods(cluster, live)
        follower.follow(pods)
        if not pods and (ended or not follower.has_read):
            return follower.has_read
        if ended:
            follower.finish(FINAL_LOG_SECONDS)
        try:
            while True:
                timeout = DRAIN_SECONDS if ended else POLL_SECONDS
                _print_event(follower.received.get(timeout=timeout), console)
        except queue.Empty:
            pass
        if ended:
            return follower.has_read
        found = cluster.get(live["kind"], live["metadata"]["name"])
        if found is None or found["metadata"]["uid"] != live["metadata"]["uid"]:
            return follower.has_read
        live = found


def _print_event(received: Received, console: ClientConsole) -> None:
    if events.is_streaming():
        console.show(received.event)
    elif (text := events.render(received.event, worker_prefix=False)) is not None:
        console.print(textwrap.indent(text, f"worker {received.rank} | ", lambda line: True))
