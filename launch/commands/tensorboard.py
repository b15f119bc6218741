"""`launch tensorboard`: TensorBoard in the cluster, and a local port forwarded to it."""

import socket
import time
from collections.abc import Sequence

from common.commands import command
from common.errors import ClusterError, SettingsError
from common.settings import Settings
from launch import apply, diagnosis, job, manifests
from launch.console import ClientConsole
from launch.diagnosis import BRIEF_WAIT_SECONDS, Obstacle, Wait
from launch.kube_client import KubeClient
from launch.pods import Object
from launch.port_forward import forward_port

READY_SECONDS = 120.0
POLL_SECONDS = 0.5
RECONNECT_SECONDS = 2.0


def tensorboard(settings: Settings, port: int) -> int:
    """Apply TensorBoard, wait until it is ready, and forward a port until Ctrl-C.

    Args:
        settings: All settings.
        port: The port of this machine.
    """
    objects = manifests.build(settings, "tensorboard").objects
    cluster = KubeClient.connect(settings)
    if not settings.cluster.dry_run:
        _check_port(port)
    cluster.check()
    with ClientConsole() as console:
        if settings.cluster.dry_run:
            apply.apply_all(cluster, objects, console.print, dry_run=True)
            return 0
        apply.apply_all(cluster, objects, console.print)
        try:
            _forward(cluster, objects, port, console)
        except KeyboardInterrupt:
            console.print(
                "TensorBoard keeps running in the cluster;"
                f" `{command('cluster delete tensorboard')}` deletes it"
            )
        return 0


def _forward(
    cluster: KubeClient, objects: Sequence[Object], local_port: int, console: ClientConsole
) -> None:
    """Forward the port, again each time TensorBoard's pod is replaced."""
    deployment, service = _own_object(objects, "Deployment"), _own_object(objects, "Service")
    name, port = service["metadata"]["name"], int(service["spec"]["ports"][0]["port"])
    while True:
        _wait_until_ready(cluster, deployment, console)
        with forward_port(cluster, name, port, local_port) as forward:
            console.print(
                f"TensorBoard of all runs: open http://127.0.0.1:{forward.port} (Ctrl-C stops"
                " forwarding)"
            )
            while forward.is_open():
                time.sleep(POLL_SECONDS)
        console.print("the connection to TensorBoard was lost; reconnecting")
        time.sleep(RECONNECT_SECONDS)


def _own_object(objects: Sequence[Object], kind: str) -> Object:
    """Return TensorBoard's object of a kind."""
    return next(
        one
        for one in objects
        if one["kind"] == kind
        and one["metadata"]["labels"].get("app.kubernetes.io/component") == "tensorboard"
    )


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise SettingsError(
                f"PORT={port} is in use on this machine: check whether TensorBoard is"
                f" already at http://127.0.0.1:{port}, or set another, for example"
                f" PORT={port + 1}"
            ) from None


def _wait_until_ready(cluster: KubeClient, deployment: Object, console: ClientConsole) -> None:
    """Wait until TensorBoard is ready.

    Raises:
        ClusterError: It can't start; the message contains the cause.
    """
    name = deployment["metadata"]["name"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    limits = {Wait.NONE: 0.0, Wait.BRIEF: BRIEF_WAIT_SECONDS, Wait.PLACEMENT: READY_SECONDS}
    start, reported = time.monotonic(), ""
    while not _is_ready(cluster.get("Deployment", name) or {}):
        waited = time.monotonic() - start
        obstacle = _find_obstacle(cluster, labels)
        if waited >= (limits[obstacle.wait] if obstacle else READY_SECONDS):
            cause = obstacle.sentence if obstacle else f"{name} is not ready after {waited:.0f} s"
            raise ClusterError(f"{cause} (`{command('cluster delete tensorboard')}` deletes it)")
        if obstacle and obstacle.sentence != reported:
            console.print(f"{obstacle.sentence}; waiting")
            reported = obstacle.sentence
        time.sleep(POLL_SECONDS)


def _is_ready(live: Object) -> bool:
    status = live.get("status") or {}
    current = status.get("observedGeneration") == live.get("metadata", {}).get("generation")
    return bool(current and status.get("updatedReplicas") and status.get("readyReplicas"))


def _find_obstacle(cluster: KubeClient, labels: str) -> Obstacle | None:
    for pod in job.sorted_pods(cluster.list("Pod", labels)):
        if found := diagnosis.find_obstacle(pod):
            return found
    for replicas in cluster.list("ReplicaSet", labels):
        uid = replicas["metadata"]["uid"]
        events = diagnosis.sort_events(cluster.list("Event", fields=f"involvedObject.uid={uid}"))
        if found := diagnosis.creation_obstacle(events):
            return found
    return None
