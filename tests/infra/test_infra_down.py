"""infra-down deletes only resources of infra-up, after a confirmation."""

import os
import pty
from pathlib import Path
from typing import Any

import pytest

from tests.infra.checkout import Checkout

KINDS = ("clusters", "pools", "buckets", "repositories", "accounts")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cloud that infra-up leaves when a run was trained."""
    checkout = Checkout(tmp_path_factory.mktemp("made"))
    checkout.up()
    cloud = checkout.cloud
    cloud["buckets"][0]["objects"] = {"runs/qcnn/result.json": 40, "runs/qcnn-2/result.json": 2}
    return cloud


@pytest.fixture
def checkout(tmp_path: Path, made: dict[str, Any]) -> Checkout:
    checkout = Checkout(tmp_path)
    checkout.cloud = made
    return checkout


def left(checkout: Checkout) -> dict[str, Any]:
    return {kind: checkout.cloud[kind] for kind in KINDS if checkout.cloud[kind]}


def test_destroys_all_that_was_made(checkout: Checkout) -> None:
    done = checkout.down("YES=1")

    assert left(checkout) == {}
    assert not [entry for entry in checkout.cloud["policies"] if entry[0] == "my-project"]
    assert "with 42 bytes: gs://my-project-qfleet/runs/qcnn/, gs://" in done.stdout
    assert "my-project has no resources of infra-up" in checkout.down("YES=1").stdout
    assert checkout.changes() == []


def test_destroys_nothing_unasked(checkout: Checkout, made: dict[str, Any]) -> None:
    done = checkout.down(code=2)

    assert "no terminal for the confirmation" in done.stderr
    assert "make infra-down YES=1" in done.stderr
    assert checkout.changes() == []


def test_a_dry_run_prints_what_a_run_does(checkout: Checkout) -> None:
    printed = checkout.down("DRY_RUN=1").stdout.splitlines()
    assert checkout.changes() == []

    checkout.down("YES=1")
    assert [" ".join(call) for call in checkout.changes()] == [
        line for line in printed if line.startswith("gcloud")
    ]


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("y", 2), ("", 2)])
def test_asks_at_a_terminal(checkout: Checkout, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    done = checkout.down(code=code, stdin=theirs)
    os.close(ours)
    os.close(theirs)

    assert "Type yes" in done.stdout
    assert bool(left(checkout)) == (code != 0)


def test_goes_on_from_where_it_was_cut_short(checkout: Checkout, made: dict[str, Any]) -> None:
    checkout.down("YES=1")
    calls = checkout.changes()
    checkout.cloud = made
    for call in calls:
        checkout.fault(" ".join(call), late=True)
        assert "it resumes here" in checkout.down("YES=1", code=1).stderr
    assert "my-project has no resources of infra-up" in checkout.down("YES=1").stdout

    assert left(checkout) == {}
    assert not [entry for entry in checkout.cloud["policies"] if entry[0] == "my-project"]


def test_leaves_what_it_did_not_make(checkout: Checkout) -> None:
    cloud = checkout.cloud
    theirs: dict[str, Any] = {
        "clusters": [cloud["clusters"][0] | {"resourceLabels": {"managed-by": "terraform"}}],
        "pools": [],
        "buckets": [cloud["buckets"][0] | {"labels": {}}],
        "repositories": [cloud["repositories"][0] | {"labels": {}}],
        "accounts": [one | {"description": "theirs"} for one in cloud["accounts"]],
    }
    checkout.put(**theirs)
    done = checkout.down("YES=1")

    assert checkout.changes() == []
    assert left(checkout) == {kind: found for kind, found in theirs.items() if found}
    assert "the bucket gs://my-project-qfleet, which infra-up did not create" in done.stdout


def test_leaves_what_has_another_name(checkout: Checkout) -> None:
    checkout.down("YES=1", "NAME=another")

    assert checkout.changes() == []


def test_leaves_what_was_adopted_and_takes_its_own_out_of_it(
    checkout: Checkout, made: dict[str, Any]
) -> None:
    shared = made["clusters"][0] | {"name": "shared", "resourceLabels": {}}
    bucket = {"name": "data", "labels": {}, "objects": {"runs/a/b": 7}}
    checkout.put(clusters=[shared], buckets=[bucket], pools=[])
    adopt = ("ADOPT_CLUSTER=shared", "ADOPT_BUCKET=data")
    checkout.up(*adopt)
    pools = [*checkout.cloud["pools"], {"name": "theirs", "cluster": "shared", "config": {}}]
    checkout.put(pools=pools)
    done = checkout.down("YES=1", *adopt)

    assert checkout.cloud["clusters"] == [shared]
    assert checkout.cloud["buckets"] == [bucket]
    assert [pool["name"] for pool in checkout.cloud["pools"]] == ["theirs"]
    assert not [entry for entry in checkout.cloud["policies"] if entry[0] == "gs://data"]
    assert checkout.cloud["operator"]
    assert "kubectl delete --kustomize=" in done.stdout


def test_never_destroys_what_is_adopted_now_whoever_made_it(checkout: Checkout) -> None:
    checkout.down("YES=1", "ADOPT_CLUSTER=qfleet", "ADOPT_BUCKET=my-project-qfleet")

    assert checkout.cloud["clusters"]
    assert checkout.cloud["buckets"]


def test_an_adopted_bucket_that_is_gone_is_no_hindrance(checkout: Checkout) -> None:
    checkout.down("YES=1", "ADOPT_BUCKET=gone")

    assert not checkout.cloud["clusters"]


def test_a_failed_look_destroys_nothing(checkout: Checkout) -> None:
    checkout.fault("storage buckets list")
    checkout.down("YES=1", code=1)

    assert checkout.changes() == []
