"""`make plan SCALING=1 TARGET=k8s`: step benchmarks as TFJobs, which are deleted afterwards."""

import csv
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import in_
from tests.support.patience import seconds

SMALL = ("SCALING=1", "QUICK=1", "QUBITS=8", "BATCH=64", "WORKERS=2")


@pytest.fixture
def place(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    with places.namespace(places.ending(request.node.name)) as name:
        yield name


def scaling(place: str, storage: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`make plan SCALING=1 TARGET=k8s`."""
    return subprocess.run(
        ["make", "plan", "TARGET=k8s", f"STORAGE={storage}", *words, in_(place)],
        cwd=kube.ROOT, env=kube.patient(), capture_output=True, text=True, timeout=seconds(600),
        check=False,
    )  # fmt: skip


def left(place: str) -> str:
    """Return the objects in the namespace that a benchmark could have left."""
    return kube.kubectl("get", "tfjobs,pods,netpol,configmaps", "--namespace", place, "-o", "name")


def rows(storage: Path) -> list[dict[str, str]]:
    (folder,) = storage.glob("scaling_*")
    with (folder / "scaling.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.nightly  # the next test has the pods, and test_scaling.py the measurement
def test_two_pods_are_measured_and_deleted(place: str, tmp_path: Path, measured) -> None:
    """On one node, two workers that have as many threads as there are cores are reported."""
    nodes = kube.get("nodes")["items"]
    threads = max(int(node["status"]["capacity"]["cpu"]) for node in nodes)
    done = scaling(place, tmp_path, *SMALL, f"THREADS={threads}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 workers in the cluster, 8 measurements" in done.stdout
    assert "2 workers Running" in done.stdout
    assert "8/8" in done.stdout
    assert "grpc_server_lib" not in done.stdout, "TensorFlow's own lines are not shown"
    one, two = rows(tmp_path)
    assert (one["workers"], two["workers"], two["batch"]) == ("1", "2", "64")
    assert float(two["efficiency"]) > 0  # how much is for a machine with nothing else to do
    assert len(two["cpu_of_each_worker"].split()) == 2
    measured(f"benchmark pods: efficiency {two['efficiency']} at 8 qubits, batch 64, 2 workers")
    kept = [name for name in left(place).split() if "kube-root-ca" not in name]
    assert not kept
    if len(nodes) > 1:
        return  # they may have cores for all
    assert (one["more_workers_than_cores"], two["more_workers_than_cores"]) == ("false", "true")
    assert two["limit"] == "more workers than cores"
    (report,) = tmp_path.glob("scaling_*/report.md")
    assert f"**There are {threads} cores for 2 workers of {threads} threads" in report.read_text()


def test_stopped_benchmark_leaves_nothing(place: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [kube.ROOT / ".venv/bin/python", "-m", "planning", "target=k8s",
         f"storage={tmp_path}", *SMALL, in_(place)],
        cwd=kube.ROOT, env=kube.patient(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as client:  # fmt: skip
        kube.until(lambda: "tfjob" in left(place), 60, "a benchmark job")
        client.send_signal(signal.SIGTERM)
        output, _ = client.communicate(timeout=seconds(60))
    assert client.returncode == 143, output
    kube.until(lambda: "benchmark" not in left(place), 90, "the job's end")


def test_missing_namespace_is_one_sentence(cluster: str, tmp_path: Path) -> None:
    done = scaling("qfleet-is-not-there", tmp_path, *SMALL)
    assert done.returncode == 2
    (sentence,) = [one for one in done.stderr.splitlines() if one.startswith("qfleet: ")]
    assert "qfleet-is-not-there" in sentence
    assert "Traceback" not in done.stderr
