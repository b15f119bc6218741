"""`launch logs`: what workers say, and what they said once their pods are gone."""

import queue
import re

from common import runs
from common import storage as files
from common.errors import RunError
from common.settings import Settings
from launch import job, storage
from launch.client import Cluster, Object
from launch.following import LOOK_SECONDS
from launch.job import Pod
from launch.screen import Screen
from launch.tail import Lines, Tail
from launch.verbs import chosen

KEPT = re.compile(r"worker-(\d+)\.attempt-(\d+)\.log")


def logs(settings: Settings) -> int:
    """Print what RUN's workers say until the job ends, or what the run has kept of it."""
    cluster = Cluster.connect(settings)
    cluster.check()
    screen = Screen()
    live = chosen.newest(cluster, settings)
    if live is not None and _living(cluster, live, screen):
        return 0
    name = chosen.run_of(live) if live is not None else settings.run
    if not name:
        raise RunError(
            f"there is no job of qfleet in namespace {cluster.namespace}: name the run whose logs"
            " are meant, as in `python -m launch logs qcnn`"
        )
    with storage.reached(cluster, chosen.place(cluster, settings, live)) as root:
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


def _living(cluster: Cluster, live: Object, screen: Screen) -> bool:
    """Print the logs of a job's pods, as they grow while it runs; whether there were any."""
    lines: Lines = queue.Queue()
    tails: dict[str, Tail] = {}
    while True:
        ended = job.finished(live)
        pods = chosen.pods(cluster, live)
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


def _tail(cluster: Cluster, pod: Pod, tails: dict[str, Tail], lines: Lines) -> None:
    if not pod.begun:
        return
    known = tails.get(pod.title)
    if known and known.key == (pod.uid, pod.restarts):
        known.renew(pod)
        return
    tails[pod.title] = Tail(cluster, pod, lines, prefix=f"{pod.title} | ")
