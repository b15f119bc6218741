"""A study whose trials are jobs of a real cluster."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import in_
from tests.support.patience import seconds

TRIALS = (
    "NAME=s", "SEEDS=0,1", "MODEL=qcnn", "QUBITS=4", "EPOCHS=2", "INITIALIZATIONS=1",
    "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=20", "TEST_EXAMPLES=40",
)  # fmt: skip


@pytest.fixture
def place(cluster: str) -> Iterator[str]:
    """A namespace for the study."""
    with places.namespace("studies") as name:
        yield name


def start(place: str) -> subprocess.Popen[str]:
    """Start `make study TARGET=k8s`."""
    return subprocess.Popen(
        [sys.executable, "-m", "studies", "TARGET=k8s", in_(place), *TRIALS],
        cwd=kube.ROOT, env=kube.patient(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def jobs(place: str) -> dict[str, str]:
    """Return the uid of each training job by name."""
    columns = "custom-columns=NAME:.metadata.name,UID:.metadata.uid"
    lines = kube.kubectl("get", "tfjobs", "--no-headers", "-o", columns, "--namespace", place)
    return dict(line.split() for line in lines.splitlines())


def test_killed_study_follows_its_jobs(place: str) -> None:
    """No trial is submitted twice: the jobs are those of the first start."""
    first = start(place)
    before = kube.until(lambda: jobs(place), 120, "a job of the study")
    first.kill()
    first.communicate()
    before = jobs(place)
    second = start(place)
    output, _ = second.communicate(timeout=seconds(200))
    assert second.returncode == 0, output
    assert output.count(": finished") == 2
    after = jobs(place)
    assert set(after) == {"qfleet-s-0000", "qfleet-s-0001"}
    assert before.items() <= after.items()
