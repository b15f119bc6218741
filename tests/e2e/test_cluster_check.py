"""`qfleet cluster check` on a real cluster: what it reports, runs and leaves."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import SMALL, in_

PARTS = ("server", "job APIs", "job", "permissions", "names", "queue", "quota", "nodes", "storage")


@pytest.fixture
def empty(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test."""
    with places.namespace(places.ending(request.node.name)) as name:
        yield name


def findings(place: str, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code, and the state and the text of each part."""
    done = kube.launch("check", *SMALL, in_(place), *words, QFLEET_EVENTS="stdout")
    assert "Traceback" not in done.stderr
    events = kube.parse_events(done.stdout, "check")
    return done.returncode, {
        str(one.fields["part"]): (str(one.fields["state"]), one.message) for one in events
    }


def objects(place: str) -> str:
    return kube.kubectl("get", "all,tfjobs,jobsets,netpol,configmaps", "-n", place, "-o", "name")


def test_check_of_a_whole_cluster_finds_nothing_missing(empty: str) -> None:
    before = objects(empty)
    code, found = findings(empty)
    assert code == 0
    assert tuple(found) == PARTS
    assert {state for state, _ in found.values()} == {"ok"}, found
    assert "TFJob (kubeflow.org/v1)" in found["job APIs"][1]
    assert "JobSet" in found["job APIs"][1]
    assert objects(empty) == before


def test_probe_writes_to_storage_and_leaves_nothing(empty: str) -> None:
    code, found = findings(empty, "PROBE=1")
    assert code == 0, found
    state, text = found["pod"]
    assert state == "ok"
    assert "qfleet-worker" in text
    assert "wrote to STORAGE" in text
    kube.until(lambda: "probe" not in objects(empty), 60, "the end of the probe's pod")


def test_probe_with_a_missing_image_is_one_sentence(empty: str) -> None:
    code, found = findings(empty, "PROBE=1", "IMAGE=localhost/nowhere")
    state, text = found["pod"]
    assert (code, state) == (2, "missing")
    assert "localhost/nowhere-worker" in text
    assert "\n" not in text
    kube.until(lambda: "probe" not in objects(empty), 60, "the end of the probe's pod")


def test_check_names_a_quota_that_is_too_small(empty: str) -> None:
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
        "spec": {"hard": {"requests.cpu": "100m"}},
    }  # fmt: skip
    kube.kubectl("apply", "-n", empty, "-f", "-", given=json.dumps(quota))
    kube.until(
        lambda: "hard" in json.loads(
            kube.kubectl("get", "resourcequota", "small", "-n", empty, "-o", "json")
        )["status"],
        30, "the controller's status of the quota",
    )  # fmt: skip
    code, found = findings(empty)
    state, text = found["quota"]
    assert (code, state) == (2, "missing")
    assert "quota small" in text
    assert "requests.cpu" in text


def test_check_names_missing_rights(empty: str, tmp_path) -> None:
    config = places.restricted_user(
        empty, tmp_path, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    )
    done = kube.launch("check", *SMALL, in_(empty), KUBECONFIG=config)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = (one for one in done.stdout.splitlines() if "permissions" in one)
    assert line.startswith("--")
    assert "create" in line
