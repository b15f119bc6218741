"""Server-side apply of objects, the changes that it makes, and removal of jobs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from common.errors import ClusterError
from launch import api_errors, job, ownership
from launch.engines import BY_KIND, TEMPLATE_KINDS
from launch.pods import Object

if TYPE_CHECKING:
    from launch.kube_client import KubeClient


APPLIED_LAST = ("Deployment", "Job", *BY_KIND)
"""Kinds that create pods; the objects that pods need are applied before them."""

MAX_CONFLICTS = 5
"""Times that an object is read again because its controller changed it meanwhile."""

MAX_WEBHOOK_TIMEOUTS = 2
"""Times that an object is sent again because its controller's webhook did not answer in time."""

REMOVAL_SECONDS = 120.0
POLL_SECONDS = 0.5
UNSET = "unset"

SIZES = (".replicas", ".parallelism", ".completions", ".numNodes")
"""Ends of the paths that hold the number of workers."""

_SERVER_FIELDS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
_SERVER_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)


@dataclass(frozen=True)
class AppliedChange:
    """The effect of applying an object.

    Args:
        kind: Its kind.
        name: Its name.
        action: What happened to it, as in kubectl's output.
        fields: (path, before, after) of each changed field.
        dry_run: Nothing was changed.
    """

    kind: str
    name: str
    action: Literal["created", "configured", "unchanged"]
    fields: Sequence[tuple[str, str, str]] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        changes = "; ".join(f"{path}: {before} -> {after}" for path, before, after in self.fields)
        line = action_line(self.kind, self.name, self.action, dry_run=self.dry_run)
        return f"{line}: {changes}" if changes else line


def action_line(kind: str, name: str, action: str, *, dry_run: bool = False) -> str:
    """Return a line in the form of kubectl's output, such as "tfjob/qcnn created (dry run)"."""
    return f"{kind.lower()}/{name} {action}" + (" (dry run)" if dry_run else "")


def apply_order(objects: Sequence[Object]) -> list[Object]:
    """Return objects in the order in which they are applied."""
    return sorted(
        objects,
        key=lambda one: APPLIED_LAST.index(one["kind"]) if one["kind"] in APPLIED_LAST else -1,
    )


def apply(
    cluster: "KubeClient",
    body: Object,
    report: Callable[[str], None] = lambda line: None,
    *,
    dry_run: bool = False,
) -> AppliedChange:
    """Apply an object and return the change; with `dry_run`, change nothing.

    The object that is changed is the one that was checked: the server refuses the change if it was
    changed or created since.

    Args:
        cluster: The cluster.
        body: The object.
        report: Receives a line where it is sent again.
        dry_run: Change nothing.

    Raises:
        RunError: It exists and is not qfleet's.
    """
    kind, name = body["kind"], body["metadata"]["name"]
    conflicts = timeouts = 0
    while True:
        before = cluster.get(kind, name, body["apiVersion"])
        if before is not None:
            ownership.refuse_foreign(before, body)
        try:
            after = cluster.apply(body, before, dry_run=dry_run)
            break
        except api_errors.Conflict:
            conflicts += 1
            if conflicts > MAX_CONFLICTS:
                raise
        except api_errors.WebhookTimeout:
            timeouts += 1
            if timeouts > MAX_WEBHOOK_TIMEOUTS:
                raise
            report(f"{kind.lower()}/{name}: the controller's webhook is late, trying again")
    if before is None:
        return AppliedChange(kind, name, "created", dry_run=dry_run)
    fields = differences(_without_server_fields(before), _without_server_fields(after))
    action: Literal["configured", "unchanged"] = "configured" if fields else "unchanged"
    return AppliedChange(kind, name, action, fields, dry_run)


def apply_all(
    cluster: "KubeClient",
    objects: Sequence[Object],
    report: Callable[[str], None] = lambda line: None,
    *,
    recreated: str = "",
    dry_run: bool = False,
) -> None:
    """Apply objects in order; with `dry_run`, change nothing.

    Args:
        cluster: The cluster.
        objects: The objects.
        report: Receives a line per object, in the form of kubectl's output.
        recreated: A kind of object that was deleted before, or would be without `dry_run`.
        dry_run: Only report the effect.

    Raises:
        RunError: One of them exists and is not qfleet's; none was applied.
    """
    ownership.check(cluster, objects)
    for body in apply_order(objects):
        if body["kind"] != recreated:
            report(str(apply(cluster, body, report, dry_run=dry_run)))
            continue
        if not dry_run:
            apply(cluster, body, report)
        name = body["metadata"]["name"]
        report(action_line(recreated, name, "recreated", dry_run=dry_run))


