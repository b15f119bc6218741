"""Errors of an API server, each as one sentence with its remedy."""

import json
import re
from typing import TYPE_CHECKING

from common.commands import command
from common.errors import ClusterError
from launch.engines import BY_KIND
from launch.engines.engine import Engine

if TYPE_CHECKING:
    from kubernetes.client import ApiException

MAX_CAUSE_CHARACTERS = 160
MAX_RESPONSE_CHARACTERS = 600


class Forbidden(ClusterError):
    """The user lacks a permission."""


class Invalid(ClusterError):
    """An object is not valid for its kind, or can't be changed in this way."""


class Conflict(ClusterError):
    """An object was created, changed or replaced since it was read."""


class WebhookTimeout(ClusterError):
    """The webhook of a kind's controller did not answer in time: its node may be busy."""


class KindNotServed(ClusterError):
    """The API server does not serve a kind of object."""


class Unreachable(ClusterError):
    """The API server does not answer."""


def unreachable(context: str, server: str, error: BaseException) -> Unreachable:
    """Return the error for a missing response, or one that is not an API server's."""
    cause = getattr(error, "reason", None) or error
    text = re.sub(r"^.*?>: |^\w+\(.*?\): ", "", str(cause)) or type(cause).__name__
    text = " ".join(text.split())[:MAX_CAUSE_CHARACTERS]
    return Unreachable(
        f"the API server {server} of context {context} can't be reached ({text}): check that the"
        " cluster is running (`make cluster` starts one on this machine), or set another CONTEXT"
    )


def kind_not_served(kind: str, version: str) -> KindNotServed:
    """Return the error for a kind of object that the server does not serve."""
    if engine := BY_KIND.get(kind):
        makes = "; `make cluster` and `make infra-up` do" if kind == "TFJob" else ""
        return KindNotServed(
            f"this cluster does not serve {kind}, so {engine.controller} is not installed: install"
            f" it (`{engine.install}`{makes})"
        )
    return KindNotServed(
        f"this cluster does not serve {kind} ({version}): install its controller, or remove the"
        " object from the overlay"
    )


def no_engine() -> ClusterError:
    """Return the error for a cluster that serves none of the kinds of JOB_API."""
    kinds, recommended = " or ".join(BY_KIND), BY_KIND["JobSet"]
    return ClusterError(
        f"this cluster does not serve {kinds}: install {recommended.controller}"
        f" (`{recommended.install}`)"
    )


def controller_not_running(kind: str, seconds: float) -> ClusterError:
    """Return the error for a training's job that nothing reacts to."""
    engine = BY_KIND[kind]
    return ClusterError(
        f"nothing has happened to the job for {seconds:.0f} s, so {engine.controller} is not"
        f" running: check `kubectl get pods -n {engine.controller_namespace}`; the job starts once"
        " it runs"
    )


def namespace_missing(namespace: str) -> ClusterError:
    """Return the error for a namespace that does not exist."""
    return ClusterError(
        f"there is no namespace {namespace} in this cluster: create it (`kubectl create namespace"
        f" {namespace}`) or set another NAMESPACE"
    )


def from_api_exception(error: "ApiException", verb: str, kind: str, namespace: str) -> ClusterError:
    """Return the error for a response that is not a success.

    Args:
        error: The response.
        verb: The RBAC verb of the request: get, list, patch, delete.
        kind: The kind of object.
        namespace: The namespace.
    """
    text = response_message(error)
    if engine := _engine_of_webhook(text):
        if re.search("deadline exceeded|Timeout exceeded|handshake timeout", text):
            return WebhookTimeout(
                f"the webhook of {engine.controller} does not answer in time: check `kubectl get"
                f" pods -n {engine.controller_namespace}` and how busy their nodes are, and retry"
                " the command"
            )
        return ClusterError(
            f"{engine.controller} is installed but not running (its webhook does not answer): check"
            f" `kubectl get pods -n {engine.controller_namespace}`, and retry the command once its"
            " pod is ready"
        )
    if refused := from_admission_message(text):
        return refused
    if error.status == 401:
        return ClusterError(
            f"authentication failed (401: {text}): sign in again (`gcloud auth login` and `gcloud"
            " container clusters get-credentials` on Google Cloud), or set another CONTEXT"
        )
    if missing := re.search(r'namespaces "([^"]+)" not found', text):
        return namespace_missing(missing[1])
    if error.status == 403:
        return _forbidden(text, verb, kind, namespace)
    if error.status == 409:
        return Conflict(f"this {kind} was changed meanwhile (409: {text}): retry the command")
    if error.status == 422:
        return Invalid(f"the cluster rejects this {kind} (422: {text}): change the settings")
    if error.status in (429, 500, 502, 503, 504):
        return Unreachable(
            f"the API server is unavailable ({error.status}: {text}): retry the command"
        )
    return ClusterError(f"the cluster refuses to {verb} {kind} ({error.status}: {text})")


