"""`launch stop` and `launch delete`: out of the cluster; what runs have left stays."""

from common.errors import ClusterError, SettingsError
from common.settings import Settings
from launch import apply, job, manifests
from launch.client import Cluster
from launch.screen import Screen
from launch.verbs import chosen

PARTS = ("training", "inference", "tensorboard")


def stop(settings: Settings) -> int:
    """Delete a training job and wait until its pods are gone; the chief leaves a checkpoint."""
    cluster = Cluster.connect(settings)
    cluster.check()
    _stop(cluster, settings, Screen())
    return 0


def _stop(cluster: Cluster, settings: Settings, screen: Screen) -> str:
    live = chosen.only(cluster, settings)
    run, name, stood = chosen.run_of(live), live["metadata"]["name"], job.phase(live)
    if settings.dry_run:
        screen.say(f"deleted   TFJob/{name} ({stood})")
        return run
    if job.finished(live):
        apply.remove(cluster, "TFJob", name)
        screen.say(f"job {name} had ended before ({stood}); it is deleted")
        return run
    screen.say(f"job {name} {stood}: its workers are told to stop, the chief leaves a checkpoint")
    seconds = apply.remove(cluster, "TFJob", name) or 0
    screen.say(
        f"job {name} is gone after {seconds:.0f} s; `make training TARGET=k8s RUN={run}` goes on"
        " where it stopped"
    )
    return run


def delete(settings: Settings, part: str) -> int:
    """Delete a training job, an inference job or TensorBoard, and what they alone use.

    Args:
        settings: RUN, where it is one's, and where.
        part: training, inference or tensorboard.
    """
    if part not in PARTS:
        raise SettingsError(f"delete {part or 'what?'}: it is one of {', '.join(PARTS)}")
    cluster = Cluster.connect(settings)
    cluster.check()
    screen = Screen()
    labels = f"{chosen.QFLEET},app.kubernetes.io/component={part}"
    if part == "tensorboard":
        found = manifests.tensorboard(settings)
        kept = ("ServiceAccount",)
        names = [(one["kind"], one["metadata"]["name"]) for one in found if one["kind"] not in kept]
    else:
        if part == "training":
            run = _stop(cluster, settings, screen)
        else:
            live = chosen.only(cluster, settings, "Job")
            run, name = chosen.run_of(live), live["metadata"]["name"]
            if settings.dry_run:
                screen.say(f"deleted   Job/{name}")
            else:
                apply.remove(cluster, "Job", name)
                screen.say(f"deleted   Job/{name}")
        labels += f",qfleet/run={run}"
        names = [
            (kind, one["metadata"]["name"])
            for kind in ("ConfigMap", "NetworkPolicy")
            for one in cluster.list(kind, labels)
        ]
    for kind, name in names:
        if settings.dry_run or cluster.delete(kind, name):
            screen.say(f"deleted   {kind}/{name}")
    if not names and part == "tensorboard":
        raise ClusterError(f"there is no TensorBoard in namespace {cluster.namespace}")
    screen.say("what runs have left in storage stays")
    return 0
