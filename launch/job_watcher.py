"""Following a job until it ends: phases, obstacles, lost workers, and the events of its pods."""

import dataclasses
import queue
import time
from collections import Counter
from collections.abc import Sequence

from common import events
from common.commands import command, split_command
from common.errors import Preempted
from common.events import Event
from common.settings.programs import PROGRAMS
from common.text import plural
from launch import api_errors, diagnosis, job
from launch.client_commands import PROGRAM_OF_PART
from launch.console import ClientConsole
from launch.engines import BY_KIND
from launch.job import Pod
from launch.kube_client import KubeClient
from launch.log_stream import LogFollower
from launch.outcome import JobOutcome, outcome_of
from launch.pod_losses import PodLosses
from launch.pods import Object
from launch.startup import StartupMonitor

POLL_SECONDS = 1.0
RECENT_LINES = 10
FINAL_LOG_SECONDS = 10.0

MAX_LOGS = 64
"""Pods of a Job whose logs are read at the same time, each over its own connection."""

UNREACHABLE_SECONDS = 120.0
"""Longest time without an answer of the API server while a job is followed."""


class JobWatcher:
    """Follows one job.

    Args:
        cluster: The job's cluster.
        kind: Its kind.
        name: The job's name.
        console: Where to report.
        placement_seconds: Time to wait for a pod to be scheduled (RENDEZVOUS_TIMEOUT).
        again: The job existed before; only the latest lines of its logs are shown.
    """

    def __init__(
        self,
        cluster: KubeClient,
        kind: str,
        name: str,
        console: ClientConsole,
        placement_seconds: float,
        *,
        again: bool = False,
    ) -> None:
        self._cluster, self._kind, self._name, self._console = cluster, kind, name, console
        self._again = again
        self._uid = ""
        self._reported_phase = ""
        self._reported_resize = ""
        self._losses = PodLosses(cluster, kind, name)
        self._startup = StartupMonitor(cluster, console, placement_seconds)
        self._logs = LogFollower(cluster, RECENT_LINES if again else None)

    def until_end(self) -> JobOutcome:
        """Follow the job until it has ended.

        Raises:
            ClusterError: The job can't start; the message contains the cause and the remedy.
            Preempted: The job was deleted.
        """
        unreachable_since = 0.0
        while True:
            outcome = None
            try:
                outcome = self._poll()
                unreachable_since = 0.0
            except api_errors.Unreachable as error:
                now = time.monotonic()
                if not unreachable_since:
                    self._console.print(f"{error}; trying again")
                unreachable_since = unreachable_since or now
                if now - unreachable_since > UNREACHABLE_SECONDS:
                    raise
            if outcome:
                self._logs.finish(FINAL_LOG_SECONDS)
                self._show_events(0)
                return outcome
            self._show_events(POLL_SECONDS)

    def _show_events(self, seconds: float) -> None:
        """Show events of the pods for this long."""
        end = time.monotonic() + seconds
        while True:
            try:
                received = self._logs.received.get(timeout=max(end - time.monotonic(), 0.001))
                self._console.show(for_cluster(received.event))
            except queue.Empty:
                if time.monotonic() >= end:
                    return

    def _poll(self) -> JobOutcome | None:
        # Pods first: pods that a finished job removes are then not taken for lost ones.
        every = job.sorted_pods(self._cluster.list("Pod", job.pod_selector(self._kind, self._name)))
        pods = job.newest_per_worker(every)
        found = self._cluster.get(self._kind, self._name)
        if found is None or (self._uid and found["metadata"]["uid"] != self._uid):
            raise Preempted(
                f"{self._kind} {self._name} was deleted while it was followed: rerun the command,"
                " which resumes from the newest checkpoint, if there is one"
            )
        if self._again and not self._uid:
            self._startup.ignore_earlier_events(found)
        self._uid = found["metadata"]["uid"]
        ended = job.is_finished(found)
        for report in self._losses.update(pods, job_ended=ended):
            self._console.print(report)
        self._report_phase(found, pods)
        self._logs.follow(self._pods_to_read(pods))
        if ended:
            return outcome_of(found, every)
        self._report_resize(found)
        self._startup.check(found, pods)
        return None

    def _report_phase(self, found: Object, pods: Sequence[Pod]) -> None:
        """Report the phase where it has changed; to a parent process, each time.

        Raises:
            Preempted: The parent process has ended.
        """
        if events.is_read_by_parent() and not events.emit(
            "job_phase", job=self._name, phase=job.phase(found)
        ):
            raise Preempted(f"the process that followed job {self._name} has ended")
        unit = "worker" if self._kind in BY_KIND else "pod"
        counts = sorted(Counter(pod.display_state for pod in pods).items())
        states = ", ".join(f"{plural(count, unit)} {state}" for state, count in counts)
        phase = f"job {self._name} {job.phase(found)}" + (f": {states}" if states else "")
        if phase != self._reported_phase:
            self._console.print(phase)
        self._reported_phase = phase

    def _report_resize(self, found: Object) -> None:
        resize = diagnosis.describe_resize(found)
        if resize and resize != self._reported_resize:
            self._console.print(resize)
        self._reported_resize = resize

    def _pods_to_read(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return the chief of a training, all pods of an Indexed Job, the newest pod of a Job."""
        if self._kind in BY_KIND:
            return [pod for pod in pods if pod.index in (0, None)][:1]
        if any(pod.index is not None for pod in pods):
            return list(pods[:MAX_LOGS])
        return [pod for pod in pods if pod.started][-1:]


def for_cluster(event: Event) -> Event:
    """Return an event of a pod with TARGET=k8s in the commands that it suggests."""
    commands = event.items("commands")
    if not commands:
        return event
    adapted = [_with_target(str(line)) for line in commands if split_command(str(line))[0]]
    return dataclasses.replace(event, fields={**event.fields, "commands": adapted})


def _with_target(line: str) -> str:
    program, settings = split_command(line)
    if program not in PROGRAM_OF_PART.values() or "TARGET=" in settings:
        return line
    used = PROGRAMS[program]["k8s"]
    kept = [word for word in settings.split() if word.partition("=")[0].lower() in used]
    return " ".join([command(program), "TARGET=k8s", *kept])
