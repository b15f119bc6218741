"""Client of the API server of one kubectl context, for one namespace.

Objects are dicts, as in YAML. Every call ends within seconds: with an object, with None if it does
not exist, or with a ClusterError (launch/api_errors.py) of one sentence.
"""

import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import (
    ConflictError,
    DynamicApiError,
    NotFoundError,
    ResourceNotFoundError,
)
from kubernetes.dynamic.resource import Resource

from common.errors import ClusterError
from common.settings import Settings
from launch import api_errors
from launch.engines import BY_KIND, TEMPLATE_KINDS
from launch.kubeconfig import contexts, first_line, kubeconfig_path
from launch.pods import Object, ReadObject

FIELD_MANAGER = "qfleet"
"""The field manager of qfleet's server-side applies."""

CONNECT_SECONDS = 5.0
RESPONSE_SECONDS = 30.0


VERSIONS = {
    **{kind: one.version for found in (BY_KIND, TEMPLATE_KINDS) for kind, one in found.items()},
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "SelfSubjectReview": "authentication.k8s.io/v1",
    "SelfSubjectAccessReview": "authorization.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
}
"""API versions of kinds that are not in v1."""


class _TimeoutClient(client.ApiClient):
    """The library's client with a default timeout."""

    def call_api(self, *args: Any, **options: Any) -> Any:
        default = (CONNECT_SECONDS, RESPONSE_SECONDS)
        options["_request_timeout"] = options.get("_request_timeout") or default
        return super().call_api(*args, **options)


