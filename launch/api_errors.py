"""What an API server answers when it refuses, as one sentence with the remedy."""

import json
import re
from typing import TYPE_CHECKING

from common.errors import ClusterError

if TYPE_CHECKING:
    from kubernetes.client import ApiException

OPERATOR = "the Kubeflow training operator (https://github.com/kubeflow/trainer/tree/release-1.9)"


class Forbidden(ClusterError):
    """The person may not do this."""


class Invalid(ClusterError):
    """An object that is not what its kind is, or that can't be changed into this."""


class Unreachable(ClusterError):
    """The API server does not answer."""


def unreachable(context: str, server: str, error: BaseException) -> Unreachable:
    """No answer, or none that an API server gives."""
    cause = getattr(error, "reason", None) or error
    text = re.sub(r"^.*?>: |^\w+\(.*?\): ", "", str(cause)) or type(cause).__name__
    text = " ".join(text.split())[:160]
    return Unreachable(
        f"the API server {server} of context {context} can't be reached ({text}): look whether the"
        " cluster is up (`make cluster` starts one on this machine), or name another CONTEXT"
    )


def unknown_kind(kind: str, version: str) -> ClusterError:
    """The server does not serve a kind of object."""
    if kind == "TFJob":
        return ClusterError(
            f"this cluster knows no TFJob, so {OPERATOR} is not installed in it: install it"
            ' (`kubectl apply --server-side -k "github.com/kubeflow/training-operator.git/'
            'manifests/overlays/standalone?ref=v1.9.4"`; `make cluster` and `make infra-up` do)'
        )
    return ClusterError(
        f"this cluster knows no {kind} ({version}): install what brings it, or leave it out of the"
        " overlay"
    )


def no_operator(seconds: float) -> ClusterError:
    """Nothing became of a TFJob."""
    return ClusterError(
        f"nothing has happened to the job for {seconds:.0f} s, so the training operator does not"
        " run: look at `kubectl get pods -n kubeflow`; the job starts by itself once it does"
    )


def no_namespace(namespace: str) -> ClusterError:
    """There is no such namespace."""
    return ClusterError(
        f"there is no namespace {namespace} in this cluster: make it (`kubectl create namespace"
        f" {namespace}`) or name another NAMESPACE"
    )


def of_api(error: "ApiException", verb: str, kind: str, namespace: str) -> ClusterError:
    """An answer of the API server that is no success, other than a missing object.

    Args:
        error: The answer.
        verb: What was asked for, as in RBAC: get, list, patch, delete.
        kind: Of which kind of object.
        namespace: In which namespace.
    """
    text = message(error)
    if "failed calling webhook" in text and "training-operator" in text:
        return ClusterError(
            "the training operator is installed in this cluster but does not run (its webhook does"
            " not answer): look at `kubectl get pods -n kubeflow`, and say the same again once its"
            " pod is ready"
        )
    if told := of_admission(text):
        return told
    if error.status == 401:
        return ClusterError(
            f"the cluster does not know who asks ({text}): sign in again (`gcloud auth login` and"
            " `gcloud container clusters get-credentials` on Google Cloud), or name another CONTEXT"
        )
    if missing := re.search(r'namespaces "([^"]+)" not found', text):
        return no_namespace(missing[1])
    if error.status == 403:
        return _forbidden(text, verb, kind, namespace)
    if error.status == 422:
        return Invalid(f"the cluster takes no such {kind}: {text}; change the settings")
    if error.status in (429, 500, 502, 503, 504):
        return Unreachable(
            f"the API server can't answer now ({error.status}: {text}): say the same again"
        )
    return ClusterError(f"the cluster refuses to {verb} {kind} ({error.status}: {text})")


def _forbidden(text: str, verb: str, kind: str, namespace: str) -> ClusterError:
    if rbac := re.search(
        r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<what>[^"]*)"'
        r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<where>[^"]*)")?',
        text,
    ):
        what = ".".join(filter(None, [rbac["what"], rbac["group"]]))
        where = f"in namespace {rbac['where']}" if rbac["where"] else "in the cluster"
        place = f" -n {rbac['where']}" if rbac["where"] else ""
        return Forbidden(
            f"{rbac['user']} may not {rbac['verb']} {what} {where}: ask whoever runs the cluster"
            f" for a role with that verb (`kubectl auth can-i {rbac['verb']} {what}{place}` tells"
            " when it is there), or name another NAMESPACE or CONTEXT"
        )
    return Forbidden(f"the cluster forbids to {verb} {kind} in namespace {namespace}: {text}")


def of_admission(text: str) -> ClusterError | None:
    """Why an object, a pod for the most part, was not let in; None if it is another matter.

    Args:
        text: What the API server or an event said.
    """
    if quota := re.search(r"exceeded quota: ([^,]+), requested: (.+)", text):
        told = " ".join(quota[2].split())
        return ClusterError(
            f"quota {quota[1]} of the namespace leaves no room for the job (requested: {told}):"
            " lower WORKERS, CPU or MEMORY, stop another job (`python -m launch list`), or have"
            " the quota raised"
        )
    if quota := re.search(r"failed quota: ([^:]+): must specify (.+)", text):
        return ClusterError(
            f"quota {quota[1]} of the namespace wants every pod to say {quota[2]}: the overlay"
            " must set it"
        )
    if pss := re.search(r'violates PodSecurity "([^"]+)": (.+)', text):
        return ClusterError(
            f"the namespace lets in pods of the Pod Security Standard {pss[1].split(':')[0]} only,"
            f" and this one breaks it ({pss[2]}): take that out of the overlay, or use another"
            " NAMESPACE"
        )
    if account := re.search(r"error looking up service account ([^:]+):", text):
        return ClusterError(
            f"the pods' service account {account[1]} does not exist: apply the overlay whole, or"
            " make the account"
        )
    if priority := re.search(r"no PriorityClass with name (\S+) was found", text):
        return ClusterError(
            f"PRIORITY_CLASS={priority[1]} is not in this cluster: `kubectl get priorityclasses`"
            " lists those that are"
        )
    return None


def message(error: "ApiException") -> str:
    """What the answer says, without the form around it."""
    body = error.body.decode("utf-8", "replace") if isinstance(error.body, bytes) else error.body
    try:
        text = json.loads(body or "")["message"]
    except (ValueError, KeyError, TypeError):
        text = body or error.reason or ""
    return " ".join(str(text).split())[:600]
