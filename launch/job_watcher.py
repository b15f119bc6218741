"""Following a job until it ends: phases, what keeps pods waiting, restarts, the chief's lines."""

import queue
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from common.errors import ClusterError, Preempted, RetryableError
from launch import api_errors, diagnosis, job
from launch.console import ClientConsole
from launch.job import Pod
from launch.kube_client import KubeClient, Object
from launch.log_stream import Lines, LogStream
from launch.outcome import JobOutcome, outcome_of
from launch.pod_watch import PodWatch

LOOK_SECONDS = 1.0
OPERATOR_SECONDS = 20.0
"""How long a TFJob may stay unseen before it is said that no operator runs."""

NEXT = re.compile(r"\bmake (training|inference|tensorboard)\b(?! TARGET)")
RECENT_LINES = 10
SOON_SECONDS = 15.0
SCALE_UP_SECONDS = 600.0
"""How long a node that the autoscaler makes is waited for at least."""

MOST_LOGS = 64
"""Pods of a Job whose logs are read side by side, a connection each."""

AWAY_SECONDS = 120.0
"""How long the API server may be away while a job is followed."""


class JobWatcher:
    """One job, as it goes on.

    Args:
        cluster: Where it is.
        kind: TFJob or Job.
        name: Its name.
        screen: Where news go.
        patience: Seconds that a pod may find no place (RENDEZVOUS_TIMEOUT).
        again: Whether it was there before: then not all that the chief has said is told.
    """

    def __init__(
        self,
        cluster: KubeClient,
        kind: str,
        name: str,
        screen: ClientConsole,
        patience: float,
        *,
        again: bool = False,
    ) -> None:
        self._cluster, self._kind, self._name, self._screen = cluster, kind, name, screen
        self._patience = {
            diagnosis.AT_ONCE: 0.0, diagnosis.SOON: SOON_SECONDS, diagnosis.PLACE: float(patience)
        }  # fmt: skip
        self._again = again
        self._began = time.monotonic()
        self._uid = ""
        self._since: datetime | None = None  # the newest event about the job that was there before
        self._stand = ""
        self._resized = ""
        self._waits: dict[str, float] = {}  # patience -> since when
        self._hindrance = ""
        self._pods: dict[str, Pod] = {}  # title -> the pod of that name that was seen last
        self._gone: set[str] = set()  # uids of pods that have ended
        self._changes = PodWatch(cluster, job.pods_of(kind, name))
        self._blind = False  # whether events may not be read
        self._excused = True  # whether a cause was told since all workers were running
        self._news: list[str] = []
        self._lines: Lines = queue.Queue()
        self._tails: dict[str, LogStream] = {}  # title -> what reads that pod's log

    def until_end(self) -> JobOutcome:
        """Follow it until it has ended.

        Raises:
            ClusterError: It can't start; the sentence says why, and what to do.
            Preempted: Somebody deleted it.
        """
        away = 0.0
        while True:
            try:
                outcome = self._look()
                away = 0.0
            except api_errors.Unreachable as error:
                now = time.monotonic()
                if not away:
                    self._screen.say(f"{error}; trying again")
                away = away or now
                if now - away > AWAY_SECONDS:
                    raise
                outcome = None
            if outcome:
                for tail in self._tails.values():
                    tail.finish(seconds=10)
                self._relay(0)
                return outcome
            self._relay(LOOK_SECONDS)

    def _relay(self, seconds: float) -> None:
        """Show the chief's lines for so long."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(end - time.monotonic(), 0.001))
                # What the chief says to do next is meant for where it runs.
                self._screen.relay(NEXT.sub(r"\g<0> TARGET=k8s", line))
            except queue.Empty:
                if time.monotonic() >= end:
                    return

    def _look(self) -> JobOutcome | None:
        # Pods first: those that a finished job cleans away are then not taken for lost ones.
        every = job.pods(self._cluster.list("Pod", job.pods_of(self._kind, self._name)))
        pods = job.newest(every)
        found = self._cluster.get(self._kind, self._name)
        if found is None or (self._uid and found["metadata"]["uid"] != self._uid):
            raise Preempted(
                f"{self._kind} {self._name} was deleted while it was followed; its checkpoints"
                " stay, and the same command goes on with it"
            )
        if self._again and not self._uid and (before := self._events(found)):
            self._since = diagnosis.event_time(before[-1])
        self._uid = found["metadata"]["uid"]
        ended = job.finished(found)
        self._losses(pods, ended)
        self._say_stand(found, pods)
        self._follow_logs(pods)
        if ended:
            return outcome_of(found, every)
        resized = diagnosis.resized(found)
        if resized and resized != self._resized:
            self._screen.say(resized)
        self._resized = resized
        self._hindered(found, pods)
        return None

    def _say_stand(self, found: Object, pods: Sequence[Pod]) -> None:
        counts: dict[str, int] = {}
        for pod in pods:
            counts[pod.said_state] = counts.get(pod.said_state, 0) + 1
        unit = "worker" if self._kind == "TFJob" else "pod"
        told = ", ".join(
            f"{count} {unit}{'s' * (count > 1)} {state}" for state, count in sorted(counts.items())
        )
        stand = f"job {self._name} {job.phase(found)}" + f": {told}" * bool(told)
        if stand != self._stand:
            self._screen.say(stand)
        self._stand = stand

    def _losses(self, pods: Sequence[Pod], ended: bool) -> None:
        """Say which workers went away and why, and what starts again then.

        One look later: where the job itself has ended or is deleted, nothing starts again.
        """
        while self._news and not ended:
            self._screen.say(self._news.pop(0))
        for pod in [*self._changes.take(), *pods]:
            if pod.uid in self._gone:
                continue
            before = self._pods.get(pod.title)
            self._pods[pod.title] = pod
            if pod.index is None or ended:
                continue
            if before and before.uid not in (pod.uid, *self._gone):
                self._lost(before, "" if self._excused else "was replaced")
            permanent = pod.exit_code is not None and pod.exit_code < RetryableError.exit_code
            why = "" if permanent else diagnosis.disruption_cause(pod)
            if why or pod.exit_code is not None:
                self._lost(pod, why)
        if pods and all("running" in pod.state and not pod.leaving for pod in pods):
            self._excused = False

    def _lost(self, pod: Pod, why: str) -> None:
        self._gone.add(pod.uid)
        if why:
            again = "the gang starts again" if self._kind == "TFJob" else "it alone starts again"
            self._news.append(f"{pod.title} {why}; {again}")
            self._excused = True

    def _follow_logs(self, pods: Sequence[Pod]) -> None:
        """Read the chief's log, or that of each worker of a Job, also after a pod was replaced."""
        if self._kind == "TFJob":
            read = [pod for pod in pods if pod.index in (0, None)][:1]
        elif any(pod.index is not None for pod in pods):
            read = list(pods[:MOST_LOGS])
        else:
            read = [pod for pod in pods if pod.begun][-1:]
        for pod in read:
            if pod.begun:
                self._follow_log(pod)

    def _follow_log(self, pod: Pod) -> None:
        title = pod.title if pod.index is not None else ""
        tail = self._tails.get(title)
        if tail and tail.key == (pod.uid, pod.restarts):
            tail.renew(pod)
            return
        if tail:
            tail.finish(seconds=2)
        last = RECENT_LINES if self._again and not tail else None
        self._tails[title] = LogStream(self._cluster, pod, self._lines, last=last)

    def _hindered(self, found: Object, pods: Sequence[Pod]) -> None:
        """Say what keeps pods from starting.

        Raises:
            ClusterError: Waiting longer would be in vain.
        """
        waiting = [pod for pod in pods if not pod.begun]
        if not waiting and len(pods) >= job.workers(found):
            self._waits.clear()
            self._hindrance = ""
            return
        about = self._events(found)
        if not pods and not job.conditions(found) and not about and self._kind == "TFJob":
            seconds = time.monotonic() - self._began
            if seconds > OPERATOR_SECONDS:
                raise api_errors.no_operator(seconds)
        obstacle = (
            None if len(pods) >= job.workers(found) else diagnosis.not_made(about, self._since)
        )
        scales = False
        for pod in waiting[:4]:
            events = self._events(pod.object)
            scales = scales or diagnosis.scales_up(events)
            obstacle = obstacle or diagnosis.obstacle(pod, events)
        if obstacle is None:
            self._waits.clear()
            return
        now = time.monotonic()
        since = self._waits.setdefault(obstacle.patience, now)
        scales = scales and obstacle.patience == diagnosis.PLACE
        patience = self._patience[obstacle.patience]
        if now - since >= (max(patience, SCALE_UP_SECONDS) if scales else patience):
            raise ClusterError(obstacle.sentence)
        if obstacle.sentence != self._hindrance:
            more = "; the autoscaler makes a node" if scales else ""
            self._screen.say(f"{obstacle.sentence}{more}; waiting")
        self._hindrance = obstacle.sentence

    def _events(self, thing: Mapping[str, Any]) -> list[Object]:
        """The events about an object, the newest last; none where they may not be read."""
        uid = thing["metadata"]["uid"]
        try:
            events = self._cluster.list("Event", fields=f"involvedObject.uid={uid}")
        except api_errors.Forbidden as error:
            if not self._blind:
                self._screen.say(f"{error}; what keeps a pod waiting may stay unsaid")
            self._blind = True
            return []
        return diagnosis.sort_events(events)
