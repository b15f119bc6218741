"""Ownership of objects in a namespace that others use, too: an object is changed or deleted only if
it has the labels that this package gives it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from common.errors import RunError
from launch.pods import COMPONENT, PART_OF, RUN, Object, ReadObject

if TYPE_CHECKING:
    from launch.kube_client import KubeClient

IDENTITY = (PART_OF, COMPONENT, RUN)
"""Labels by which an object is recognized."""


def identity(body: ReadObject) -> dict[str, str]:
    """Return the labels of an object that identify its owner."""
    labels = body["metadata"].get("labels") or {}
    return {name: labels[name] for name in IDENTITY if name in labels}


def refuse_foreign(live: Object, body: ReadObject) -> None:
    """Refuse an existing object that was not made for the same purpose as `body`.

    Raises:
        RunError: It lacks one of the labels of `body`, or has another value of it.
    """
    expected, found = identity(body), identity(live)
    missing = [f"{name}={value}" for name, value in expected.items() if found.get(name) != value]
    if missing:
        kind, name = body["kind"], body["metadata"]["name"]
        raise RunError(
            f"{kind} {name} of this namespace exists and is not qfleet's, as it lacks the label"
            f" {' and '.join(missing)}: nothing was changed; choose another RUN or NAMESPACE, or"
            f" rename that object (if it is qfleet's, `kubectl label {kind.lower()} {name}"
            f" {' '.join(missing)}` marks it)"
        )


def check(cluster: "KubeClient", bodies: Iterable[Object]) -> None:
    """Refuse objects that exist and belong to others, before any of them is applied.

    Raises:
        RunError: One of them is not qfleet's.
    """
    for body in bodies:
        live = cluster.get(body["kind"], body["metadata"]["name"], body["apiVersion"])
        if live is not None:
            refuse_foreign(live, body)
