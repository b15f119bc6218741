"""Room for the pods of a job: the namespace's quotas and the nodes, against what the pods request.

Pure functions of what the API returns.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from launch.pods import ReadObject

Amounts = Mapping[str, Decimal]
"""Resource -> amount, in cores or bytes; `pods` is one of the resources."""

PODS = "pods"
BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Demand:
    """Equal pods that a job needs.

    Args:
        pod: The spec of each.
        count: Their number.
        of_workers: They are the workers of a training.
    """

    pod: ReadObject
    count: int
    of_workers: bool = True


def requested(pod: ReadObject, kind: str = "requests") -> Amounts:
    """Return the resources of a pod.

    Args:
        pod: Its spec.
        kind: requests, which are the limits where they are missing, or limits.
    """
    found: defaultdict[str, Decimal] = defaultdict(Decimal, {PODS: Decimal(1)})
    for container in pod["containers"]:
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get(kind) or {})}
        for name, text in amounts.items():
            found[name] += parse_quantity(text)
    return found


def describe(pod: ReadObject) -> str:
    """Return the requests of a pod for people, such as "cpu 2, memory 4Gi"."""
    amounts = {name: amount for name, amount in requested(pod).items() if name != PODS}
    return ", ".join(f"{name} {_show(name, amount)}" for name, amount in amounts.items())


def quota_excess(
    quota: ReadObject, demands: Iterable[Demand], priority_class: str = ""
) -> list[str]:
    """Return what a ResourceQuota lacks for pods, such as "requests.cpu: 4 needed, 1 left".

    Args:
        quota: The quota.
        demands: The pods.
        priority_class: Their PRIORITY_CLASS.
    """
    if not _applies(quota, priority_class):
        return []
    status, spec = quota.get("status") or {}, quota.get("spec") or {}
    used = status.get("used") or {}
    found = []
    for name, hard in (status.get("hard") or spec.get("hard") or {}).items():
        needed = sum((_counted(one, name) for one in demands), Decimal(0))
        left = parse_quantity(hard) - parse_quantity(used.get(name, 0))
        if needed > max(left, Decimal(0)):
            found.append(f"{name}: {_show(name, needed)} needed, {_show(name, left)} left")
    return found


def may_borrow(queue: ReadObject) -> bool:
    """Return True if a ClusterQueue of Kueue may use quota of others."""
    return bool(queue["spec"].get("cohortName") or queue["spec"].get("cohort"))


def queue_excess(queue: ReadObject, demands: Sequence[Demand]) -> list[str]:
    """Return what a ClusterQueue of Kueue lacks even when it is empty, as `quota_excess`.

    Args:
        queue: The ClusterQueue, which may not borrow.
        demands: The pods that it would have to admit at the same time.
    """
    limits: defaultdict[str, Decimal] = defaultdict(Decimal)
    for group in queue["spec"].get("resourceGroups") or []:
        for flavor in group["flavors"]:
            for one in flavor["resources"]:
                limits[one["name"]] += parse_quantity(one["nominalQuota"])
    found = []
    for name, limit in limits.items():
        needed = sum((_counted(one, name) for one in demands), Decimal(0))
        if needed > limit:
            found.append(f"{name}: {_show(name, needed)} needed, {_show(name, limit)} in all")
    return found


def _counted(demand: Demand, name: str) -> Decimal:
    """Return the amount of a quota's resource that pods use."""
    kind, dot, resource = name.partition(".")
    if name in (PODS, "count/pods"):
        amounts, resource = requested(demand.pod), PODS
    elif dot and kind in ("requests", "limits"):
        amounts = requested(demand.pod, kind)
    else:
        amounts, resource = requested(demand.pod), name
    return amounts.get(resource, Decimal(0)) * demand.count


def _applies(quota: ReadObject, priority_class: str) -> bool:
    """Return True if a quota counts a job's pods, which have requests and no deadline."""
    spec = quota.get("spec") or {}
    if {"BestEffort", "Terminating", "CrossNamespacePodAffinity"} & {*(spec.get("scopes") or [])}:
        return False
    for rule in (spec.get("scopeSelector") or {}).get("matchExpressions") or []:
        if rule["scopeName"] in ("BestEffort", "Terminating", "CrossNamespacePodAffinity"):
            return False
        if rule["scopeName"] == "PriorityClass":
            among = priority_class in (rule.get("values") or [])
            holds = {"In": among, "NotIn": not among, "Exists": bool(priority_class)}
            if not holds.get(rule["operator"], not priority_class):
                return False
    return True


def fitting(nodes: Iterable[ReadObject], pods: Sequence[ReadObject], pod: ReadObject) -> int:
    """Return how many equal pods fit on the nodes at the same time.

    Affinity to nodes is not considered.

    Args:
        nodes: The nodes.
        pods: The pods that exist, in all namespaces.
        pod: The spec of one of the new pods.
    """
    need = requested(pod)
    total = 0
    for node in nodes:
        if not _accepts(node, pod):
            continue
        free = _allocatable(node)
        for one in pods:
            if one["spec"].get("nodeName") == node["metadata"]["name"] and not _has_ended(one):
                for name, amount in requested(one["spec"]).items():
                    free[name] -= amount
        total += min(max(math.floor(free[name] / amount), 0) for name, amount in need.items())
    return total


def _allocatable(node: ReadObject) -> defaultdict[str, Decimal]:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return defaultdict(Decimal, {name: parse_quantity(text) for name, text in amounts.items()})


def _has_ended(pod: ReadObject) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _accepts(node: ReadObject, pod: ReadObject) -> bool:
    """Return True if a node is ready, has the pod's labels, and no taint that it does not bear."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    labels = node["metadata"].get("labels") or {}
    ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or []
    )
    selected = (pod.get("nodeSelector") or {}).items() <= labels.items()
    taints = [one for one in spec.get("taints") or [] if one["effect"] in BLOCKING]
    bears = all(_tolerates(pod.get("tolerations") or [], taint) for taint in taints)
    return ready and selected and bears and not spec.get("unschedulable")


def _tolerates(tolerations: Iterable[ReadObject], taint: ReadObject) -> bool:
    return any(
        one.get("key") in (None, "", taint["key"])
        and one.get("effect") in (None, "", taint["effect"])
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in tolerations
    )


def _show(resource: str, amount: Decimal) -> str:
    """Return an amount for people: memory in Gi, the rest as a number."""
    if any(word in resource for word in ("memory", "storage")):
        return f"{amount / 2**30:.4g}Gi"
    return f"{amount.normalize():f}"
