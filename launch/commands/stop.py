"""`launch stop` and `launch delete`: remove jobs from the cluster; runs in storage are kept."""

from collections.abc import Sequence

from common.commands import command
from common.errors import RunError, SettingsError
from common.settings import Settings
from common.text import did_you_mean
from launch import apply, job
from launch.commands import select
from launch.console import ClientConsole
from launch.kube_client import KubeClient
from launch.pods import Object

KINDS = {
    "training": ("ConfigMap", "NetworkPolicy"),
    "inference": ("ConfigMap", "NetworkPolicy"),
    "search": ("ConfigMap", "NetworkPolicy"),
    "tensorboard": ("Deployment", "Service", "NetworkPolicy"),
}
"""Kinds of the objects that only this part uses, in addition to its job."""


def stop(settings: Settings) -> int:
    """Delete a training job and wait until its pods are gone; the chief saves a checkpoint."""
    cluster = KubeClient.connect(settings)
    cluster.check()
    run, live = select.only(cluster, settings)
    assert live is not None  # `only` returns None only for `others`
    _stop(cluster, run, live, ClientConsole(), dry_run=settings.cluster.dry_run)
    return 0


def _stop(
    cluster: KubeClient, run: str, live: Object, console: ClientConsole, *, dry_run: bool
) -> None:
    name, phase = live["metadata"]["name"], job.phase(live)
    deleted = apply.action_line(live["kind"], name, "deleted", dry_run=dry_run)
    if dry_run:
        console.print(deleted)
    elif job.is_finished(live):
        apply.remove(cluster, live)
        console.print(deleted)
        console.print(f"job {name} had ended before ({phase})")
    else:
        console.print(f"job {name} {phase}: stopping its workers; the chief saves its last step")
        seconds = apply.remove(cluster, live) or 0
        console.print(deleted)
        console.print(
            f"job {name} was stopped in {seconds:.0f} s; `{command('train')} TARGET=k8s RUN={run}`"
            " resumes from the newest checkpoint, if there is one"
        )


def delete(settings: Settings, part: str) -> int:
    """Delete the job of a training, inference or search, or TensorBoard, and what only they use.

    Args:
        settings: RUN and the cluster.
        part: training, inference, search or tensorboard.

    Raises:
        SettingsError: There is no such part.
        RunError: There is no such job.
    """
    if part not in KINDS:
        raise SettingsError(
            f"can't delete {part or 'nothing'}: choose one of {', '.join(KINDS)}"
            + did_you_mean(part, KINDS)
        )
    cluster = KubeClient.connect(settings)
    cluster.check()
    console = ClientConsole()
    dry_run = settings.cluster.dry_run
    labels = f"{select.QFLEET},app.kubernetes.io/component={part}"
    if part != "tensorboard":
        labels = f"{labels},qfleet/run={_delete_job(cluster, settings, part, labels, console)}"
    used = _labelled(cluster, KINDS[part], labels)
    if part == "tensorboard" and not used:
        raise RunError(f"there is no TensorBoard in namespace {cluster.namespace}")
    for one in used:
        kind, name = one["kind"], one["metadata"]["name"]
        if not dry_run:
            apply.delete(cluster, one)
        console.print(apply.action_line(kind, name, "deleted", dry_run=dry_run))
    console.print("runs in storage are kept")
    return 0


def _delete_job(
    cluster: KubeClient, settings: Settings, part: str, labels: str, console: ClientConsole
) -> str:
    """Delete the job of a part, if it still exists, and return its run."""
    dry_run = settings.cluster.dry_run
    others = [select.run_of(one) for one in _labelled(cluster, KINDS[part], labels)]
    run, live = select.only(cluster, settings, part, others)
    if live is not None and part == "training":
        _stop(cluster, run, live, console, dry_run=dry_run)
    elif live is not None:
        name = live["metadata"]["name"]
        if not dry_run:
            apply.remove(cluster, live)
        console.print(apply.action_line(live["kind"], name, "deleted", dry_run=dry_run))
    return run


def _labelled(cluster: KubeClient, kinds: Sequence[str], labels: str) -> list[Object]:
    return [one for kind in kinds for one in cluster.list(kind, labels)]
