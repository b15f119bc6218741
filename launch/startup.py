"""Pods of a job that do not start: report the reason, and stop waiting when waiting can't help."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from common.errors import ClusterError
from launch import api_errors, controllers, diagnosis, job
from launch.console import ClientConsole
from launch.diagnosis import BRIEF_WAIT_SECONDS, Obstacle, Wait
from launch.engines import BY_KIND
from launch.job import Pod
from launch.kube_client import KubeClient
from launch.pods import Object, ReadObject

CONTROLLER_SECONDS = 20.0
"""Time in which a controller reacts to a training's job if it is running."""

SCALE_UP_SECONDS = 600.0
"""Shortest time to wait for a node that the autoscaler is adding."""

MAX_PODS_EXAMINED = 4
"""Waiting pods whose events are read, since each needs a request."""


class StartupMonitor:
    """Examines the pods of a job that have not started.

    Args:
        cluster: The job's cluster.
        console: Where to report.
        placement_seconds: Time to wait for a pod to be scheduled (RENDEZVOUS_TIMEOUT).
    """

    def __init__(
        self, cluster: KubeClient, console: ClientConsole, placement_seconds: float
    ) -> None:
        self._cluster, self._console = cluster, console
        self._limits = {
            Wait.NONE: 0.0,
            Wait.BRIEF: BRIEF_WAIT_SECONDS,
            Wait.PLACEMENT: float(placement_seconds),
        }
        self._created = time.monotonic()
        self._waiting_since: dict[Wait, float] = {}
        self._reported = ""
        self._old_events_until: datetime | None = None
        self._may_read_events = True
        self._conflict: str | None = None

    def ignore_earlier_events(self, found: Object) -> None:
        """Give events about a job that existed before the time of PLACEMENT: they may be over."""
        if earlier := self._job_events(found):
            self._old_events_until = diagnosis.event_time(earlier[-1])

    def check(self, found: Object, pods: Sequence[Pod]) -> None:
        """Report what keeps pods from starting.

        Args:
            found: The job.
            pods: The newest pod of each worker.

        Raises:
            ClusterError: Waiting longer would not help.
        """
        waiting = [pod for pod in pods if not pod.started]
        missing = len(pods) < job.worker_count(found)
        if not waiting and not missing:
            self._waiting_since.clear()
            self._reported = ""
            return
        if not pods:
            self._refuse_conflict(found)
        about_job = self._job_events(found)
        self._require_controller(found, pods, about_job)
        obstacle = (
            diagnosis.creation_obstacle(about_job, self._old_events_until) if missing else None
        )
        scaling_up = False
        for pod in waiting[:MAX_PODS_EXAMINED]:
            about_pod = self._events(pod.object)
            scaling_up = scaling_up or diagnosis.is_scaling_up(about_pod)
            obstacle = obstacle or diagnosis.find_obstacle(pod, about_pod)
        if obstacle is None:
            self._waiting_since.clear()
        else:
            self._wait(obstacle, scaling_up=scaling_up and obstacle.wait is Wait.PLACEMENT)

    def _refuse_conflict(self, found: Object) -> None:
        if self._conflict is None:  # versions are read once
            self._conflict = controllers.job_conflict(self._cluster, found)
        if self._conflict:
            raise ClusterError(self._conflict)

    def _require_controller(
        self, found: Object, pods: Sequence[Pod], about_job: Sequence[Object]
    ) -> None:
        reacted = pods or found.get("status") or about_job
        if found["kind"] in BY_KIND and not reacted:
            seconds = time.monotonic() - self._created
            if seconds > CONTROLLER_SECONDS:
                raise api_errors.controller_not_running(found["kind"], seconds)

    def _wait(self, obstacle: Obstacle, *, scaling_up: bool) -> None:
        now = time.monotonic()
        since = self._waiting_since.setdefault(obstacle.wait, now)
        limit = self._limits[obstacle.wait]
        if now - since >= (max(limit, SCALE_UP_SECONDS) if scaling_up else limit):
            raise ClusterError(obstacle.sentence)
        if obstacle.sentence != self._reported:
            scaling = "; the autoscaler is adding a node" if scaling_up else ""
            self._console.print(f"{obstacle.sentence}{scaling}; waiting")
        self._reported = obstacle.sentence

    def _job_events(self, found: Object) -> list[Object]:
        return self._readable(lambda: events_about_job(self._cluster, found))

    def _events(self, thing: ReadObject) -> list[Object]:
        return self._readable(lambda: events_about(self._cluster, thing))

    def _readable(self, read: Callable[[], list[Object]]) -> list[Object]:
        """Return events, the newest last; none where reading them is forbidden."""
        try:
            return diagnosis.sort_events(read())
        except api_errors.Forbidden as error:
            if self._may_read_events:
                self._console.print(f"{error}; causes of waiting pods may be missing here")
            self._may_read_events = False
            return []


def events_about_job(cluster: KubeClient, found: Object) -> list[Object]:
    """Return the events about a job and the Jobs that it consists of, the newest last."""
    things = [found]
    if found["kind"] in BY_KIND and BY_KIND[found["kind"]].has_jobs:
        selector = job.pod_selector(found["kind"], found["metadata"]["name"])
        things += cluster.list("Job", selector)
    about = [event for thing in things for event in events_about(cluster, thing)]
    return diagnosis.sort_events(about)


def events_about(cluster: KubeClient, thing: ReadObject) -> list[Object]:
    """Return the events about an object."""
    return cluster.list("Event", fields=f"involvedObject.uid={thing['metadata']['uid']}")
