"""The API server of one kubectl context, and one namespace of it.

Objects are dicts, as they stand in YAML. Every call ends within seconds: with an answer, with None
where there is no such object, or with a ClusterError (launch/api_errors.py) in one sentence.
"""

import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError, ResourceNotFoundError

from common.errors import ClusterError
from common.settings import Settings
from launch import api_errors

FIELD_MANAGER = "qfleet"
"""The field manager that our server-side applies are recorded under."""

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0

Object = dict[str, Any]

VERSIONS = {
    "TFJob": "kubeflow.org/v1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
"""Where kinds are found that are not in v1."""


class _Requests(client.ApiClient):
    """The library's client, which waits for ever unless each call says how long."""

    def call_api(self, *args: Any, **more: Any) -> Any:
        more["_request_timeout"] = more.get("_request_timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        return super().call_api(*args, **more)


class KubeClient:
    """What the client asks a cluster for.

    Args:
        context: The kubectl context.
        namespace: The namespace that all of it is about.
        configuration: The server's address and the person's credentials.
    """

    def __init__(self, context: str, namespace: str, configuration: client.Configuration) -> None:
        self.context, self.namespace = context, namespace
        self.server = str(configuration.host)
        self._requests = _Requests(configuration)
        self._dynamic: dynamic.DynamicClient | None = None

    @classmethod
    def connect(cls, settings: Settings) -> "KubeClient":
        """The cluster that CONTEXT and NAMESPACE name; nothing is asked of it yet.

        Raises:
            ClusterError: There is no kubectl, no kubeconfig, or no such context in it.
        """
        # The libraries log, partly to the root logger, what they also raise.
        for logger in (None, "urllib3", "kubernetes"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        if shutil.which("kubectl") is None:
            raise ClusterError(
                "there is no kubectl on the PATH, which the cluster is reached with: install it"
                " (https://kubernetes.io/docs/tasks/tools)"
            )
        contexts, active = _contexts()
        name = settings.cluster.context or active
        chosen = contexts.get(name)
        if chosen is None:
            said = (
                f"CONTEXT={name}" if settings.cluster.context else f"the current context {name!r}"
            )
            raise ClusterError(
                f"{said} is not a context of {_kubeconfig()}: there are"
                f" {', '.join(sorted(contexts)) or 'none'}"
            )
        configuration = client.Configuration()
        try:
            config.load_kube_config(
                context=name, client_configuration=configuration, persist_config=False
            )
        except (config.ConfigException, OSError) as error:
            raise ClusterError(
                f"context {name} of {_kubeconfig()} can't be used ({_first_line(error)}): repair"
                " it, or name another as CONTEXT"
            ) from None
        configuration.retries = 1  # a number per request; the default is several
        namespace = settings.cluster.namespace or chosen.get("namespace") or "default"
        return cls(name, namespace, configuration)

    @property
    def kubectl(self) -> list[str]:
        """The beginning of a kubectl command on this context and namespace."""
        return ["kubectl", f"--context={self.context}", f"--namespace={self.namespace}"]

    def check(self) -> None:
        """Find out whether the server answers and has the namespace.

        Raises:
            ClusterError: It does not answer, or there is no such namespace.
        """
        with contextlib.suppress(api_errors.Forbidden):  # a person may not be shown namespaces
            if self.get("Namespace", self.namespace) is None:
                raise api_errors.no_namespace(self.namespace)

    def kind(self, kind: str, version: str = "") -> Any:
        """How the server serves a kind of object.

        Raises:
            ClusterError: It does not know the kind: the operator is not installed.
        """
        version = version or VERSIONS.get(kind, "v1")
        with self._told("get", kind):
            if self._dynamic is None:
                with tempfile.TemporaryDirectory() as folder:
                    # Its cache of what the server serves would be trusted for ever.
                    cache = os.path.join(folder, "served.json")
                    self._dynamic = dynamic.DynamicClient(self._requests, cache_file=cache)
            try:
                # Without the prefix it would ask every group that has such a version.
                prefix = "apis" if "/" in version else "api"
                return self._dynamic.resources.get(prefix=prefix, api_version=version, kind=kind)
            except ResourceNotFoundError:
                raise api_errors.unknown_kind(kind, version) from None

    def get(self, kind: str, name: str, version: str = "") -> Object | None:
        """One object; None where there is none."""
        served = self.kind(kind, version)
        namespace = self.namespace if served.namespaced else None
        with self._told("get", kind):
            try:
                return served.get(name=name, namespace=namespace).to_dict()
            except NotFoundError:
                return None

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Object]:
        """The namespace's objects of a kind.

        Args:
            kind: Their kind.
            labels: A label selector, such as app.kubernetes.io/part-of=qfleet.
            fields: A field selector, such as involvedObject.name=qcnn.
        """
        served = self.kind(kind)
        more = {"label_selector": labels or None, "field_selector": fields or None}
        with self._told("list", kind):
            return served.get(namespace=self.namespace, **more).to_dict()["items"]

    def apply(self, body: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Server-side apply. Fields that others set in the same places become ours.

        Returns:
            The object as it is now, or would be after `dry_run`.
        """
        kind = body["kind"]
        served = self.kind(kind, body["apiVersion"])
        with self._told("patch", kind):
            return served.server_side_apply(
                body=dict(body),
                namespace=self.namespace if served.namespaced else None,
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
                dry_run="All" if dry_run else None,
            ).to_dict()

    def delete(self, kind: str, name: str) -> bool:
        """Delete an object, and in the background all that it owns; whether there was one."""
        served = self.kind(kind)
        with self._told("delete", kind):
            try:
                served.delete(name=name, namespace=self.namespace, propagation_policy="Background")
            except NotFoundError:
                return False
        return True

    def log(
        self, pod: str, container: str, *, follow: bool, last: int | None = None
    ) -> Iterator[str]:
        """A container's lines, each with the time before it, as they come.

        Args:
            pod: The pod's name.
            container: The container's.
            follow: Whether to go on until the container ends.
            last: Begin with so many of the lines that there are; None is all.

        Raises:
            urllib3.exceptions.HTTPError: The connection broke.
        """
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log"
        query = {"container": container, "follow": str(follow).lower(), "timestamps": "true"}
        if last is not None:
            query["tailLines"] = str(last)
        yield from self._lines("Pod", path, query)

    def watch(self, kind: str, labels: str) -> Iterator[Object]:
        """Objects as they are and each time they change, until the server ends it.

        Raises:
            urllib3.exceptions.HTTPError: The connection broke.
        """
        path = self.kind(kind).path(namespace=self.namespace)
        for line in self._lines(kind, path, {"watch": "true", "labelSelector": labels}):
            change = json.loads(line)
            if change["type"] in ("ADDED", "MODIFIED", "DELETED"):
                yield change["object"]

    def _lines(self, kind: str, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """An answer's lines as they come; none where there is no such object."""
        self.kind(kind)
        assert self._dynamic is not None
        with self._told("get", kind):
            try:
                answer = self._dynamic.request(
                    "get",
                    path,
                    query_params=[*query.items()],
                    serialize=False,
                    # Nothing may be said for long; a dead connection ends with its pod.
                    _request_timeout=(CONNECT_SECONDS, None),
                )
            except NotFoundError:
                return
        rest = b""
        with contextlib.closing(answer):
            for piece in answer.stream(amt=None, decode_content=True):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    @contextlib.contextmanager
    def _told(self, verb: str, kind: str) -> Iterator[None]:
        """Turn what the library raises into a ClusterError."""
        try:
            yield
        except NotFoundError:
            raise
        except DynamicApiError as error:
            raise api_errors.of_api(error, verb, kind, self.namespace) from error
        except (urllib3.exceptions.HTTPError, client.ApiException, ValueError) as error:
            raise api_errors.unreachable(self.context, self.server, error) from error


def _kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _contexts() -> tuple[dict[str, Mapping[str, Any]], str]:
    """The kubeconfig's contexts by name, and which is the current one."""
    files = [Path(name).expanduser() for name in _kubeconfig().split(os.pathsep) if name]
    if not any(file.is_file() for file in files):
        raise ClusterError(
            f"there is no kubeconfig {_kubeconfig()}, which says where the cluster is: set"
            " KUBECONFIG, make a cluster (`make cluster`), or get one's credentials (`gcloud"
            " container clusters get-credentials`)"
        )
    try:
        contexts, active = config.list_kube_config_contexts()
    except (config.ConfigException, OSError, ValueError) as error:
        raise ClusterError(
            f"kubeconfig {_kubeconfig()} can't be used ({_first_line(error)}): repair it, or set"
            " KUBECONFIG to another"
        ) from None
    known = {one["name"]: one.get("context") or {} for one in contexts or []}
    return known, (active or {}).get("name", "")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
