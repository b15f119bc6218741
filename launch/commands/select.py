"""Which job a verb means: RUN, or the one that is there."""

import difflib
from collections.abc import Sequence

from common.errors import RunError
from common.runs import auto_settings
from common.settings import Settings
from launch import job, manifests
from launch.cluster_storage import StorageLocation
from launch.kube_client import KubeClient, Object

QFLEET = "app.kubernetes.io/part-of=qfleet"


def jobs(cluster: KubeClient, kind: str = "TFJob") -> list[Object]:
    """qfleet's jobs of a kind, the newest last."""
    return sorted(cluster.list(kind, QFLEET), key=job.started_at)


def run_of(found: Object) -> str:
    """The run that a job works on."""
    return str(
        (found["metadata"].get("labels") or {}).get("qfleet/run") or found["metadata"]["name"]
    )


def pods(cluster: KubeClient, found: Object) -> list[job.Pod]:
    """A job's pods, by number."""
    return job.pods(cluster.list("Pod", job.pods_of(found["kind"], found["metadata"]["name"])))


def newest(cluster: KubeClient, settings: Settings, kind: str = "TFJob") -> Object | None:
    """The newest job of RUN, or of any run where none is named; None where there is none."""
    found = jobs(cluster, kind)
    return next((one for one in reversed(found) if settings.job.run in ("", run_of(one))), None)


def only(
    cluster: KubeClient, settings: Settings, kind: str = "TFJob", others: Sequence[str] = ()
) -> tuple[str, Object | None]:
    """The run that is meant, and its job: that of RUN, or the only one. For what can't be undone.

    Args:
        cluster: Where.
        settings: RUN.
        kind: TFJob or Job.
        others: Runs that count as well, although they have no job any more.

    Raises:
        RunError: There is none, or there are several.
    """
    found = {run_of(one): one for one in jobs(cluster, kind)}
    names = list(dict.fromkeys([*found, *others]))
    if settings.job.run:
        if settings.job.run not in names:
            near = difflib.get_close_matches(settings.job.run, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise RunError(
                f"there is no job of run {settings.job.run} in namespace {cluster.namespace}:"
                f" {hint if names else 'there are none of qfleet'}"
            )
        return settings.job.run, found.get(settings.job.run)
    if not names:
        raise RunError(f"there is no job of qfleet in namespace {cluster.namespace}")
    living = [name for name, one in found.items() if not job.finished(one)] or names
    if len(living) > 1:
        several = ", ".join(living)
        raise RunError(f"there are several jobs ({several}): say which is meant, as RUN=name")
    return living[0], found.get(living[0])


def storage_location(
    cluster: KubeClient, settings: Settings, live: Object | None
) -> StorageLocation:
    """Where the runs of a job are kept; without one, where the settings would have them."""
    if live is None:
        return StorageLocation.of(
            manifests.training(auto_settings.with_placeholder_numbers(settings))
        )
    told = cluster.get("ConfigMap", f"{live['metadata']['name']}-settings")
    return StorageLocation.of([live, *([told] if told else [])])
