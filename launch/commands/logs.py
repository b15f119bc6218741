"""`launch logs`: what workers say, and what they said once their pods are gone."""

import queue
import re

from common import runs
from common import storage as files
from common.errors import RunError
from common.settings import Settings
from launch import cluster_storage, job
from launch.commands import select
from launch.console import ClientConsole
from launch.job import Pod
from launch.job_watcher import LOOK_SECONDS
from launch.kube_client import KubeClient, Object
from launch.log_stream import Lines, LogStream

KEPT = re.compile(r"worker-(\d+)\.attempt-(\d+)\.log")


def logs(settings: Settings) -> int:
    """Print what RUN's workers say until the job ends, or what the run has kept of it."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    screen = ClientConsole()
    live = select.newest(cluster, settings)
    if live is not None and _living(cluster, live, screen):
        return 0
    name = select.run_of(live) if live is not None else settings.job.run
    if not name:
        raise RunError(
            f"there is no job of qfleet in namespace {cluster.namespace}: name the run whose logs"
            " are meant, as in `python -m launch logs qcnn`"
        )
    with cluster_storage.open_storage(
        cluster, select.storage_location(cluster, settings, live)
    ) as root:
        run = runs.Run.at(root, name)
        texts = []
        for path in files.children(run.path / "text"):
            if found := KEPT.fullmatch(path.name):
                texts.append((int(found[2]), int(found[1]), path))
        if not texts:
            raise RunError(
                f"there are neither pods nor kept logs of run {name} in {root}: `python -m launch"
                " list` shows the jobs that there are"
            )
        for attempt, worker, path in sorted(texts, key=lambda text: text[:2]):
            screen.say(f"== worker {worker}, attempt {attempt}")
            print(files.read_bytes(path).decode("utf-8", "replace"), end="", flush=True)
    return 0


def _living(cluster: KubeClient, live: Object, screen: ClientConsole) -> bool:
    """Print the logs of a job's pods, as they grow while it runs; whether there were any."""
    lines: Lines = queue.Queue()
    tails: dict[str, LogStream] = {}
    while True:
        ended = job.finished(live)
        pods = select.pods(cluster, live)
        for pod in pods:
            _tail(cluster, pod, tails, lines)
        if not pods and (ended or not tails):
            return bool(tails)
        if ended:
            for tail in tails.values():
                tail.finish(seconds=10)
        try:
            while True:
                screen.say(lines.get(timeout=0.01 if ended else LOOK_SECONDS))
        except queue.Empty:
            pass
        if ended:
            return bool(tails)
        found = cluster.get("TFJob", live["metadata"]["name"])
        if found is None or found["metadata"]["uid"] != live["metadata"]["uid"]:
            return bool(tails)
        live = found


def _tail(cluster: KubeClient, pod: Pod, tails: dict[str, LogStream], lines: Lines) -> None:
    if not pod.begun:
        return
    known = tails.get(pod.title)
    if known and known.key == (pod.uid, pod.restarts):
        known.renew(pod)
        return
    tails[pod.title] = LogStream(cluster, pod, lines, prefix=f"{pod.title} | ")
