"""`launch infer`: inference with a run's weights, in a Job of the cluster."""

from common import runs
from common.commands import command
from common.errors import ClusterError, RunError, StorageUnavailable
from common.settings import Settings
from launch import cluster_storage, job, manifests, ownership
from launch.commands.run import Action, carry_out, describe_differences, log_resume
from launch.commands.select import jobs, run_of
from launch.console import ClientConsole
from launch.kube_client import KubeClient
from launch.pods import StorageLocation


def infer(settings: Settings) -> int:
    """Apply the Job of the selected run and follow it.

    Returns:
        The Job's exit code; 130 after Ctrl-C, which leaves it running.
    """
    build = manifests.build(settings, "inference")
    cluster = KubeClient.connect(settings)
    cluster.check()
    with ClientConsole() as console:
        if not settings.inference.weights:
            settings = settings.replace(run=_select_run(cluster, build.storage, settings, console))
        objects = manifests.build(settings, "inference", build).objects
        ownership.check(cluster, objects)
        body = next(one for one in objects if one["kind"] == "Job")
        name = body["metadata"]["name"]
        live = cluster.get("Job", name)
        action: Action = "create" if live is None else "recreate"
        if live is not None and not job.is_finished(live):
            action = "follow"
            end = f"{command('cluster delete inference')} RUN={settings.run_name}"
            log_resume(live, describe_differences(cluster, objects), end, console)
        elif live is not None and not settings.cluster.dry_run:
            console.print(f"job {name} has finished before; recreating it")
        return carry_out(action, cluster, objects, "Job", settings, console)


def _select_run(
    cluster: KubeClient, location: StorageLocation, settings: Settings, console: ClientConsole
) -> str:
    """Return RUN if it is finished, or the run that finished last.

    Raises:
        RunError: There is no such run, or it is not finished.
    """
    wanted = settings.job.run
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
