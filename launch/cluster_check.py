"""Checks of what a training needs in a cluster, part by part. Only PROBE creates anything."""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common import storage
from common.commands import command
from common.errors import ClusterError, RunError, StorageError, StorageUnavailable
from common.settings import Settings
from launch import (
    api_errors,
    cluster_storage,
    controllers,
    job,
    manifests,
    ownership,
    probe,
    queues,
    room,
)
from launch.commands import select
from launch.engines import BY_KIND, ENGINES, TEMPLATE_KINDS
from launch.engines.engine import Engine
from launch.kube_client import KubeClient
from launch.pods import Object, ReadObject, pod_specs
from launch.room import Demand

OBJECT_VERBS = ("get", "create", "patch")
"""Verbs of a training for each of its objects: a server-side apply creates or patches."""

FOLLOWING = (
    ("", "pods", "", "list"),
    ("", "pods", "log", "get"),
    ("", "events", "", "list"),
)
"""Group, resource, subresource and verb of what follows a job."""

AUTOSCALER = ("cluster-autoscaler-status", "kube-system")
"""The ConfigMap that Kubernetes' autoscaler of nodes writes, and its namespace."""


class PartState(enum.Enum):
    """Results of a check."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Args:
        state: Its class.
        text: Facts, and the next step where something is missing.
    """

    state: PartState
    text: str


