"""Environments of the client: namespaces, users with few permissions, faulty overlays."""

import contextlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import kube
from tests.support import patience
from tests.support.ports import own_port

SMALL = ("MODEL=qcnn", "QUBITS=2", "INITIALIZATIONS=1", "EPOCHS=3", "TRAIN_EXAMPLES=100")
"""A run of a few seconds."""

there: list[str] = []
"""Namespaces of running tests, which are dumped when a test fails."""

OPERATOR = ("--namespace=kubeflow", "deployment/training-operator")


@contextlib.contextmanager
def namespace(ending: str, *labels: str) -> Iterator[str]:
    """Create a namespace for one purpose."""
    name = f"qfleet-launch-{os.getpid()}-{ending}"
    kube.kubectl("create", "namespace", name)
    there.append(name)
    try:
        for label in labels:
            kube.kubectl("label", "namespace", name, label)
        yield name
    finally:
        there.remove(name)
        kube.kubectl("delete", "namespace", name, "--wait=false", check=False)


def ending(test: str) -> str:
    """Return a test's name as the suffix of a namespace."""
    return "".join(c if c.isalnum() else "-" for c in test.removeprefix("test_"))[:24].strip("-")


OVERLAYS: dict[str, dict[str, Any]] = {
    "huge": {"resources": {"limits": {"cpu": "64"}, "requests": {"cpu": "64"}}},
    "privileged": {"securityContext": {"privileged": True}},
    "nameless": {"envFrom": [{"configMapRef": {"name": "nowhere"}}]},
    "wordless": {"command": ["no-such-program"]},
    "mistaken": {"env/-": {"name": "QFLEET_FILTERS", "value": "99"}},
    "hungry": {
        "command": ["python", "-c", "eaten = bytearray(2**30)"],
        "resources": {"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}},
    },
}
"""Overlays based on `local` that change one field of the worker's container."""


@dataclass(frozen=True)
class Checkout:
    """A checkout with additional overlays, in which commands run as a user runs them."""

    folder: Path

    def launch(
        self, *words: str, timeout: float = 180, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `python -m launch WORDS`."""
        return subprocess.run(
            self._command(words), **self._more(environ), capture_output=True,
            timeout=patience.seconds(timeout),
        )  # fmt: skip

    def start(self, *words: str) -> "RunningClient":
        """Start `python -m launch WORDS`."""
        process = subprocess.Popen(
            self._command(words), **self._more({}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        return RunningClient(process)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [str(kube.LAUNCH), "-m", "launch", *words]

    def _more(self, environ: dict[str, str]) -> dict[str, Any]:
        return {
            "cwd": self.folder,
            "env": kube.environment(**environ),
            "stdin": subprocess.DEVNULL,
            "text": True,
        }


class RunningClient:
    """A running client, whose output is read as it arrives."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.append(line)

    @property
    def output(self) -> str:
        """The output so far."""
        return "".join(self._lines)

    def wait_for(self, text: str, timeout: float = 120) -> None:
        """Wait until the output contains this text."""
        end = time.monotonic() + patience.seconds(timeout)
        while text not in self.output:
            assert time.monotonic() < end, f"no {text!r} in: {self.output}"
            alive = self._reader.is_alive()
            assert alive or text in self.output, f"no {text!r} in: {self.output}"
            time.sleep(0.1)

    def interrupt(self) -> int:
        """Send SIGINT, as Ctrl-C does, and return the exit code."""
        return self.end(signal.SIGINT)

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self._process.send_signal(number)
        code = self._process.wait(patience.seconds(30))
        self._reader.join(patience.seconds(10))
        return code

    def __enter__(self) -> "RunningClient":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def checkout(folder: Path) -> Checkout:
    """Copy the client's code and manifests, and add OVERLAYS and `selecting`."""
    for room in ("launch", "common", "qfleet", "k8s"):
        shutil.copytree(
            kube.ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__", "built")
        )
    shutil.copy(kube.ROOT / "VERSION", folder)
    for name, change in OVERLAYS.items():
        _overlay(folder, name, {"containers": [{"name": "tensorflow", **change}]})
    _overlay(folder, "selecting", {"nodeSelector": {"qfleet-test/nowhere": "true"}})
    return Checkout(folder)


def refused(checkout: Checkout, *words: str, seconds: float = 60, **environ: str) -> str:
    """Return the client's error, which is one line; the exit code must be 2."""
    done = checkout.launch(*words, timeout=seconds, **environ)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def in_(namespace: str) -> str:
    """Return the setting NAMESPACE."""
    return f"NAMESPACE={namespace}"


def _overlay(checkout: Path, name: str, change: dict[str, Any]) -> None:
    """Write an overlay that changes the workers' pods."""
    patches = []
    for key, value in change.items():
        place = "/spec/tfReplicaSpecs/Worker/template/spec"
        changed = {key: value}
        if key == "containers":
            place += "/containers/0"
            changed = {k: v for k, v in value[0].items() if k != "name"}
        patches += [{"op": "add", "path": f"{place}/{k}", "value": v} for k, v in changed.items()]
    folder = checkout / "k8s" / "overlays" / name
    texts = {
        "training": {
            "resources": ["../../../base/training", "../../../base/storage"],
            "components": ["../patches"],
        },
        "patches": {
            "apiVersion": "kustomize.config.k8s.io/v1alpha1",
            "kind": "Component",
            "components": ["../../local/patches"],
            "patches": [{"target": {"kind": "TFJob"}, "patch": yaml.safe_dump(patches)}],
        },
    }
    for part, text in texts.items():
        (folder / part).mkdir(parents=True)
        (folder / part / "kustomization.yaml").write_text(yaml.safe_dump(text))


def restricted_user(namespace: str, folder: Path, *rules: dict[str, list[str]]) -> str:
    """Write a kubeconfig of a user with only these permissions, in one namespace."""
    account = {
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest"}
    }  # fmt: skip
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "guest"},
        "rules": list(rules),
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "guest"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "guest"},
        "subjects": [{"kind": "ServiceAccount", "name": "guest", "namespace": namespace}],
    }
    given = yaml.safe_dump_all([account, role, binding])
    kube.kubectl("apply", "--namespace", namespace, "-f", "-", given=given)
    token = kube.kubectl("create", "token", "guest", "--namespace", namespace).strip()
    config = _config()
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    return _write_config(config, folder / "guest")


