"""An API server over HTTP that answers reads and reviews, for the real client and kubeconfig.

It has objects, a user, and rights that the user lacks. A request that would create, change or
delete an object is recorded, and refused unless `accepts_writes` is set.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

KINDS = {
    "v1": {
        "Namespace": False, "Node": False, "Pod": True, "Event": True, "Service": True,
        "ConfigMap": True, "ServiceAccount": True, "ResourceQuota": True,
    },
    "apps/v1": {"Deployment": True},
    "batch/v1": {"Job": True},
    "networking.k8s.io/v1": {"NetworkPolicy": True},
    "scheduling.k8s.io/v1": {"PriorityClass": False},
    "storage.k8s.io/v1": {"StorageClass": False},
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition": False},
    "authentication.k8s.io/v1": {"SelfSubjectReview": False},
    "authorization.k8s.io/v1": {"SelfSubjectAccessReview": False},
}  # fmt: skip
"""API version -> kind -> whether its objects have a namespace."""

JOBSET = {"jobset.x-k8s.io/v1alpha2": {"JobSet": True}}
TFJOB = {"kubeflow.org/v1": {"TFJob": True}}
TRAINJOB = {"trainer.kubeflow.org/v1alpha1": {"TrainJob": True, "TrainingRuntime": True}}
KUEUE = {"kueue.x-k8s.io/v1beta1": {"LocalQueue": True, "ClusterQueue": False}}


def plural(kind: str) -> str:
    """Return the name of a kind's resource."""
    return f"{kind.lower()[:-1]}ies" if kind.endswith("cy") else f"{kind.lower()}s"


