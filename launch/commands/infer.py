"""`launch infer`: inference with a run's weights, in a Job of the cluster."""

from collections.abc import Sequence

from common import runs
from common.errors import ClusterError, RunError, StorageUnavailable
from common.settings import Settings
from launch import apply, cluster_storage, job, manifests, ownership
from launch.commands.run import UNCHANGED, describe_differences, follow, log_resume
from launch.commands.select import jobs, run_of
from launch.console import ClientConsole
from launch.kube_client import KubeClient, Object


def infer(settings: Settings) -> int:
    """Apply the Job of the selected run and follow it.

    Returns:
        The Job's exit code; 130 after Ctrl-C, which leaves it running.
    """
    objects = manifests.inference(settings)
    cluster = KubeClient.connect(settings)
    cluster.check()
    with ClientConsole() as console:
        if not settings.inference.weights:
            name = _select_run(cluster, objects, settings, console)
            settings = settings.replace(run=name)
            objects = manifests.inference(settings)
        ownership.check(cluster, objects)
        body = next(one for one in objects if one["kind"] == "Job")
        name = body["metadata"]["name"]
        live = cluster.get("Job", name)
        running = live is not None and not job.is_finished(live)
        recreated = "" if live is None else "Job"
        if live is not None and running:
            end = f"make delete-inference RUN={settings.run_name}"
            log_resume(live, describe_differences(cluster, objects), end, console)
        if settings.cluster.dry_run:
            if running:
                console.print(UNCHANGED)
            else:
                apply.apply_all(cluster, objects, console.print, recreated=recreated, dry_run=True)
            return 0
        if not running:
            if live is not None:
                console.print(f"job {name} has finished before; recreating it")
                apply.remove(cluster, body)
            apply.apply_all(cluster, objects, console.print, recreated=recreated)
        return follow(cluster, "Job", name, settings, console, again=running)


def _select_run(
    cluster: KubeClient, objects: Sequence[Object], settings: Settings, console: ClientConsole
) -> str:
    """Return RUN if it is finished, or the run that finished last.

    Raises:
        RunError: There is no such run, or it is not finished.
    """
    wanted = settings.job.run
    location = cluster_storage.StorageLocation.from_objects(objects)
    try:
        with cluster_storage.open_storage(cluster, location) as root:
            return runs.resolve(root, wanted).name
    except (ClusterError, StorageUnavailable) as error:
        if wanted:
            console.print(f"can't check here that run {wanted} is finished: {error}")
            return wanted
        cause = str(error)
    finished = [one for one in jobs(cluster, settings) if job.phase(one) == "Succeeded"]
    if not finished:
        raise RunError(f"can't read here which runs are finished ({cause}): set RUN")
    name = run_of(finished[-1])
    console.print(f"using run {name}, the latest job that succeeded; can't read storage: {cause}")
    return name
