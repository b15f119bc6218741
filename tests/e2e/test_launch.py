"""The client on a real cluster."""

import re
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import storage
from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import SMALL, Checkout, in_, refused
from tests.support.ports import own_port


@pytest.fixture(scope="module")
def checkout(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with overlays that break something."""
    return places.checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def place(cluster: str) -> Iterator[str]:
    """A namespace where jobs train."""
    with places.namespace("jobs") as name:
        yield name


@pytest.fixture
def empty(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test."""
    with places.namespace(places.ending(request.node.name)) as name:
        yield name


@pytest.fixture(scope="module")
def trained(checkout: Checkout, place: str) -> str:
    """The output of `make training TARGET=k8s`."""
    return kube.output("make", "training", "TARGET=k8s", *SMALL, in_(place))


def test_dry_run_changes_nothing(checkout: Checkout, empty: str) -> None:
    done = checkout.launch("run", *SMALL, "--dry-run", in_(empty))
    assert done.returncode == 0, done.stderr
    for line in (
        "tfjob/qfleet-qcnn created (dry run)",
        "configmap/qfleet-qcnn.training created (dry run)",
    ):
        assert line in done.stdout
    assert not kube.kubectl("get", "tfjobs,pods,netpol", "--namespace", empty).strip()
    kube.kubectl(
        "apply", "--namespace", empty, "-f", "-",
        given=checkout.launch("render", *SMALL, "OVERLAY=selecting").stdout,
    )  # fmt: skip
    done = checkout.launch("run", *SMALL, "OVERLAY=selecting", "SEED=3", "--dry-run", in_(empty))
    assert "configmap/qfleet-qcnn.training configured" in done.stdout
    assert "data.QFLEET_SEED: unset -> 3" in done.stdout
    assert "service/qfleet-storage unchanged" in done.stdout
    kept = kube.kubectl(
        "get", "configmap", "qfleet-qcnn.training", "--namespace", empty, "-o", "yaml"
    )
    assert "QFLEET_SEED" not in kept


def test_run_is_followed_to_its_end(trained: str) -> None:
    for text in ("tfjob/qfleet-qcnn created", "job qfleet-qcnn Running", "'qcnn'", "epoch 3/3"):
        assert text in trained
    assert "make inference TARGET=k8s RUN=qcnn" in trained
    assert "job qfleet-qcnn Succeeded" in trained


@pytest.mark.nightly
def test_own_table_is_trained_from_the_emulator(root: storage.StoragePath, tmp_path: Path) -> None:
    rows = [f"{i % 7},{i % 2 + i % 3},{'ab'[i % 2]}" for i in range(120)]
    (tmp_path / "table.csv").write_text("\n".join(["x,y,kind", *rows]) + "\n")
    small = ["QUBITS=2", f"STORAGE={root}"]
    words = [f"DATA={tmp_path / 'table.csv'}", "LABEL_COLUMN=kind", *small]
    made = kube.output(sys.executable, "-m", "qfleet", "data", *words)
    (address,) = re.findall(r"DATA=(gs://\S+)", made)
    settings = ["MODEL=qcnn", "INITIALIZATIONS=1", "EPOCHS=3", "RUN=own-table", *small]
    printed = kube.output("make", "training", "TARGET=k8s", f"DATA={address}", *settings)
    assert "2 classes: a 60, b 60" in printed
    assert "job qfleet-own-table Succeeded" in printed


def test_finished_run_gets_the_next_number(checkout: Checkout, place: str, trained: str) -> None:
    done = checkout.launch("run", *SMALL, "--dry-run", in_(place))
    assert "run qcnn is finished: this one is qcnn-2" in done.stdout
    assert "tfjob/qfleet-qcnn-2 created (dry run)" in done.stdout


def test_run_number_without_storage_is_from_jobs(
    checkout: Checkout, place: str, trained: str, tmp_path: Path
) -> None:
    kinds = "serviceaccounts configmaps services deployments networkpolicies tfjobs pods"
    groups = ["", "apps", "networking.k8s.io", "kubeflow.org"]
    verbs = ["get", "list", "patch", "create"]
    rights = {"apiGroups": groups, "resources": kinds.split(), "verbs": verbs}
    config = places.restricted_user(place, tmp_path, rights)  # and none to pods/portforward
    done = checkout.launch("run", *SMALL, "--dry-run", in_(place), KUBECONFIG=config)
    assert done.returncode == 0, done.stderr
    assert "using the jobs in the cluster, since storage can't be read here" in done.stdout
    assert "run qcnn is finished: this one is qcnn-2" in done.stdout


def test_status_and_list_show_a_finished_job(checkout: Checkout, place: str, trained: str) -> None:
    for words in (("status",), ("status", "qcnn"), ("status", "RUN=qcnn")):
        output = checkout.launch(*words, in_(place)).stdout
        assert "job qfleet-qcnn Succeeded" in output
        rows = [line.split() for line in output.splitlines() if line[:1].isdigit()]
        assert [(row[0], row[2]) for row in rows] == [("0", "0"), ("1", "0")]
        assert "gs://qfleet/runs/qcnn" in output
    heads, row, *_ = checkout.launch("list", in_(place)).stdout.splitlines()
    assert heads.split() == ["RUN", "JOB", "PHASE", "RUNNING", "AGE"]
    assert row.split()[:4] == ["qcnn", "training", "Succeeded", "0/2"]


def test_inference_predicts_and_can_be_repeated(
    checkout: Checkout, place: str, trained: str
) -> None:
    first = checkout.launch("infer", in_(place), timeout=240)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "job qfleet-qcnn-inference Succeeded" in first.stdout
    again = checkout.launch("infer", "RUN=qcnn", in_(place), timeout=240)
    assert "job/qfleet-qcnn-inference recreated" in again.stdout
    assert again.returncode == 0, again.stdout + again.stderr
    output = refused(checkout, "infer", "RUN=nothing", in_(place))
    assert "there is no run nothing" in output
    gone = checkout.launch("delete", "inference", in_(place)).stdout
    assert "job/qfleet-qcnn-inference deleted" in gone
    assert "configmap/qfleet-qcnn.inference deleted" in gone


def test_tensorboard_is_forwarded(checkout: Checkout, place: str, trained: str) -> None:
    port = own_port()
    words = (f"PORT={port}", in_(place))
    with checkout.start("tensorboard", *words) as started:
        started.wait_for(f"http://127.0.0.1:{port}")
        runs = f"http://127.0.0.1:{port}/data/runs"
        kube.until(
            lambda: b"qcnn" in urllib.request.urlopen(runs, timeout=10).read(), 60, "the run on it"
        )
        output = refused(checkout, "tensorboard", *words, seconds=20)
        assert f"PORT={port} is in use" in output
        assert started.interrupt() == 0
    done = checkout.launch("delete", "tensorboard", in_(place))
    assert "deployment/qfleet-tensorboard deleted" in done.stdout
    assert "service/qfleet-tensorboard deleted" in done.stdout


def test_logs_are_printed_with_and_without_pods(
    checkout: Checkout, place: str, trained: str
) -> None:
    living = checkout.launch("logs", "qcnn", in_(place)).stdout
    assert "worker 0 | epoch 3/3" in living
    kube.kubectl("delete", "tfjob", "qfleet-qcnn", "--namespace", place)
    label = f"--selector={kube.JOB}=qfleet-qcnn"
    kube.kubectl("wait", "--for=delete", "pod", label, "--namespace", place, timeout=60)
    kept = checkout.launch("logs", "qcnn", in_(place))
    assert kept.returncode == 0, kept.stderr
    for worker in (0, 1):
        assert f"== worker {worker}, attempt 1" in kept.stdout
    assert "epoch 3/3" in kept.stdout
    output = checkout.launch("status", "qcnn", in_(place)).stdout
    assert "there is no job of run qcnn" in output
    assert "run qcnn is finished: test mse" in output
    done = checkout.launch("delete", "training", "qcnn", in_(place))
    assert "configmap/qfleet-qcnn.training deleted" in done.stdout


def test_ctrl_c_keeps_the_job_and_run_follows_it_again(checkout: Checkout, place: str) -> None:
    words = (
        "MODEL=qcnn",
        "RUN=long",
        "QUBITS=4",
        "INITIALIZATIONS=1",
        "TRAIN_EXAMPLES=2000",
        in_(place),
    )
    with checkout.start("run", *words, "EPOCHS=4000") as started:
        started.wait_for("epoch 2/4000")
        assert started.interrupt() == 130
    assert "make training TARGET=k8s RUN=long" in started.output
    with checkout.start("run", *words, "EPOCHS=4000") as started:
        started.wait_for("job qfleet-long already exists (Running); following it")
        started.wait_for("/4000  ")
        kube.kubectl("delete", "pod", "qfleet-long-worker-0", "--wait=false", "--namespace", place)
        started.wait_for("worker 0 was deleted; restarting all workers")
        started.wait_for("(attempt ")  # 3 where a worker needs two starts on a busy machine
        started.interrupt()
    other = checkout.start("run", *words, "EPOCHS=4001", "WORKERS=1")
    with other:
        other.wait_for("EPOCHS=4000 (now 4001), WORKERS=2 (now 1)")
        assert other.end(signal.SIGTERM) == 128 + signal.SIGTERM
    output = checkout.launch("run", *words, "EPOCHS=4001", "--dry-run").stdout
    assert "EPOCHS=4000 (now 4001)" in output
    assert "nothing would change" in output
    rows = checkout.launch("list", in_(place)).stdout.splitlines()
    assert ["long", "training", "Running"] in [row.split()[:3] for row in rows]
    with checkout.start("logs", "long", in_(place)) as started:
        started.wait_for("worker 0 | epoch")
        assert started.interrupt() == 130
    output = checkout.launch("stop", "long", in_(place)).stdout
    assert "tfjob/qfleet-long deleted" in output
    assert not kube.kubectl(
        "get", "pods", f"--selector={kube.JOB}=qfleet-long", "--namespace", place
    ).strip()
    output = refused(checkout, "stop", "long", in_(place))
    assert "there is no job of run long" in output


def test_failed_job_ends_the_client_and_is_recreated(checkout: Checkout, place: str) -> None:
    words = ("run", "RUN=mended", *SMALL, in_(place))
    done = checkout.launch(*words, "OVERLAY=mistaken")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "job qfleet-mended Failed: worker " in done.stderr
    assert "QFLEET_FILTERS=99 is not allowed" in done.stderr
    assert "QFLEET_FILTERS=99 is not allowed" in checkout.launch("status", in_(place)).stdout
    done = checkout.launch(*words, timeout=240)
    assert "tfjob/qfleet-mended recreated" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