class FakeApiServer:
    """A running server.

    Attributes:
        objects: Kind -> its objects.
        denied: (verb, resource) that the user lacks, also for reads.
        writes: Paths of requests that would change something.
        accepts_writes: Store and delete objects.
        pod_status: The status that each stored pod gets.
    """

    user = "jane@lab"

    def __init__(self, served: Mapping[str, Mapping[str, bool]]) -> None:
        self.served = {**KINDS, **served}
        self.objects: dict[str, list[dict[str, Any]]] = {"Namespace": [named("lab")]}
        self.denied: set[tuple[str, str]] = set()
        self.writes: list[str] = []
        self.accepts_writes = False
        self.pod_status: dict[str, Any] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(*server.read(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(*server.post(self.path, body))

            def do_PATCH(self) -> None:
                body = yaml.safe_load(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(*server.apply(self.path, body))

            def do_DELETE(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(*server.delete(self.path))

            def _answer(self, code: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        """Stop it."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def read(self, target: str) -> tuple[int, object]:
        """Answer a GET."""
        url = urlsplit(target)
        parts = url.path.strip("/").split("/")
        if url.path.rstrip("/") == "/version":
            return 200, {"gitVersion": "v1.34.4", "major": "1", "minor": "34"}
        if parts == ["api"]:
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            return 200, {"kind": "APIGroupList", "groups": self._groups()}
        version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
        rest = parts[2 if parts[0] == "api" else 3 :]
        if version not in self.served:
            return 404, status(404, "not found")
        return (
            self._find(version, rest, parse_qs(url.query)) if rest else (200, self._list(version))
        )

    def _find(
        self, version: str, rest: list[str], query: dict[str, list[str]]
    ) -> tuple[int, object]:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kind = next(one for one in self.served[version] if plural(one) == rest[0])
        verb = "get" if len(rest) > 1 else "list"
        if (verb, rest[0]) in self.denied or (verb, f"{rest[0]}@{namespace}") in self.denied:
            return 403, status(403, self._refusal(verb, rest[0], version))
        here = [
            {"apiVersion": version, "kind": kind, **one}
            for one in self.objects.get(kind, [])
            if not namespace or one["metadata"].get("namespace", "lab") == namespace
        ]
        if verb == "get":
            here = [one for one in here if one["metadata"]["name"] == rest[1]]
            return (200, here[0]) if here else (404, status(404, f"{rest[1]} not found"))
        if wanted := dict(one.split("=") for one in query.get("fieldSelector", [])):
            name = wanted.get("metadata.name")
            here = [one for one in here if one["metadata"]["name"] == name]
        return 200, {"apiVersion": version, "kind": f"{kind}List", "metadata": {}, "items": here}

    def _refusal(self, verb: str, resource: str, version: str) -> str:
        group = version.rpartition("/")[0]
        return (
            f'{resource} is forbidden: User "{self.user}" cannot {verb} resource "{resource}" in'
            f' API group "{group}" in the namespace "lab"'
        )

    def post(self, target: str, body: dict[str, Any]) -> tuple[int, object]:
        """Answer a review; record and refuse anything else."""
        match body.get("kind"):
            case "SelfSubjectReview":
                return 201, {**body, "status": {"userInfo": {"username": self.user}}}
            case "SelfSubjectAccessReview":
                asked = body["spec"]["resourceAttributes"]
                allowed = (asked["verb"], asked["resource"]) not in self.denied
                return 201, {**body, "status": {"allowed": allowed}}
        self.writes.append(target)
        return 403, status(403, "read-only")

    def apply(self, target: str, body: dict[str, Any]) -> tuple[int, object]:
        """Store an object, which replaces one of its name."""
        self.writes.append(urlsplit(target).path)
        if not self.accepts_writes:
            return 403, status(403, "read-only")
        body["metadata"] |= {"uid": f"u{len(self.writes)}", "resourceVersion": "1"}
        if body["kind"] == "Pod":
            body["status"] = self.pod_status
        self._remove(body["kind"], body["metadata"]["name"])
        self.objects.setdefault(body["kind"], []).append(body)
        return 200, body

    def delete(self, target: str) -> tuple[int, object]:
        """Delete an object."""
        self.writes.append(urlsplit(target).path)
        *_, resource, name = urlsplit(target).path.split("/")
        kind = next(
            one for kinds in self.served.values() for one in kinds if plural(one) == resource
        )
        self._remove(kind, name)
        return 200, status(200, "")

    def _remove(self, kind: str, name: str) -> None:
        found = self.objects.get(kind, [])
        self.objects[kind] = [one for one in found if one["metadata"]["name"] != name]

    def _groups(self) -> list[dict[str, Any]]:
        found = []
        for version in self.served:
            if version != "v1":
                one = {"groupVersion": version, "version": version.rpartition("/")[2]}
                group = version.partition("/")[0]
                found.append({"name": group, "versions": [one], "preferredVersion": one})
        return found

    def _list(self, version: str) -> dict[str, Any]:
        verbs = ["get", "list", "watch", "create", "patch", "delete"]
        resources = [
            {
                "name": plural(kind), "singularName": kind.lower(), "kind": kind,
                "namespaced": namespaced, "verbs": verbs,
            }
            for kind, namespaced in self.served[version].items()
        ]  # fmt: skip
        return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}


def named(name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """Return an object with a name."""
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **place}, **fields}


def status(code: int, message: str) -> dict[str, Any]:
    """Return the body of a failure."""
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}


def write_kubeconfig(file: Path, server: str, namespace: str = "lab") -> None:
    """Write a kubeconfig with one context, `there`."""
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "there",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": "secret"}}],
                "contexts": [
                    {
                        "name": "there",
                        "context": {"cluster": "c", "user": "u", "namespace": namespace},
                    }
                ],
            }
        ),
        encoding="utf-8",
    )  # fmt: skip


@contextmanager
def api_server(*served: Mapping[str, Mapping[str, bool]]) -> Iterator[FakeApiServer]:
    """Run a server that also serves some kinds."""
    server = FakeApiServer({version: kinds for one in served for version, kinds in one.items()})
    try:
        yield server
    finally:
        server.close()