class ClusterCheck:
    """The checks of one training.

    Args:
        cluster: The cluster, which answers.
        settings: The settings of the training.
        build: Its manifests.
        runs_pod: Also run a pod (launch/probe.py).
    """

    def __init__(
        self,
        cluster: KubeClient,
        settings: Settings,
        build: manifests.Build,
        *,
        runs_pod: bool = False,
    ) -> None:
        self._cluster, self._settings, self._build = cluster, settings, build
        self._runs_pod = runs_pod
        self._engine: Engine | None = None
        self._live: Object | None = None

    def parts(self) -> Iterator[tuple[str, Finding]]:
        """Yield the name and the finding of each part, in the order in which a training needs them.

        Raises:
            Unreachable: The server no longer answers.
        """
        checks: Mapping[str, Callable[[], Finding]] = {
            "server": self._server,
            "job APIs": self._job_apis,
            "job": self._job,
            "permissions": self._permissions,
            "names": self._names,
            "queue": self._queue,
            "quota": self._quota,
            "nodes": self._nodes,
            "storage": self._storage,
            **({"pod": self._pod} if self._runs_pod else {}),
        }
        for name, check in checks.items():
            try:
                yield name, check()
            except api_errors.Unreachable:
                raise
            except api_errors.Forbidden as error:
                yield name, Finding(PartState.UNKNOWN, str(error))
            except (ClusterError, RunError) as error:
                yield name, Finding(PartState.MISSING, str(error))

    def _server(self) -> Finding:
        cluster = self._cluster
        user = "unknown, as this server does not serve SelfSubjectReview"
        if cluster.serves("SelfSubjectReview"):
            user = cluster.review("SelfSubjectReview", {})["userInfo"]["username"]
        return Finding(
            PartState.OK,
            f"{cluster.server} of context {cluster.context} answers, Kubernetes"
            f" {cluster.server_version()}, namespace {cluster.namespace}, user {user}",
        )

    def _job_apis(self) -> Finding:
        """Name the installed engines and Kueue with their versions."""
        cluster = self._cluster
        found = []
        for engine in ENGINES.values():
            if cluster.serves(engine.kind):
                version = controllers.installed_version(cluster, controllers.of_engine(engine))
                found.append(_named(f"{engine.kind} ({engine.version})", version))
            else:
                found.append(f"no {engine.kind}")
        kueue = controllers.kueue_api(cluster)
        version = controllers.installed_version(cluster, controllers.KUEUE) if kueue else ""
        found.append(_named(f"Kueue ({kueue})", version) if kueue else "no Kueue")
        return Finding(PartState.OK, ", ".join(found))

    def _job(self) -> Finding:
        """Choose the engine as the start of a training does, and build its manifests."""
        cluster, settings = self._cluster, self._settings
        found = select.engines(cluster, settings)
        engine, self._live = select.choose_engine(cluster, found, settings.run_name)
        self._engine = engine
        self._settings = settings.replace(job_api=engine.api)
        self._build = manifests.build(self._settings, before=self._build)
        if engine.kind == "TrainJob":
            cluster.kind("JobSet")  # of which Trainer makes the job
        if self._is_running:
            return Finding(
                PartState.OK, f"run {settings.run_name} has a {engine.kind}, to be followed"
            )
        return Finding(PartState.OK, f"a {engine.kind} (JOB_API={settings.cluster.job_api})")

    @property
    def _is_running(self) -> bool:
        return self._live is not None and not job.is_finished(self._live)

    def _permissions(self) -> Finding:
        """Ask the server for the rights to create the objects and to follow the job."""
        wanted = [*self._of_objects(), *FOLLOWING]
        if self._build.storage.emulator:
            wanted.append(("", "pods", "portforward", "create"))
        missing: dict[str, list[str]] = {}
        for group, resource, part, verb in dict.fromkeys(wanted):
            if not self._may(group, resource, part, verb):
                name = ".".join(filter(None, ["/".join(filter(None, [resource, part])), group]))
                missing.setdefault(name, []).append(verb)
        if not missing:
            kinds = dict.fromkeys(one["kind"] for one in self._served_objects())
            return Finding(PartState.OK, f"you may create {', '.join(kinds)}, and follow the job")
        rights = "; ".join(f"{', '.join(verbs)} {name}" for name, verbs in missing.items())
        return Finding(
            PartState.MISSING,
            f"you may not do this in namespace {self._cluster.namespace}: {rights}: request a role"
            " with these verbs from the cluster's administrator, or set another NAMESPACE or"
            " CONTEXT",
        )

    def _served_objects(self) -> list[Object]:
        """Return the objects of the manifests, without jobs of an engine that is not installed."""
        served = self._cluster.serves
        return [one for one in self._build.objects if served(one["kind"], one["apiVersion"])]

    def _of_objects(self) -> Iterator[tuple[str, str, str, str]]:
        for one in self._served_objects():
            kind = self._cluster.kind(one["kind"], one["apiVersion"])
            for verb in OBJECT_VERBS:
                yield kind.group or "", kind.name, "", verb

    def _may(self, group: str, resource: str, part: str, verb: str) -> bool:
        attributes = {
            "namespace": self._cluster.namespace, "group": group, "resource": resource,
            "subresource": part, "verb": verb,
        }  # fmt: skip
        answer = self._cluster.review("SelfSubjectAccessReview", {"resourceAttributes": attributes})
        return bool(answer.get("allowed"))

    def _names(self) -> Finding:
        """Refuse names that objects of others have, and classes that do not exist."""
        ownership.check(self._cluster, self._served_objects())
        name = self._settings.cluster.priority_class
        if name and self._cluster.get("PriorityClass", name) is None:
            raise ClusterError(
                f"PRIORITY_CLASS={name} does not exist in this cluster: `kubectl get"
                " priorityclasses` lists the existing ones"
            )
        return Finding(
            PartState.OK, f"objects of run {self._settings.run_name} are free or qfleet's"
        )

    def _queue(self) -> Finding:
        workers = [one for one in self._demands() if one.of_workers]
        text = queues.check(self._cluster, self._settings.cluster.queue, self._engine, workers)
        return Finding(PartState.OK, text)

    def _demands(self) -> list[Demand]:
        """Return the pods that would be created."""
        found = []
        for one in self._served_objects():
            is_job = one["kind"] in TEMPLATE_KINDS or one["kind"] in BY_KIND
            exists = not is_job and self._cluster.get(one["kind"], one["metadata"]["name"])
            count = self._settings.training.workers if is_job else _replicas(one)
            if not exists:
                found += [Demand(pod, int(count), of_workers=is_job) for pod in pod_specs(one)]
        return found

    def _quota(self) -> Finding:
        """Compare the namespace's quotas with the pods."""
        if self._is_running:
            return Finding(PartState.OK, "the job exists")
        quotas = self._cluster.list("ResourceQuota")
        demands, priority = self._demands(), self._settings.cluster.priority_class
        for one in quotas:
            if excess := room.quota_excess(one, demands, priority):
                raise ClusterError(
                    f"quota {one['metadata']['name']} of the namespace is too small for the job"
                    f" ({'; '.join(excess)}): lower WORKERS, CPU or MEMORY, stop another job"
                    f" (`{command('cluster list')}`), or have the quota raised"
                )
        names = ", ".join(one["metadata"]["name"] for one in quotas)
        text = f"enough left of {names}" if names else "the namespace has none"
        return Finding(PartState.OK, text)

    def _nodes(self) -> Finding:
        """Count the workers that fit on the nodes now."""
        workers = next((one for one in self._demands() if one.of_workers), None)
        if workers is None or self._is_running:
            return Finding(PartState.OK, "the job exists") if workers else _no_job()
        cluster = self._cluster
        nodes = cluster.list("Node", everywhere=True)
        pods, known = self._pods()
        count, size = room.fitting(nodes, pods, workers.pod), room.describe(workers.pod)
        if count >= workers.count:
            rest = "" if known else ", if other pods leave it (you may not read them)"
            return Finding(PartState.OK, f"room for {count} workers that request {size}{rest}")
        problem = (
            f"the nodes have room for {count} of WORKERS={workers.count} pods that request {size}"
        )
        if room.fitting(nodes, [], workers.pod) >= workers.count:
            problem += " next to the pods that run now"
        remedy = "lower CPU, MEMORY or SCRATCH, use fewer WORKERS, or add nodes"
        if self._has_autoscaler():
            return Finding(
                PartState.UNKNOWN, f"{problem}; the autoscaler may add some, else {remedy}"
            )
        return Finding(PartState.MISSING, f"{problem}: {remedy}")

    def _pods(self) -> tuple[Sequence[ReadObject], bool]:
        """Return the pods of all namespaces, and False if they can't be read."""
        try:
            return self._cluster.list("Pod", everywhere=True), True
        except api_errors.Forbidden:
            return [], False

    def _has_autoscaler(self) -> bool:
        name, namespace = AUTOSCALER
        try:
            return bool(
                self._cluster.list("ConfigMap", fields=f"metadata.name={name}", namespace=namespace)
            )
        except api_errors.Forbidden:
            return False

    def _storage(self) -> Finding:
        """Look at the bucket from this machine, and at the classes of the overlay's volumes."""
        cluster_storage.check_classes(self._cluster, self._build.objects)
        location = self._build.storage
        if location.emulator:
            return Finding(
                PartState.OK,
                f"{location.storage} in the emulator of OVERLAY={self._settings.cluster.overlay},"
                " whose runs last as long as its pod",
            )
        try:
            with cluster_storage.open_storage(self._cluster, location) as root:
                next(iter(storage.children(root)), None)
        except (StorageError, StorageUnavailable) as error:
            return Finding(PartState.UNKNOWN, f"{error} (seen from this machine; pods may differ)")
        return Finding(PartState.OK, f"{location.storage} can be read from this machine")

    def _pod(self) -> Finding:
        if self._engine is None:
            return _no_job()
        return Finding(PartState.OK, probe.run(self._cluster, self._build))


def _replicas(body: ReadObject) -> int:
    """Return the number of pods of an object that is not a training's job."""
    return int((body.get("spec") or {}).get("replicas") or 1)


def _named(text: str, version: str) -> str:
    return f"{text}, controller {version}" if version else text


def _no_job() -> Finding:
    return Finding(PartState.UNKNOWN, "no API that runs the job is installed")
