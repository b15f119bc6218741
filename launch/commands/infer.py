"""`launch infer`: a run's weights answer, in a Job of the cluster."""

from collections.abc import Sequence

from common import runs
from common.errors import ClusterError, RunError, StorageUnavailable
from common.settings import Settings
from launch import apply, cluster_storage, job, manifests
from launch.commands.run import NOTHING, describe_differences, follow, log_resume, show_changes
from launch.console import ClientConsole
from launch.kube_client import KubeClient, Object


def infer(settings: Settings) -> int:
    """Apply the Job of the run that is meant, and follow it.

    Returns:
        The Job's exit code; 130 after Ctrl-C, which leaves it running.
    """
    objects = manifests.inference(settings)
    cluster = KubeClient.connect(settings)
    cluster.check()
    with ClientConsole() as screen:
        if not settings.inference.weights:
            name = _which(cluster, objects, settings.job.run, screen)
            settings = settings.replace(run=name)
            objects = manifests.inference(settings)
        name = next(one["metadata"]["name"] for one in objects if one["kind"] == "Job")
        live = cluster.get("Job", name)
        runs_now = live is not None and not job.finished(live)
        if live is not None and runs_now:
            end = f"make delete-inference RUN={settings.run_name}"
            log_resume(live, describe_differences(cluster, objects), end, screen)
        if settings.cluster.dry_run:
            if runs_now:
                screen.say(NOTHING)
            else:
                show_changes(cluster, objects, screen, anew="" if live is None else "Job")
            return 0
        if not runs_now:
            if live is not None:
                screen.say(f"job {name} of before has finished: it is deleted and made anew")
                apply.remove(cluster, "Job", name)
            for body in apply.ordered(objects):
                screen.say(str(apply.apply(cluster, body)))
        return follow(cluster, "Job", name, settings, screen, again=runs_now)


def _which(
    cluster: KubeClient, objects: Sequence[Object], wanted: str, screen: ClientConsole
) -> str:
    """The finished run that is meant: RUN, or the one that was finished last.

    Raises:
        RunError: There is none, or it is not finished.
    """
    try:
        with cluster_storage.open_storage(
            cluster, cluster_storage.StorageLocation.of(objects)
        ) as root:
            return runs.resolve(root, wanted).name
    except (ClusterError, StorageUnavailable) as error:
        if wanted:
            screen.say(f"whether run {wanted} is finished can't be read here: {error}")
            return wanted
        cause = str(error)
    ended = [one for one in cluster.list("TFJob", "app.kubernetes.io/part-of=qfleet")
             if job.phase(one) == "Succeeded"]  # fmt: skip
    if not ended:
        raise RunError(f"which run is finished can't be read here ({cause}): name it as RUN")
    name = str(max(ended, key=job.started_at)["metadata"]["name"])
    screen.say(f"taking run {name}, whose job succeeded last, since storage can't be read: {cause}")
    return name
