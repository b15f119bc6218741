"""`launch tensorboard`: TensorBoard in the cluster, and a way to it from this machine."""

import socket
import time

from common.errors import ClusterError, SettingsError
from common.settings import Settings
from launch import apply, diagnosis, job, manifests
from launch.commands.run import show_changes
from launch.console import ClientConsole
from launch.kube_client import KubeClient, Object
from launch.port_forward import forward_port

READY_SECONDS = 120.0
SOON_SECONDS = 15.0


def tensorboard(settings: Settings) -> int:
    """Apply TensorBoard, wait until it is ready, and lead TENSORBOARD_PORT to it until Ctrl-C."""
    objects = manifests.tensorboard(settings)
    cluster = KubeClient.connect(settings)
    if not settings.cluster.dry_run:
        _check_port(settings.monitoring.tensorboard_port)
    cluster.check()
    with ClientConsole() as screen:
        if settings.cluster.dry_run:
            show_changes(cluster, objects, screen)
            return 0
        for body in apply.ordered(objects):
            screen.say(str(apply.apply(cluster, body)))
        deployment = _named(objects, "Deployment")
        service = _named(objects, "Service")
        port = int(service["spec"]["ports"][0]["port"])
        try:
            while True:
                _wait(cluster, deployment, screen)
                with forward_port(
                    cluster, service["metadata"]["name"], port, settings.monitoring.tensorboard_port
                ) as way:
                    screen.say(
                        f"TensorBoard of all runs: open http://127.0.0.1:{way.port} (Ctrl-C closes"
                        " the way to it)"
                    )
                    while way.is_open():
                        time.sleep(0.5)
                screen.say("the way to TensorBoard has ended with its pod: opening it again")
                time.sleep(2)
        except KeyboardInterrupt:
            screen.say(
                "TensorBoard goes on in the cluster; `make delete-tensorboard` takes it away"
            )
            return 0


def _named(objects: list[Object], kind: str) -> Object:
    """The object of a kind that is TensorBoard's own."""
    return next(
        one
        for one in objects
        if one["kind"] == kind
        and one["metadata"]["labels"].get("app.kubernetes.io/component") == "tensorboard"
    )


def _check_port(port: int) -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            raise SettingsError(
                f"TENSORBOARD_PORT={port} cannot be had on this machine: look whether a TensorBoard"
                f" is at http://127.0.0.1:{port} already, or name another, as in"
                f" TENSORBOARD_PORT={port + 1}"
            ) from None


def _wait(cluster: KubeClient, deployment: Object, screen: ClientConsole) -> None:
    """Wait until TensorBoard is ready.

    Raises:
        ClusterError: It can't start; the sentence says why.
    """
    name = deployment["metadata"]["name"]
    chosen = deployment["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{key}={value}" for key, value in chosen.items())
    began, said = time.monotonic(), ""
    while True:
        live = cluster.get("Deployment", name) or {}
        status = live.get("status") or {}
        current = status.get("observedGeneration") == live.get("metadata", {}).get("generation")
        if current and status.get("updatedReplicas") and status.get("readyReplicas"):
            return
        waited = time.monotonic() - began
        obstacle = _obstacle(cluster, labels)
        limit = {diagnosis.AT_ONCE: 0.0, diagnosis.SOON: SOON_SECONDS}.get(
            obstacle.patience if obstacle else "", READY_SECONDS
        )
        if waited >= limit:
            why = obstacle.sentence if obstacle else f"{name} is not ready after {waited:.0f} s"
            raise ClusterError(f"{why} (`make delete-tensorboard` takes it away)")
        if obstacle and obstacle.sentence != said:
            screen.say(f"{obstacle.sentence}; waiting")
            said = obstacle.sentence
        time.sleep(0.5)


def _obstacle(cluster: KubeClient, labels: str) -> diagnosis.Obstacle | None:
    for pod in job.pods(cluster.list("Pod", labels)):
        if found := diagnosis.obstacle(pod):
            return found
    for replicas in cluster.list("ReplicaSet", labels):
        uid = replicas["metadata"]["uid"]
        events = diagnosis.sort_events(cluster.list("Event", fields=f"involvedObject.uid={uid}"))
        if found := diagnosis.not_made(events):
            return found
    return None
