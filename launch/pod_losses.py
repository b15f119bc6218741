"""Detection of workers that were lost: which, why, and what restarts."""

from collections.abc import Sequence

from common.errors import RetryableError
from launch import diagnosis, job
from launch.engines import BY_KIND
from launch.job import Pod
from launch.kube_client import KubeClient
from launch.pod_watch import PodWatch


class PodLosses:
    """Compares the pods of a job with those seen before.

    Args:
        cluster: The job's cluster.
        kind: The job's kind.
        name: The job's name.
    """

    def __init__(self, cluster: KubeClient, kind: str, name: str) -> None:
        self._watch = PodWatch(cluster, job.pod_selector(kind, name))
        self._consequence = (
            "restarting all workers" if kind in BY_KIND else "restarting that worker only"
        )
        self._deletes_peers = kind in BY_KIND and BY_KIND[kind].has_jobs
        self._pods: dict[str, Pod] = {}  # worker's title -> its latest pod
        self._lost: set[str] = set()  # uids
        self._explained = True  # a cause was reported since all workers were running
        self._pending: list[str] = []

    def update(self, pods: Sequence[Pod], *, job_ended: bool) -> list[str]:
        """Return what to report. Losses are reported one call later.

        Nothing restarts where the job itself has ended or was deleted meanwhile.

        Args:
            pods: The newest pod of each worker.
            job_ended: The job has ended.
        """
        reported = [] if job_ended else self._pending
        if not job_ended:
            self._pending = []
        for pod in [*self._watch.take(), *pods]:
            if pod.uid not in self._lost:
                self._compare(pod, job_ended=job_ended)
        if pods and all("running" in pod.state and not pod.terminating for pod in pods):
            self._explained = False
        return reported

    def _compare(self, pod: Pod, *, job_ended: bool) -> None:
        before = self._pods.get(pod.title)
        self._pods[pod.title] = pod
        if pod.index is None or job_ended:
            return
        if before and before.uid not in (pod.uid, *self._lost):
            self._lose(before, "" if self._explained else "was replaced")
        permanent = pod.exit_code is not None and pod.exit_code < RetryableError.exit_code
        cause = "" if permanent else diagnosis.disruption_cause(pod)
        if cause == diagnosis.DELETED and self._explained and self._deletes_peers:
            cause = ""  # its Job ended with the worker that was reported
        if cause or pod.exit_code is not None:
            self._lose(pod, cause)

    def _lose(self, pod: Pod, cause: str) -> None:
        self._lost.add(pod.uid)
        if cause:
            self._pending.append(f"{pod.title} {cause}; {self._consequence}")
            self._explained = True