def at(server: str, folder: Path) -> str:
    """Write a copy of the kubeconfig with another address of the cluster."""
    config = _config()
    config["clusters"][0]["cluster"] = {"server": server}
    return _write_config(config, folder / "elsewhere")


def _config() -> dict[str, Any]:
    return yaml.safe_load(kube.kubectl("config", "view", "--raw", "--flatten", "--minify"))


def _write_config(config: dict[str, Any], path: Path) -> str:
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return str(path)


@contextlib.contextmanager
def without_groups(*hidden: str) -> Iterator[str]:
    """Serve the cluster's API as if a controller had never been installed; yield its address.

    kubectl's proxy passes requests on, and these API groups are removed from the responses.
    """
    port = own_port()
    proxy = subprocess.Popen(
        ["kubectl", "proxy", f"--port={port}"], stdout=subprocess.PIPE, text=True
    )
    assert proxy.stdout
    proxy.stdout.readline()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = 404, b'{"kind": "Status", "message": "404 page not found"}'
            if not any(group in self.path for group in hidden):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{self.path}") as reply:
                        status, answer = reply.status, reply.read()
                except urllib.error.HTTPError as error:
                    status, answer = error.code, error.read()
            if self.path == "/apis":
                groups = json.loads(answer)
                groups["groups"] = [g for g in groups["groups"] if g["name"] not in hidden]
                answer = json.dumps(groups).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        proxy.terminate()
        proxy.wait()
        proxy.stdout.close()


@contextlib.contextmanager
def without_operator() -> Iterator[None]:
    """Stop the operator, which stays installed."""
    replicas = kube.get(*OPERATOR)["spec"]["replicas"]
    kube.kubectl("scale", *OPERATOR, "--replicas=0")
    try:
        kube.kubectl(
            "wait", OPERATOR[0], "--for=delete", "pod",
            "--selector=control-plane=kubeflow-training-operator", check=False, timeout=60,
        )  # fmt: skip
        yield
    finally:
        kube.kubectl("scale", *OPERATOR, f"--replicas={replicas}")
        kube.kubectl("rollout", "status", *OPERATOR, timeout=120)


HOOK = ("validatingwebhookconfiguration", "validator.training-operator.kubeflow.org")


@contextlib.contextmanager
def without_webhook() -> Iterator[None]:
    """Let the API server admit TFJobs although the operator's webhook does not answer."""
    before = [hook["failurePolicy"] for hook in kube.get(*HOOK)["webhooks"]]

    def policies(values: list[str]) -> None:
        patch = [
            {"op": "replace", "path": f"/webhooks/{place}/failurePolicy", "value": value}
            for place, value in enumerate(values)
        ]
        kube.kubectl("patch", *HOOK, "--type=json", f"--patch={json.dumps(patch)}")

    policies(["Ignore"] * len(before))
    try:
        yield
    finally:
        policies(before)
