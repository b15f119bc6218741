"""The thin client on a real cluster where something is wrong: one sentence, within seconds."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import SMALL, Checkout, in_, refused

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


# --- no way to the cluster


def test_a_wrong_context_is_answered_with_those_there_are(checkout: Checkout) -> None:
    said = refused(checkout, "list", "CONTEXT=elsewhere", seconds=10)
    there = kube.kubectl("config", "get-contexts", "--output=name").split()
    assert "CONTEXT=elsewhere is not a context" in said
    assert all(name in said for name in there)


def test_no_kubeconfig(checkout: Checkout, tmp_path: Path) -> None:
    said = refused(checkout, "list", KUBECONFIG=str(tmp_path / "none"), seconds=10)
    assert "there is no kubeconfig" in said
    assert "make cluster" in said


def test_no_kubectl(checkout: Checkout, tmp_path: Path) -> None:
    said = refused(checkout, "list", PATH=str(tmp_path), seconds=10)
    assert "there is no kubectl" in said


def test_a_server_that_is_down(checkout: Checkout, tmp_path: Path) -> None:
    config = places.at(f"https://127.0.0.1:{kube.free_port()}", tmp_path)
    said = refused(checkout, "run", KUBECONFIG=config, seconds=15)
    assert "can't be reached (" in said
    assert "refused" in said
    assert "CONTEXT" in said


def test_a_server_that_never_answers(checkout: Checkout, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        busy = [socket.socket() for _ in range(3)]
        for one in busy:  # the queue of those who wait is full, so a new one gets no answer
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        config = places.at(f"http://127.0.0.1:{server.getsockname()[1]}", tmp_path)
        assert "can't be reached" in refused(checkout, "list", KUBECONFIG=config, seconds=30)
        for one in busy:
            one.close()


def test_a_namespace_that_is_missing(checkout: Checkout) -> None:
    for verb in ("run", "list"):
        said = refused(checkout, verb, in_("nowhere-at-all"), seconds=15)
        assert "kubectl create namespace nowhere-at-all" in said


# --- refused by the cluster


def test_somebody_without_rights(checkout: Checkout, empty: str, tmp_path: Path) -> None:
    config = places.person(empty, tmp_path)
    said = refused(checkout, "list", in_(empty), KUBECONFIG=config, seconds=15)
    assert f"may not list tfjobs.kubeflow.org in namespace {empty}" in said
    assert "ask whoever runs the cluster" in said


def test_somebody_who_may_only_look(checkout: Checkout, empty: str, tmp_path: Path) -> None:
    config = places.person(empty, tmp_path, {**ALL, **READ})
    said = refused(checkout, "run", *SMALL, in_(empty), KUBECONFIG=config, seconds=30)
    assert f"may not patch serviceaccounts in namespace {empty}" in said
    assert checkout.launch("list", in_(empty), KUBECONFIG=config).returncode == 0


def test_no_operator_was_ever_installed(checkout: Checkout, tmp_path: Path) -> None:
    with places.without_tfjob() as server:
        config = places.at(server, tmp_path)
        said = refused(checkout, "run", in_("default"), KUBECONFIG=config, seconds=20)
    assert "knows no TFJob" in said
    assert "install it" in said


def test_a_quota_on_pods(checkout: Checkout, empty: str) -> None:
    kube.kubectl("create", "quota", "small", "--hard=pods=1", "--namespace", empty)
    said = refused(checkout, "run", *SMALL, in_(empty), seconds=30)
    assert "quota small of the namespace leaves no room" in said
    assert "pods=1" in said


def test_a_quota_on_jobs(checkout: Checkout, empty: str) -> None:
    hard = "--hard=count/tfjobs.kubeflow.org=0"
    kube.kubectl("create", "quota", "none", hard, "--namespace", empty)
    time.sleep(2)  # the quota's controller has to see a new kind
    assert "quota none of the namespace" in refused(checkout, "run", *SMALL, in_(empty))


def test_a_pod_that_breaks_the_security_standard(checkout: Checkout, empty: str) -> None:
    kube.kubectl("label", "namespace", empty, "pod-security.kubernetes.io/enforce=restricted")
    said = refused(checkout, "run", *SMALL, "OVERLAY=privileged", in_(empty), seconds=30)
    assert "Pod Security Standard restricted" in said
    assert "privileged" in said


def test_a_priority_class_that_is_missing(checkout: Checkout, empty: str) -> None:
    said = refused(checkout, "run", *SMALL, "PRIORITY_CLASS=nowhere", in_(empty), seconds=30)
    assert "PRIORITY_CLASS=nowhere is not in this cluster" in said


# --- let in, but never started


def test_an_image_that_can_not_be_had(checkout: Checkout, empty: str) -> None:
    image = "registry.invalid/qfleet"
    said = refused(checkout, "run", *SMALL, f"IMAGE={image}", in_(empty))
    assert f"can't get its image {image}-worker:" in said
    assert "make push IMAGE=registry/name" in said
    assert "make delete-training RUN=qcnn" in said


def test_a_pod_that_no_node_has_room_for(checkout: Checkout, empty: str) -> None:
    words = ("OVERLAY=huge", "RENDEZVOUS_TIMEOUT=5", in_(empty))
    said = refused(checkout, "run", *SMALL, *words, seconds=40)
    assert "no node has cpu (it asks for 64): lower CPU" in said


def test_a_pod_that_no_node_has_the_labels_for(checkout: Checkout, empty: str) -> None:
    words = ("OVERLAY=selecting", "RENDEZVOUS_TIMEOUT=5", in_(empty))
    said = refused(checkout, "run", *SMALL, *words, seconds=40)
    assert "the labels that the overlay asks for (qfleet-test/nowhere=true)" in said
    # Nothing of it has run, so the next one takes its place without being asked.
    started = checkout.start("run", *SMALL, "OVERLAY=huge", in_(empty))
    with started:
        started.says("job qcnn has not started yet and is made anew")
        started.says("no node has cpu")
        assert started.interrupt() == 130


def test_a_config_map_that_is_missing(checkout: Checkout, empty: str) -> None:
    said = refused(checkout, "run", *SMALL, "OVERLAY=nameless", in_(empty))
    assert "can't be made" in said
    assert "nowhere" in said


def test_a_command_that_is_not_in_the_image(checkout: Checkout, empty: str) -> None:
    said = refused(checkout, "run", *SMALL, "OVERLAY=wordless", in_(empty))
    assert "can't be started from image" in said
    assert "no-such-program" in said


def test_too_little_memory_is_said_while_the_gang_tries_again(
    checkout: Checkout, empty: str
) -> None:
    with checkout.start("run", *SMALL, "OVERLAY=hungry", in_(empty)) as started:
        started.says("used more than its memory of 64Mi and was killed (raise MEMORY)")
        assert started.interrupt() == 130
    assert "; the gang starts again" in started.said


# --- it takes the operator away from everybody


@pytest.mark.alone
def test_an_operator_that_does_not_run(whole_cluster: None, checkout: Checkout, empty: str) -> None:
    with places.without_operator():
        said = refused(checkout, "run", *SMALL, in_(empty), seconds=45)
        assert "is installed in this cluster but does not run" in said
        with places.without_webhook():
            said = refused(checkout, "run", *SMALL, in_(empty), seconds=60)
        assert "nothing has happened to the job" in said
        assert "kubectl get pods -n kubeflow" in said
