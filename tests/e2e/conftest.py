"""A namespace for all end-to-end tests, which is dumped when one fails."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common import storage
from tests.e2e import client_environments as places
from tests.e2e import kube

STORAGE = "gs://qfleet/runs"
LONGEST = (
    "faults", "qcnn", "launch", "workers", "network_policies", "inference_parallel", "engines",
    "scaling",
)  # fmt: skip
"""Files that processes take first, in this order, so that short ones are the last to end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests a longer timeout than unit tests, and the longest files the first places."""
    for item in items:
        if "tests/e2e" in item.path.as_posix() and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(420))
    order = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def find_cluster() -> None:
    """Set KUBECONFIG to that of `make cluster` unless given; end if no cluster answers."""
    made = Path.home() / ".cache/qfleet-cluster"
    if not os.environ.get("KUBECONFIG"):  # kubectl would use any current context
        if not (made / "kubeconfig").exists():
            pytest.exit(
                "no cluster is given: `make cluster` starts one, KUBECONFIG names another",
                returncode=2,
            )
        os.environ["KUBECONFIG"] = str(made / "kubeconfig")
    if not shutil.which("kubectl"):
        os.environ["PATH"] += f":{made / 'bin'}"
    try:
        done = subprocess.run(
            ["kubectl", "get", "crd", "tfjobs.kubeflow.org"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.exit("there is no kubectl: `make cluster` brings one", returncode=2)
    if done.returncode:
        reason = done.stderr.strip()
        pytest.exit(f"no cluster with the operator answers ({reason}): make cluster", returncode=2)


def pytest_sessionstart(session: pytest.Session) -> None:
    """End without a cluster before xdist starts processes, whose last messages are lost."""
    if not hasattr(session.config, "workerinput"):
        find_cluster()


@pytest.fixture(scope="session")
def cluster() -> str:
    """The cluster of KUBECONFIG, or of `make cluster`, with the operator; its version."""
    find_cluster()
    return kube.kubectl("version", "-o", "json")


@pytest.fixture
def whole_cluster(cluster: str) -> None:
    """The cluster, for a test that disturbs all others."""
    if not kube.is_own_cluster() and os.environ.get("E2E_ALONE") != "1":
        pytest.skip("it stops the operator, and `make cluster` did not make this one: E2E_ALONE=1")


@pytest.fixture(scope="session")
def namespace(cluster: str) -> Iterator[str]:
    """A namespace for these tests, the current one of KUBECONFIG while they run."""
    with kube.namespace() as name:
        places.there.append(name)
        yield name
        places.there.remove(name)


@pytest.fixture(scope="session")
def cluster_storage(namespace: str) -> None:
    """The storage of overlay `local`, and the settings of qcnn.yaml, without its job."""
    documents = (kube.ROOT / "k8s/qcnn.yaml").read_text().split("\n---\n")
    kept = [text for text in documents if "\nkind: TFJob\n" not in f"\n{text}"]
    assert len(kept) == len(documents) - 1
    kube.kubectl("apply", "--server-side", "-f", "-", given="\n---\n".join(kept))
    kube.kubectl("rollout", "status", "deployment/qfleet-storage", timeout=120)


@pytest.fixture
def root(cluster_storage: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[storage.StoragePath]:
    """STORAGE in the cluster, as this process reads it."""
    with kube.forwarded("service/qfleet-storage", 9023) as port:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        yield storage.path(STORAGE)


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Record a figure; all figures are printed at the end."""
    return lambda line: record_property("measured", line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the recorded figures."""
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "measured"
    ]
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator:
    """Add pods, events and logs to the report of a failed test."""
    report = yield
    if report.failed:
        report.sections += [(f"namespace {name}", dump(name)) for name in places.there]
    return report


def dump(namespace: str) -> str:
    """Return pods, events, jobs and the ends of all logs."""

    def output(*words: str) -> str:
        return kube.kubectl(*words, f"--namespace={namespace}", check=False)

    parts = [
        output("get", "pods,tfjobs,jobsets,jobs", "-o", "wide"),
        output("get", "events", "--sort-by=.lastTimestamp")[-6000:],
    ]
    for pod in output("get", "pods", "-o", "name").split():
        for words in (["--tail=40"], ["--tail=40", "--previous"]):
            if log := output("logs", pod, *words):
                parts.append(f"--- {pod} {words[-1]}\n{log}")
    return "\n".join(parts)
