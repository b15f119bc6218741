"""A real cluster for tests: the one of KUBECONFIG, accessed with kubectl as users do.

Jobs, pods and logs are polled, so a client in this process reads them: starts of kubectl took half
of the processor time of these tests.
"""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config

from chaos import node
from chaos.cluster import ALLOCATE, eviction
from common import events
from common.events import Event
from common.settings.sources import last_of_each
from launch.engines import ENGINES
from launch.engines.engine import true_conditions
from launch.job import Pod, is_finished, phase, sorted_pods
from tests.support import patience

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / ".venv-launch" / "bin" / "python"

JOB = "training.kubeflow.org/job-name"


def kubectl(*words: str, given: str | None = None, check: bool = True, timeout: float = 0) -> str:
    """Return the output of kubectl; it must succeed, unless `check` is false.

    Args:
        words: Its arguments.
        given: Its standard input.
        check: Assert that it succeeds.
        timeout: What suffices for its own waiting on an idle machine, in seconds; 0 is its default.
    """
    waiting = [f"--timeout={patience.seconds(timeout):.0f}s"] if timeout else []
    done = subprocess.run(
        ["kubectl", *words, *waiting], input=given, capture_output=True, text=True,
        timeout=patience.seconds(max(120, 2 * timeout)), check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


@functools.lru_cache(maxsize=1)
def _connect(path: str, changed: int) -> tuple[client.ApiClient, str]:
    """Return a client for the current context of a kubeconfig, and its namespace."""
    _, active = config.list_kube_config_contexts(path)
    return config.new_client_from_config(path), active["context"].get("namespace", "default")


def server() -> tuple[client.ApiClient, str]:
    """Return a client for the current context of KUBECONFIG, and its namespace."""
    path = os.environ["KUBECONFIG"]
    return _connect(path, Path(path).stat().st_mtime_ns)


def pod_log(name: str, *, timestamps: bool = False) -> str:
    """Return the log of a pod; empty if there is none yet."""
    api, place = server()
    core = client.CoreV1Api(api)
    try:
        found = core.read_namespaced_pod_log(
            name, place, timestamps=timestamps, _preload_content=False
        )
    except client.ApiException:
        return ""
    return found.data.decode(errors="replace")


def get(kind: str, name: str = "", selector: str = "") -> Any:
    """Return an object, or the objects of a selector."""
    words = ["get", kind, *([name] if name else []), "-o", "json"]
    if selector:
        return json.loads(kubectl(*words, "-l", selector))["items"]
    return json.loads(kubectl(*words))


def until(condition: Callable[[], Any], timeout: float, what: str, pause: float = 0.3) -> Any:
    """Return the first true result of `condition`, which is called repeatedly.

    Args:
        condition: Called until its result is true.
        timeout: What suffices on an idle machine, in seconds.
        what: Names it where it does not happen.
        pause: Time between two calls, in seconds.
    """
    limit = patience.seconds(timeout)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(pause)
    raise AssertionError(f"{what}: not within {limit:.0f} seconds")


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without settings and storage, and with `more`."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "STORAGE_"))}
    return {**clean, **more}


def patient() -> dict[str, str]:
    """Return the environment, with time to wait for pods while other tests use the node."""
    return environment(QFLEET_RENDEZVOUS_TIMEOUT=f"{patience.seconds(120):.0f}")


def output(*command: str) -> str:
    """Return the standard output of a command in the checkout, which must succeed.

    It has this process's environment, which may name a storage emulator, and the time of `patient`.
    """
    done = subprocess.run(
        command,
        cwd=ROOT, env=os.environ | patient(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=patience.seconds(400), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def launch(*words: str, timeout: float = 300, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m launch WORDS` in its virtual environment, as make does."""
    return subprocess.run(
        [str(LAUNCH), "-m", "launch", *last_of_each(words)],
        cwd=ROOT,
        env=environment(**environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience.seconds(timeout),
        check=False,
    )


def is_own_cluster() -> bool:
    """Return True for the cluster of `make cluster`, on which no test is skipped."""
    return kubectl("config", "current-context").strip() == "qfleet-cluster"


@contextlib.contextmanager
def namespace() -> Iterator[str]:
    """Create a namespace that enforces the standard `restricted`, and make it kubectl's current."""
    name = f"qfleet-e2e-{os.getpid()}"
    kubectl("create", "namespace", name)
    before = os.environ.get("KUBECONFIG")
    try:
        kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config"
            config.write_text(kubectl("config", "view", "--raw", "--flatten", "--minify"))
            config.chmod(0o600)
            os.environ["KUBECONFIG"] = str(config)
            kubectl("config", "set-context", "--current", f"--namespace={name}")
            yield name
    finally:
        if before is None:
            os.environ.pop("KUBECONFIG", None)
        else:
            os.environ["KUBECONFIG"] = before
        kubectl("delete", "namespace", name, "--wait=false", check=False)


def _forward(target: str, ports: str) -> subprocess.Popen[str]:
    """Start to forward a port; the first line of its output names the local one."""
    return subprocess.Popen(
        ["kubectl", "port-forward", "--address=127.0.0.1", target, ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextlib.contextmanager
def forwarded(target: str, port: int) -> Iterator[int]:
    """Forward a port of 127.0.0.1 to a Service or a pod, also after its pod is replaced."""
    child = _forward(target, f":{port}")
    closing = threading.Event()

    def renew(local: str) -> None:
        nonlocal child
        while not closing.wait(0.5):
            if child.poll() is not None:
                child.communicate()
                child = _forward(target, f"{local}:{port}")

    try:
        assert child.stdout
        line = child.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, line + child.stdout.read()
        renewal = threading.Thread(target=renew, args=(found[1],))
        renewal.start()
        try:
            yield int(found[1])
        finally:
            closing.set()
            renewal.join()
    finally:
        child.terminate()
        child.communicate()


class Job:
    """The training job of a run, and its pods."""

    def __init__(self, run: str, api: str = "tfjob") -> None:
        self.run, self.name, self.engine = run, f"qfleet-{run}", ENGINES[api]

    def object(self) -> dict[str, Any]:
        """Return the job as the API has it."""
        api, place = server()
        group, version = self.engine.version.split("/")
        return client.CustomObjectsApi(api).get_namespaced_custom_object(
            group, version, place, f"{self.engine.kind.lower()}s", self.name
        )

    def conditions(self) -> list[str]:
        """Return the true conditions: Created, Running, Restarting, Succeeded, Failed."""
        return true_conditions(self.object())

    def ended(self) -> str:
        """Return Succeeded or Failed, or an empty string."""
        found = self.object()
        return phase(found) if is_finished(found) else ""

    def end(self, timeout: float) -> str:
        """Wait until it is Succeeded or Failed, and return which."""
        return until(self.ended, timeout, f"the end of {self.name}", pause=1)

    def pods(self) -> list[dict[str, Any]]:
        """Return its pods by rank."""
        api, place = server()
        found = client.CoreV1Api(api).list_namespaced_pod(
            place, label_selector=f"{self.engine.job_label}={self.name}", _preload_content=False
        )
        return [dict(pod.object) for pod in sorted_pods(json.loads(found.data)["items"])]

    def pod(self, rank: int) -> str:
        """Return the name of a worker's pod; another one after each restart of a JobSet."""
        if self.engine.api == "tfjob":
            return self.engine.last_host(self.run, rank + 1)
        found = [pod for pod in map(Pod, self.pods()) if pod.index == rank]
        return found[-1].name if found else "none"

    def uid(self, rank: int) -> str:
        """Return the uid of the current pod of a worker; empty if there is none."""
        found = kubectl("get", "pod", self.pod(rank), "-o", "jsonpath={.metadata.uid}", check=False)
        return found.strip()

    def log(self, rank: int = 0) -> str:
        """Return the log of a worker's pod; empty if it has no container yet."""
        return pod_log(self.pod(rank))

    def timed_lines(self, rank: int = 0) -> list[tuple[datetime, str]]:
        """Return the lines of the log, each with its time."""
        lines = []
        for line in pod_log(self.pod(rank), timestamps=True).splitlines():
            stamp, _, text = line.partition(" ")
            # For a terminating pod, there may be a line of the kubelet's own, without a time.
            with contextlib.suppress(ValueError):
                # datetime has microseconds, the API nanoseconds.
                stamped = datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", stamp))
                lines.append((stamped, text))
        return lines

    def events(self, kind: str, rank: int = 0) -> list[Event]:
        """Return the events of a kind in the log of a worker's pod."""
        return parse_events(self.log(rank), kind)

    def timed_events(self, kind: str, rank: int = 0) -> list[tuple[datetime, Event]]:
        """Return the events of a kind, each with the time of its line."""
        parsed = ((moment, events.parse(text)) for moment, text in self.timed_lines(rank))
        return [(moment, event) for moment, event in parsed if event and event.kind == kind]

    def epoch(self) -> int:
        """Return the last epoch of the chief's pod; 0 for none."""
        found = self.events("epoch")
        return found[-1].integer("epoch") if found else 0

    def reach(self, epoch: int, timeout: float = 120) -> int:
        """Wait until that epoch is reported; the job must not end before."""

        def reached() -> int:
            assert not self.ended(), f"{self.name} ended too soon: {self.log()[-500:]}"
            found = self.epoch()
            return found if found >= epoch else 0

        return until(reached, timeout, f"epoch {epoch} of {self.name}")

    def messages(self) -> list[str]:
        """Return the termination messages in its pods' statuses."""
        found = []
        for pod in self.pods():
            for status in pod["status"].get("containerStatuses", []):
                for state in (status.get("state", {}), status.get("lastState", {})):
                    found.append(state.get("terminated", {}).get("message", ""))
        return [message for message in found if message]

    def delete(self) -> None:
        """Delete it, and wait until its pods are gone."""
        kubectl("delete", self.engine.kind, self.name, "--ignore-not-found")
        until(lambda: not self.pods(), 60, f"the end of {self.name}'s pods")


def parse_events(text: str, kind: str) -> list[Event]:
    """Return the events of a kind in the output of a program or pod."""
    parsed = map(events.parse, text.splitlines())
    return [event for event in parsed if event and event.kind == kind]


def start(name: str, *settings: str) -> Job:
    """Apply the output of `launch render` for these settings with kubectl: a TFJob by default."""
    done = launch("render", f"RUN={name}", *settings)
    assert done.returncode == 0, done.stderr
    # The client may have applied shared objects before, with other settings.
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=done.stdout)
    given = dict(word.split("=", 1) for word in settings)
    return Job(name, given.get("JOB_API", "tfjob"))


def evict(pod: str) -> None:
    """Evict a pod, as the drain of a node does."""
    place = json.loads(kubectl("get", "pod", pod, "-o", "json"))["metadata"]["namespace"]
    words, given = eviction(pod, place)
    kubectl(*words, given=given)


def processes(pod: str) -> list[int]:
    """Return the pod's processes on this machine; none if its node is another machine."""
    uid = json.loads(kubectl("get", "pod", pod, "-o", "json"))["metadata"]["uid"]
    return node.processes(uid)


def kill(pod: str) -> bool:
    """Send SIGKILL to the pod's program; return False if its node is another machine."""
    pids = processes(pod)
    node.send(pids, signal.SIGKILL)
    return bool(pids)


def run_out_of_memory(pod: str) -> None:
    """Allocate the container's memory until the kernel kills its first process."""
    kubectl("exec", pod, "--", "python", "-c", ALLOCATE, check=False)