def _without_server_fields(thing: Object) -> Object:
    """Return an object without the fields that the server writes."""
    metadata = {k: value for k, value in thing["metadata"].items() if k not in _SERVER_FIELDS}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {
        key: value for key, value in annotations.items() if key not in _SERVER_ANNOTATIONS
    }
    rest = {key: value for key, value in thing.items() if key not in ("status", "metadata")}
    return {**rest, "metadata": metadata}


def differences(before: object, after: object) -> list[tuple[str, str, str]]:
    """Return (path, before, after) of each leaf in which two objects differ.

    Members of lists are matched by `name` if they have one, else by position.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    return [
        (path, old.get(path, UNSET), new.get(path, UNSET))
        for path in dict.fromkeys([*old, *new])
        if old.get(path, UNSET) != new.get(path, UNSET)
    ]


def _leaves(thing: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(thing, list):
        for position, value in enumerate(thing):
            name = value.get("name", position) if isinstance(value, Mapping) else position
            yield from _leaves(value, f"{path}[{name}]")
    elif thing is not None:
        yield path, str(thing)


def differing_settings(cluster: "KubeClient", objects: Sequence[Object]) -> list[str]:
    """Return the settings of an existing job that differ from `objects`: NAME=old (now new).

    Settings are read from the job's ConfigMap. Other fields of the job have their path as name.
    """
    found = []
    for body in objects:
        if body["kind"] == "ConfigMap":
            live = cluster.get("ConfigMap", body["metadata"]["name"])
            data = {} if live is None else live.get("data") or {}
            for path, before, after in differences(data, body.get("data") or {}):
                found.append(f"{path.removeprefix('QFLEET_')}={before} (now {after})")
        elif body["kind"] in ("Job", *BY_KIND, *TEMPLATE_KINDS):
            try:
                fields = apply(cluster, body, dry_run=True).fields
            except api_errors.Invalid:  # a Job's and JobSet's pods are immutable
                found.append(_immutable_difference(cluster, body))
                continue
            for path, before, after in fields:
                name = "WORKERS" if path.endswith(SIZES) else path.removeprefix("spec.")
                if "QFLEET_WORKERS" not in path:
                    found.append(f"{name}={before} (now {after})")
    return list(dict.fromkeys(found))


def _immutable_difference(cluster: "KubeClient", body: Object) -> str:
    """Describe how a job differs whose controller refuses the change."""
    if body["kind"] in BY_KIND and (live := cluster.get(body["kind"], body["metadata"]["name"])):
        before, after = (job.configured_workers(one) for one in (live, body))
        if before != after:
            return f"WORKERS={before} (now {after})"
    return "another IMAGE, CPU, MEMORY or THREADS"


def delete(cluster: "KubeClient", body: Object) -> bool:
    """Delete an object if it exists.

    Args:
        cluster: The object's cluster.
        body: The object, as it was read or rendered.

    Returns:
        False if it did not exist.

    Raises:
        RunError: The object of this name is not qfleet's.
    """
    live = cluster.get(body["kind"], body["metadata"]["name"], body["apiVersion"])
    if live is None:
        return False
    ownership.refuse_foreign(live, body)
    return cluster.delete(live)


def _delete_template(cluster: "KubeClient", body: Object) -> None:
    """Delete the object with the pod template of a job, where that is another one."""
    engine = BY_KIND.get(body["kind"])
    if engine and engine.template_kind:
        delete(cluster, {**body, "kind": engine.template_kind})


def remove(cluster: "KubeClient", body: Object) -> float | None:
    """Delete a job and wait until it and its pods no longer exist.

    Args:
        cluster: The job's cluster.
        body: The job, as it was read or rendered.

    Returns:
        The seconds until then; None if there was no such job.

    Raises:
        ClusterError: Pods still exist after REMOVAL_SECONDS.
        RunError: The job of this name is not qfleet's.
    """
    kind, name = body["kind"], body["metadata"]["name"]
    start = time.monotonic()
    if not delete(cluster, body):
        return None
    while True:
        pods = job.sorted_pods(cluster.list("Pod", job.pod_selector(kind, name)))
        if not pods and cluster.get(kind, name) is None:
            _delete_template(cluster, body)
            return time.monotonic() - start
        if time.monotonic() - start > REMOVAL_SECONDS:
            left = ", ".join(f"{pod.name} on {pod.node or 'no node'}" for pod in pods) or name
            raise ClusterError(
                f"{left} still exists {REMOVAL_SECONDS:.0f} s after {kind} {name} was deleted:"
                " check that its node is ready (`kubectl get nodes`), or use `kubectl delete pod"
                " --force`"
            )
        time.sleep(POLL_SECONDS)
