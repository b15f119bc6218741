"""Objects into the cluster, by server-side apply; what that changes; and out of it again."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from common.errors import ClusterError
from launch import api_errors, job

if TYPE_CHECKING:
    from launch.kube_client import KubeClient

Object = dict[str, Any]

LAST_APPLIED = ("Deployment", "Job", "TFJob")
"""What starts pods comes after what pods need."""

GONE_SECONDS = 120.0
_SERVERS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


@dataclass(frozen=True)
class AppliedChange:
    """What applying an object does.

    Args:
        kind: Its kind.
        name: Its name.
        verb: created, changed or unchanged.
        fields: (path, before, after) of each field that changes.
    """

    kind: str
    name: str
    verb: Literal["created", "changed", "unchanged"]
    fields: Sequence[tuple[str, str, str]] = ()

    def __str__(self) -> str:
        told = "; ".join(f"{path}: {before} -> {after}" for path, before, after in self.fields)
        return f"{self.verb:<9} {self.kind}/{self.name}" + f"  ({told})" * bool(told)


def ordered(objects: Sequence[Object]) -> list[Object]:
    """Objects in the order in which they are applied."""
    return sorted(
        objects,
        key=lambda one: LAST_APPLIED.index(one["kind"]) if one["kind"] in LAST_APPLIED else -1,
    )


def change(cluster: "KubeClient", body: Object) -> AppliedChange:
    """What applying an object would do, by the API server's own word; nothing is changed."""
    return _change(cluster, body, dry_run=True)


def apply(cluster: "KubeClient", body: Object) -> AppliedChange:
    """Apply an object."""
    return _change(cluster, body, dry_run=False)


def _change(cluster: "KubeClient", body: Object, *, dry_run: bool) -> AppliedChange:
    kind, name = body["kind"], body["metadata"]["name"]
    before = cluster.get(kind, name, body["apiVersion"])
    after = cluster.apply(body, dry_run=dry_run)
    if before is None:
        return AppliedChange(kind, name, "created")
    fields = differences(_said(before), _said(after))
    return AppliedChange(kind, name, "changed" if fields else "unchanged", fields)


def _said(thing: Object) -> Object:
    """An object without what the server itself writes."""
    metadata = {key: value for key, value in thing["metadata"].items() if key not in _SERVERS}
    notes = dict(metadata.get("annotations") or {})
    notes.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    notes.pop("deployment.kubernetes.io/revision", None)
    metadata["annotations"] = notes
    rest = {key: value for key, value in thing.items() if key not in ("status", "metadata")}
    return {**rest, "metadata": metadata}


def differences(before: Any, after: Any) -> list[tuple[str, str, str]]:
    """(path, before, after) of each leaf in which two objects differ.

    Members of lists go by their `name` where they have one, else by their place.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    missing = "unset"
    return [
        (path, old.get(path, missing), new.get(path, missing))
        for path in dict.fromkeys([*old, *new])
        if old.get(path, missing) != new.get(path, missing)
    ]


def _leaves(thing: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(thing, list):
        for place, value in enumerate(thing):
            name = value.get("name", place) if isinstance(value, Mapping) else place
            yield from _leaves(value, f"{path}[{name}]")
    elif thing is not None:
        yield path, str(thing)


def settings_that_differ(cluster: "KubeClient", objects: Sequence[Object]) -> list[str]:
    """What a living job was started with, where `objects` say otherwise: NAME=was (now said).

    A job's own settings are read from its ConfigMap; of what else a TFJob or Job is made of, the
    path of each field.
    """
    told = []
    for body in objects:
        if body["kind"] == "ConfigMap":
            live = cluster.get("ConfigMap", body["metadata"]["name"])
            was = {} if live is None else live.get("data") or {}
            for path, before, after in differences(was, body.get("data") or {}):
                told.append(f"{path.removeprefix('QFLEET_')}={before} (now {after})")
        elif body["kind"] in ("TFJob", "Job"):
            try:
                fields = change(cluster, body).fields
            except api_errors.Invalid:  # the pods of a Job that is there can't be made otherwise
                told.append("other IMAGE, CPU, MEMORY or THREADS")
                continue
            for path, before, after in fields:
                name = "WORKERS" if path.endswith(".replicas") else path.removeprefix("spec.")
                if "QFLEET_WORKERS" not in path:
                    told.append(f"{name}={before} (now {after})")
    return told


def remove(cluster: "KubeClient", kind: str, name: str) -> float | None:
    """Delete a job and wait until it and its pods are gone.

    Args:
        cluster: Where it is.
        kind: TFJob or Job.
        name: Its name.

    Returns:
        The seconds that it took; None where there was none.

    Raises:
        ClusterError: Pods are still there after GONE_SECONDS.
    """
    found = cluster.get(kind, name)
    if found is None:
        return None
    began = time.monotonic()
    cluster.delete(kind, name)
    while True:
        pods = job.pods(cluster.list("Pod", job.pods_of(kind, name)))
        if not pods and cluster.get(kind, name) is None:
            return time.monotonic() - began
        if time.monotonic() - began > GONE_SECONDS:
            left = ", ".join(f"{pod.name} on {pod.node or 'no node'}" for pod in pods) or name
            raise ClusterError(
                f"{left} is still there {GONE_SECONDS:.0f} s after {kind} {name} was deleted: look"
                f" whether its node lives (`kubectl get nodes`), or `kubectl delete pod --force`"
            )
        time.sleep(0.5)
