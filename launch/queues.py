"""Kueue's queues: whether the one of QUEUE can admit a job."""

from collections.abc import Sequence

from common.errors import ClusterError
from launch import controllers, room
from launch.engines.engine import Engine
from launch.kube_client import KubeClient
from launch.room import Demand


def check(cluster: KubeClient, name: str, engine: Engine | None, workers: Sequence[Demand]) -> str:
    """Check that a queue can admit a job.

    Args:
        cluster: The cluster.
        name: QUEUE; may be empty.
        engine: The engine of the job, if it is known.
        workers: The pods of the job.

    Returns:
        What was found, for people.

    Raises:
        Forbidden: The user may not read the queue.
        ClusterError: The queue never admits the job.
    """
    if not name:
        return "none: QUEUE is not set"
    version = controllers.kueue_api(cluster)
    if not version:
        raise ClusterError(
            f"QUEUE={name} needs Kueue, which this cluster does not have: install it"
            " (https://kueue.sigs.k8s.io), or omit QUEUE"
        )
    is_trainjob = engine is not None and engine.kind == "TrainJob"
    if is_trainjob and (conflict := controllers.queue_conflict(cluster)):
        raise ClusterError(conflict)
    queue = cluster.get("LocalQueue", name, version)
    if queue is None:
        raise ClusterError(
            f"QUEUE={name} is not a LocalQueue of namespace {cluster.namespace}: `kubectl get"
            f" localqueues -n {cluster.namespace}` lists them"
        )
    for one in (queue.get("status") or {}).get("conditions") or []:
        if (one["type"], one["status"]) == ("Active", "False"):
            raise ClusterError(
                f"QUEUE={name} admits no job ({one.get('message') or one.get('reason')}): ask the"
                " cluster's administrator, or set another QUEUE"
            )
    return _check_quota(cluster, name, str(queue["spec"].get("clusterQueue")), version, workers)


def _check_quota(
    cluster: KubeClient, name: str, cluster_queue: str, version: str, workers: Sequence[Demand]
) -> str:
    """Compare the quota of a LocalQueue's ClusterQueue with the workers."""
    found = cluster.get("ClusterQueue", cluster_queue, version)
    if found is None:
        raise ClusterError(
            f"QUEUE={name} is of ClusterQueue {cluster_queue}, which does not exist: ask the"
            " cluster's administrator, or set another QUEUE"
        )
    if room.may_borrow(found):
        return f"{name}, of ClusterQueue {cluster_queue}, which may borrow"
    if excess := room.queue_excess(found, workers):
        raise ClusterError(
            f"ClusterQueue {cluster_queue} of QUEUE={name} never admits the job"
            f" ({'; '.join(excess)}): lower WORKERS, CPU or MEMORY, or set another QUEUE"
        )
    return f"{name}, of ClusterQueue {cluster_queue}, has enough quota"
