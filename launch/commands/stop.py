"""`launch stop` and `launch delete`: out of the cluster; what runs have left stays."""

from collections.abc import Sequence

from common.errors import RunError, SettingsError
from common.settings import Settings
from launch import apply, job
from launch.commands import select
from launch.console import ClientConsole
from launch.kube_client import KubeClient, Object

OWN = {
    "training": ("ConfigMap", "NetworkPolicy"),
    "inference": ("ConfigMap", "NetworkPolicy"),
    "tensorboard": ("Deployment", "Service", "NetworkPolicy"),
}
"""What a part has for itself, besides its job."""


def stop(settings: Settings) -> int:
    """Delete a training job and wait until its pods are gone; the chief leaves a checkpoint."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    run, live = select.only(cluster, settings)
    assert live is not None  # no others are asked for
    _stop(cluster, run, live, settings.cluster.dry_run, ClientConsole())
    return 0


def _stop(
    cluster: KubeClient, run: str, live: Object, dry_run: bool, screen: ClientConsole
) -> None:
    name, stood = live["metadata"]["name"], job.phase(live)
    if dry_run:
        screen.say(f"deleted   TFJob/{name} ({stood})")
    elif job.finished(live):
        apply.remove(cluster, "TFJob", name)
        screen.say(f"job {name} had ended before ({stood}); it is deleted")
    else:
        screen.say(
            f"job {name} {stood}: its workers are told to stop, the chief leaves a checkpoint"
        )
        seconds = apply.remove(cluster, "TFJob", name) or 0
        screen.say(
            f"job {name} is gone after {seconds:.0f} s; `make training TARGET=k8s RUN={run}` goes"
            " on where it stopped"
        )


def delete(settings: Settings, part: str) -> int:
    """Delete a training job, an inference job or TensorBoard, and what they alone use.

    Args:
        settings: RUN, where it is one's, and where.
        part: training, inference or tensorboard.
    """
    if part not in OWN:
        raise SettingsError(f"delete {part or 'what?'}: it is one of {', '.join(OWN)}")
    cluster = KubeClient.connect(settings)
    cluster.check()
    screen = ClientConsole()
    labels = f"{select.QFLEET},app.kubernetes.io/component={part}"
    if part == "tensorboard":
        used = _labelled(cluster, OWN[part], labels)
        if not used:
            raise RunError(f"there is no TensorBoard in namespace {cluster.namespace}")
    else:
        kind = "TFJob" if part == "training" else "Job"
        others = [select.run_of(one) for one in _labelled(cluster, OWN[part], labels)]
        run, live = select.only(cluster, settings, kind, others)
        if live is not None and part == "training":
            _stop(cluster, run, live, settings.cluster.dry_run, screen)
        elif live is not None:
            if not settings.cluster.dry_run:
                apply.remove(cluster, kind, live["metadata"]["name"])
            screen.say(f"deleted   {kind}/{live['metadata']['name']}")
        used = _labelled(cluster, OWN[part], f"{labels},qfleet/run={run}")
    for one in used:
        if not settings.cluster.dry_run:
            cluster.delete(one["kind"], one["metadata"]["name"])
        screen.say(f"deleted   {one['kind']}/{one['metadata']['name']}")
    screen.say("what runs have left in storage stays")
    return 0


def _labelled(cluster: KubeClient, kinds: Sequence[str], labels: str) -> list[Object]:
    return [one for kind in kinds for one in cluster.list(kind, labels)]