def _engine_of_webhook(text: str) -> Engine | None:
    """Return the engine whose webhook the API server could not call, if that is the message."""
    if "failed calling webhook" not in text:
        return None
    names = {"training-operator": "TFJob", "jobset": "JobSet", "trainer": "TrainJob"}
    return next((BY_KIND[kind] for name, kind in names.items() if name in text), None)


def _forbidden(text: str, verb: str, kind: str, namespace: str) -> ClusterError:
    if rbac := re.search(
        r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
        r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?',
        text,
    ):
        resource = ".".join(filter(None, [rbac["resource"], rbac["group"]]))
        extent = f"in namespace {rbac['namespace']}" if rbac["namespace"] else "in the cluster"
        option = f" -n {rbac['namespace']}" if rbac["namespace"] else ""
        return Forbidden(
            f"{rbac['user']} may not {rbac['verb']} {resource} {extent}: request a role with that"
            f" verb from the cluster's administrator (`kubectl auth can-i {rbac['verb']}"
            f" {resource}{option}` checks it), or set another NAMESPACE or CONTEXT"
        )
    return Forbidden(
        f"permission denied (403): can't {verb} {kind} in namespace {namespace}: {text}"
    )


def from_admission_message(text: str) -> ClusterError | None:
    """Return the error for an object that was not admitted; None for any other matter.

    Args:
        text: The message of the API server or of an event.
    """
    if quota := re.search(r"exceeded quota: ([^,]+), requested: (.+)", text):
        requested = " ".join(quota[2].split())
        return ClusterError(
            f"quota {quota[1]} of the namespace is too small for the job (requested: {requested}):"
            f" lower WORKERS, CPU or MEMORY, stop another job (`{command('cluster list')}`), or"
            " have the quota raised"
        )
    if quota := re.search(r"failed quota: ([^:]+): must specify (.+)", text):
        return ClusterError(
            f"quota {quota[1]} of the namespace requires every pod to specify {quota[2]}: set it"
            " in the overlay"
        )
    if pss := re.search(r'violates PodSecurity "([^"]+)": (.+)', text):
        return ClusterError(
            f"the namespace enforces the Pod Security Standard {pss[1].split(':')[0]}, which this"
            f" pod violates ({pss[2]}): remove that from the overlay, or use another NAMESPACE"
        )
    if account := re.search(r"error looking up service account ([^:]+):", text):
        return ClusterError(
            f"the pods' service account {account[1]} does not exist: apply all of the overlay, or"
            " create the account"
        )
    if priority := re.search(r"no PriorityClass with name (\S+) was found", text):
        return ClusterError(
            f"PRIORITY_CLASS={priority[1]} does not exist in this cluster: `kubectl get"
            " priorityclasses` lists the existing ones"
        )
    return None


def response_message(error: "ApiException") -> str:
    """Return the message in a response, on one line."""
    body = error.body.decode("utf-8", "replace") if isinstance(error.body, bytes) else error.body
    try:
        text = json.loads(body or "")["message"]
    except (ValueError, KeyError, TypeError):
        text = body or error.reason or ""
    return " ".join(str(text).split())[:MAX_RESPONSE_CHARACTERS]