class KubeClient:
    """Reads and changes the objects of one namespace.

    Args:
        context: The kubectl context.
        namespace: The namespace.
        configuration: The server's address and the user's credentials.
    """

    def __init__(self, context: str, namespace: str, configuration: client.Configuration) -> None:
        self.context, self.namespace = context, namespace
        self.server = str(configuration.host)
        self._api = _TimeoutClient(configuration)
        self._dynamic: dynamic.DynamicClient | None = None

    @classmethod
    def connect(cls, settings: Settings) -> "KubeClient":
        """Return a client for CONTEXT and NAMESPACE. No request is sent yet.

        Raises:
            ClusterError: There is no kubectl, no kubeconfig, or no such context in it.
        """
        # The libraries also log the errors that they raise, partly to the root logger.
        for logger in (None, "urllib3", "kubernetes"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        if shutil.which("kubectl") is None:
            raise ClusterError(
                "there is no kubectl on the PATH, which is needed to reach the cluster: install it"
                " (https://kubernetes.io/docs/tasks/tools)"
            )
        found, active = contexts()
        name = settings.cluster.context or active
        chosen = found.get(name)
        if chosen is None:
            setting = (
                f"CONTEXT={name}" if settings.cluster.context else f"the current context {name!r}"
            )
            raise ClusterError(
                f"{setting} is not a context of {kubeconfig_path()}: choose one of"
                f" {', '.join(sorted(found)) or '(none exists)'}"
            )
        configuration = client.Configuration()
        try:
            config.load_kube_config(
                context=name, client_configuration=configuration, persist_config=False
            )
        except (config.ConfigException, OSError) as error:
            raise ClusterError(
                f"context {name} of {kubeconfig_path()} can't be used ({first_line(error)}): repair"
                " it, or set another CONTEXT"
            ) from None
        configuration.retries = 1  # per request; the library's default is several
        namespace = settings.cluster.namespace or chosen.get("namespace") or "default"
        return cls(name, namespace, configuration)

    @property
    def kubectl(self) -> list[str]:
        """The start of a kubectl command for this context and namespace."""
        return ["kubectl", f"--context={self.context}", f"--namespace={self.namespace}"]

    def check(self) -> None:
        """Check that the server answers and has the namespace.

        Raises:
            ClusterError: It does not answer, or there is no such namespace.
        """
        with contextlib.suppress(api_errors.Forbidden):  # not every user may read namespaces
            if self.get("Namespace", self.namespace) is None:
                raise api_errors.namespace_missing(self.namespace)

    def kind(self, kind: str, version: str = "") -> Resource:
        """Return the library's resource for a kind of object.

        Raises:
            KindNotServed: The server does not serve the kind: its controller is not installed.
        """
        version = version or VERSIONS.get(kind, "v1")
        with self._translated("get", kind):
            if self._dynamic is None:
                with tempfile.TemporaryDirectory() as folder:
                    # The library never refreshes its cache of the kinds that a server serves.
                    cache = os.path.join(folder, "served.json")
                    self._dynamic = dynamic.DynamicClient(self._api, cache_file=cache)
            try:
                # Without the prefix it requests every group that has such a version.
                prefix = "apis" if "/" in version else "api"
                return self._dynamic.resources.get(prefix=prefix, api_version=version, kind=kind)
            except ResourceNotFoundError:
                raise api_errors.kind_not_served(kind, version) from None

    def serves(self, kind: str, version: str = "") -> bool:
        """Return True if the server serves a kind of object."""
        try:
            self.kind(kind, version)
        except api_errors.KindNotServed:
            return False
        return True

    def get(self, kind: str, name: str, version: str = "") -> Object | None:
        """Return an object; None if it does not exist."""
        served = self.kind(kind, version)
        namespace = self.namespace if served.namespaced else None
        with self._translated("get", kind):
            try:
                return served.get(name=name, namespace=namespace).to_dict()
            except NotFoundError:
                return None

    def list(
        self,
        kind: str,
        labels: str = "",
        fields: str = "",
        *,
        everywhere: bool = False,
        namespace: str = "",
    ) -> list[Object]:
        """Return the namespace's objects of a kind.

        Args:
            kind: Their kind.
            labels: A label selector, such as app.kubernetes.io/part-of=qfleet.
            fields: A field selector, such as involvedObject.name=qcnn.
            everywhere: Return those of all namespaces, or those of a kind that has no namespace.
            namespace: Another namespace than that of the client.
        """
        served = self.kind(kind)
        selectors = {"label_selector": labels or None, "field_selector": fields or None}
        place = None if everywhere else namespace or self.namespace
        with self._translated("list", kind):
            return served.get(namespace=place, **selectors).to_dict()["items"]

    def review(self, kind: str, spec: ReadObject) -> Object:
        """Return the status of a review, which the server answers and does not store.

        Args:
            kind: Its kind, such as SelfSubjectAccessReview.
            spec: The question; empty for a kind without one.
        """
        served = self.kind(kind)
        body: Object = {"apiVersion": VERSIONS[kind], "kind": kind}
        if spec:
            body["spec"] = dict(spec)
        with self._translated("create", kind):
            return served.create(body=body).to_dict().get("status") or {}

    def server_version(self) -> str:
        """Return the version of the API server, such as v1.34.4."""
        self.kind("Namespace")
        assert self._dynamic is not None
        return str(self._dynamic.version["kubernetes"]["gitVersion"])

    def apply(self, body: ReadObject, before: Object | None, *, dry_run: bool = False) -> Object:
        """Apply an object on the server.

        Args:
            body: The object.
            before: The object as it was read, whose fields of other field managers are overridden;
                None if it does not exist.
            dry_run: Change nothing.

        Returns:
            The object as it is now, or as it would be with `dry_run`.

        Raises:
            Conflict: It is no longer the object that was read; nothing was changed.
        """
        kind = body["kind"]
        served = self.kind(kind, body["apiVersion"])
        metadata = dict(body["metadata"])
        if before is not None:
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        with self._translated("patch", kind):
            return served.server_side_apply(
                body={**body, "metadata": metadata},
                namespace=self.namespace if served.namespaced else None,
                field_manager=FIELD_MANAGER,
                force_conflicts=before is not None,
                dry_run="All" if dry_run else None,
            ).to_dict()

    def delete(self, live: Object) -> bool:
        """Delete an object and the objects that it owns.

        Args:
            live: The object as it was read.

        Returns:
            False if it no longer exists; an object of the same name that replaced it is kept.
        """
        served = self.kind(live["kind"], live["apiVersion"])
        metadata = live["metadata"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            # A JobSet stays until its Jobs are gone: another one of its name needs their names.
            "propagationPolicy": "Foreground" if _has_jobs(live["kind"]) else "Background",
            "preconditions": {"uid": metadata["uid"]},
        }
        with self._translated("delete", live["kind"]):
            try:
                served.delete(name=metadata["name"], namespace=self.namespace, body=options)
            except (NotFoundError, ConflictError):
                return False
        return True

    def log(
        self, pod: str, container: str, *, follow: bool, last: int | None = None
    ) -> Iterator[str]:
        """Yield the lines of a container's log, each with its time in front.

        Args:
            pod: The pod's name.
            container: The container's name.
            follow: Wait for further lines until the container ends.
            last: Start with this many of the existing lines; None starts with the first.

        Raises:
            urllib3.exceptions.HTTPError: The connection broke.
        """
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log"
        query = {"container": container, "follow": str(follow).lower(), "timestamps": "true"}
        if last is not None:
            query["tailLines"] = str(last)
        yield from self._lines("Pod", path, query)

    def watch(self, kind: str, labels: str) -> Iterator[Object]:
        """Yield objects, and each of their changes, until the server ends the watch.

        Raises:
            urllib3.exceptions.HTTPError: The connection broke.
        """
        path = self.kind(kind).path(namespace=self.namespace)
        for line in self._lines(kind, path, {"watch": "true", "labelSelector": labels}):
            change = json.loads(line)
            if change["type"] in ("ADDED", "MODIFIED", "DELETED"):
                yield change["object"]

    def _lines(self, kind: str, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """Yield a response's lines as they arrive; none if the object does not exist."""
        self.kind(kind)
        assert self._dynamic is not None
        with self._translated("get", kind):
            try:
                response = self._dynamic.request(
                    "get",
                    path,
                    query_params=[*query.items()],
                    serialize=False,
                    # A log may be silent for long; a dead connection ends with its pod.
                    _request_timeout=(CONNECT_SECONDS, None),
                )
            except NotFoundError:
                return
        rest = b""
        with contextlib.closing(response):
            for block in response.stream(amt=None, decode_content=True):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    @contextlib.contextmanager
    def _translated(self, verb: str, kind: str) -> Iterator[None]:
        """Convert the library's errors to a ClusterError."""
        try:
            yield
        except (NotFoundError, ConflictError) as error:
            if verb != "patch":
                raise
            raise api_errors.from_api_exception(error, verb, kind, self.namespace) from error
        except DynamicApiError as error:
            raise api_errors.from_api_exception(error, verb, kind, self.namespace) from error
        except (urllib3.exceptions.HTTPError, client.ApiException, ValueError) as error:
            raise api_errors.unreachable(self.context, self.server, error) from error


def _has_jobs(kind: str) -> bool:
    return kind in BY_KIND and BY_KIND[kind].has_jobs
