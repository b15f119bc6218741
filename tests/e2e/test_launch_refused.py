"""The client on a real cluster with a problem: one sentence, within seconds."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import SMALL, Checkout, in_, refused
from tests.support.ports import own_port

READ = {"verbs": ["get", "list", "watch"]}
ALL = {"apiGroups": ["*"], "resources": ["*"]}


@pytest.fixture(scope="module")
def checkout(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with overlays that break something."""
    return places.checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def empty(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test."""
    with places.namespace(places.ending(request.node.name)) as name:
        yield name


# --- unreachable cluster


def test_wrong_context_lists_the_existing_ones(checkout: Checkout) -> None:
    output = refused(checkout, "list", "CONTEXT=elsewhere", seconds=10)
    there = kube.kubectl("config", "get-contexts", "--output=name").split()
    assert "CONTEXT=elsewhere is not a context" in output
    assert all(name in output for name in there)


def test_missing_kubeconfig(checkout: Checkout, tmp_path: Path) -> None:
    output = refused(checkout, "list", KUBECONFIG=str(tmp_path / "none"), seconds=10)
    assert "there is no kubeconfig" in output
    assert "make cluster" in output


def test_missing_kubectl(checkout: Checkout, tmp_path: Path) -> None:
    output = refused(checkout, "list", PATH=str(tmp_path), seconds=10)
    assert "there is no kubectl" in output


def test_server_that_is_down(checkout: Checkout, tmp_path: Path) -> None:
    config = places.at(f"https://127.0.0.1:{own_port()}", tmp_path)
    output = refused(checkout, "run", KUBECONFIG=config, seconds=15)
    assert "can't be reached (" in output
    assert "refused" in output
    assert "CONTEXT" in output


def test_server_that_never_answers(checkout: Checkout, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        busy = [socket.socket() for _ in range(3)]
        for one in busy:  # fills the accept queue, so that a new connection gets no answer
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        config = places.at(f"http://127.0.0.1:{server.getsockname()[1]}", tmp_path)
        assert "can't be reached" in refused(checkout, "list", KUBECONFIG=config, seconds=30)
        for one in busy:
            one.close()


def test_missing_namespace(checkout: Checkout) -> None:
    for command in ("run", "list"):
        output = refused(checkout, command, in_("nowhere-at-all"), seconds=15)
        assert "kubectl create namespace nowhere-at-all" in output


# --- refused by the cluster


def test_user_without_permissions(checkout: Checkout, empty: str, tmp_path: Path) -> None:
    config = places.restricted_user(empty, tmp_path)
    output = refused(checkout, "list", in_(empty), KUBECONFIG=config, seconds=15)
    assert f"may not list tfjobs.kubeflow.org in namespace {empty}" in output
    assert "kubectl auth can-i list" in output


def test_user_with_read_permissions(checkout: Checkout, empty: str, tmp_path: Path) -> None:
    config = places.restricted_user(empty, tmp_path, {**ALL, **READ})
    output = refused(checkout, "run", *SMALL, in_(empty), KUBECONFIG=config, seconds=30)
    assert f"may not patch serviceaccounts in namespace {empty}" in output
    assert checkout.launch("list", in_(empty), KUBECONFIG=config).returncode == 0


def test_controller_that_is_not_installed(checkout: Checkout, tmp_path: Path) -> None:
    with places.without_groups("kubeflow.org", "jobset.x-k8s.io") as server:
        config = places.at(server, tmp_path)
        for words, kinds in (((), "TFJob or JobSet"), (("JOB_API=tfjob",), "TFJob")):
            output = refused(checkout, "run", *words, in_("default"), KUBECONFIG=config, seconds=20)
            assert f"does not serve {kinds}" in output
            assert "kubectl apply --server-side" in output


def test_auto_takes_what_the_cluster_has(checkout: Checkout, empty: str, tmp_path: Path) -> None:
    with places.without_groups("kubeflow.org") as server:
        config = places.at(server, tmp_path)
        done = checkout.launch("run", *SMALL, "--dry-run", in_(empty), KUBECONFIG=config)
    assert "in a JobSet (JOB_API=auto)" in done.stdout + done.stderr


def test_quota_on_pods(checkout: Checkout, empty: str) -> None:
    kube.kubectl("create", "quota", "small", "--hard=pods=1", "--namespace", empty)
    output = refused(checkout, "run", *SMALL, in_(empty), seconds=30)
    assert "quota small of the namespace" in output
    assert "pods=1" in output


def test_quota_on_jobs(checkout: Checkout, empty: str) -> None:
    kind = "count/tfjobs.kubeflow.org"
    kube.kubectl("create", "quota", "none", f"--hard={kind}=0", "--namespace", empty)
    words = ("get", "quota", "none", "-o", "jsonpath={.status.hard}", "--namespace", empty)
    kube.until(lambda: kind in kube.kubectl(*words), 60, "the quota in force")
    assert "quota none of the namespace" in refused(checkout, "run", *SMALL, in_(empty))


def test_pod_that_violates_the_security_standard(checkout: Checkout, empty: str) -> None:
    kube.kubectl("label", "namespace", empty, "pod-security.kubernetes.io/enforce=restricted")
    output = refused(checkout, "run", *SMALL, "OVERLAY=privileged", in_(empty), seconds=30)
    assert "Pod Security Standard restricted" in output
    assert "privileged" in output


def test_missing_priority_class(checkout: Checkout, empty: str) -> None:
    output = refused(checkout, "run", *SMALL, "PRIORITY_CLASS=nowhere", in_(empty), seconds=30)
    assert "PRIORITY_CLASS=nowhere does not exist" in output


# --- admitted, but never started


def test_image_that_can_not_be_pulled(checkout: Checkout, empty: str) -> None:
    image = "registry.invalid/qfleet"
    output = refused(checkout, "run", *SMALL, f"IMAGE={image}", in_(empty))
    assert f"can't pull its image {image}-worker:" in output
    assert "make push IMAGE=registry/name" in output
    assert "make delete-training RUN=qcnn" in output


def test_pod_that_is_too_large_for_all_nodes(checkout: Checkout, empty: str) -> None:
    words = ("OVERLAY=huge", "RENDEZVOUS_TIMEOUT=5", in_(empty))
    output = refused(checkout, "run", *SMALL, *words, seconds=40)
    assert "no node has enough cpu (requested: 64): lower CPU" in output


def test_pod_with_unknown_node_labels(checkout: Checkout, empty: str) -> None:
    words = ("OVERLAY=selecting", "RENDEZVOUS_TIMEOUT=5", in_(empty))
    output = refused(checkout, "run", *SMALL, *words, seconds=40)
    assert "the labels that the overlay requires: qfleet-test/nowhere=true" in output
    # It has not started, so the next job replaces it without confirmation.
    started = checkout.start("run", *SMALL, "OVERLAY=huge", in_(empty))
    with started:
        started.wait_for("job qfleet-qcnn has not started yet; recreating it")
        started.wait_for("no node has enough cpu")
        assert started.interrupt() == 130


def test_missing_config_map(checkout: Checkout, empty: str) -> None:
    output = refused(checkout, "run", *SMALL, "OVERLAY=nameless", in_(empty))
    assert "can't be created" in output
    assert "nowhere" in output


def test_command_that_is_not_in_the_image(checkout: Checkout, empty: str) -> None:
    output = refused(checkout, "run", *SMALL, "OVERLAY=wordless", in_(empty))
    assert "can't be started from image" in output
    assert "no-such-program" in output


def test_too_little_memory_is_reported_at_restart(checkout: Checkout, empty: str) -> None:
    with checkout.start("run", *SMALL, "OVERLAY=hungry", in_(empty)) as started:
        started.wait_for("exceeded its memory limit of 64Mi and was killed (raise MEMORY)")
        assert started.interrupt() == 130
    assert "; restarting all workers" in started.output


# --- disturbs all other tests


@pytest.mark.nightly  # nothing else may use the cluster meanwhile
def test_operator_that_is_not_running(whole_cluster: None, checkout: Checkout, empty: str) -> None:
    with places.without_operator():
        output = refused(checkout, "run", *SMALL, in_(empty), seconds=45)
        assert "is installed but not running" in output
        with places.without_webhook():
            output = refused(checkout, "run", *SMALL, in_(empty), seconds=60)
        assert "nothing has happened to the job" in output
        assert "kubectl get pods -n kubeflow" in output
