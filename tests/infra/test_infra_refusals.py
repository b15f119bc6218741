"""Refusals of infra-up: invalid parameters and missing requirements."""

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.infra.checkout import Checkout

ODD = [
    "$(touch pwned)",
    "my-project\ntouch pwned",
    "a b",
    "*",
    "`touch pwned`",
    "x'; touch pwned; '",
    'x"; touch pwned; "',
    "x & touch pwned",
    "-project",
    "--flag=x",
    "my-project\\",
    "MY-PROJECT",
    "m\N{LATIN SMALL LETTER U WITH DIAERESIS}-project",
    "a[$(touch pwned)]",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        *product(["PROJECT"], ODD),
        *product(["NAME", "ADOPT_BUCKET", "MAX_NODES", "PRICE_DISK"], ODD[:4]),
    ],
)
def test_refuses_an_odd_value_and_never_runs_it(checkout: Checkout, name: str, odd: str) -> None:
    done = checkout.run("infra/up.sh", "PROJECT=my-project", f"{name}={odd}", code=2)

    assert done.stderr.startswith(f"qfleet: {name}=")
    assert done.stderr.count("\n") == 1
    assert checkout.calls() == []
    assert not (checkout.folder / "pwned").exists()


@pytest.mark.parametrize("odd", ["$(touch pwned)", "a b", "it's", "x\\y"])
def test_make_hands_odd_values_on_as_they_are(checkout: Checkout, odd: str) -> None:
    done = checkout.run("make", "infra-up", f"PROJECT={odd}", code=2)

    assert "must be a project's id" in done.stderr
    assert not (checkout.folder / "pwned").exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("PROJECT=$(touch pwned)", "must be a project's id"),
        ("touch pwned", "own.env:2: a line must be NAME=value"),
        ("PATH=/nowhere", "own.env:2: there is no parameter PATH"),
        ("export PROJECT=my-project", "own.env:2: there is no parameter"),
        ("ZONE=europe-west4-a", "must be a zone of us-central1"),
        ("MIN_NODES=3", "must be at most MAX_NODES"),
        ("SPOT=perhaps", "must be yes or no"),
        ("PRICES_SOURCE=\x1b[2J", "must be plain text"),
    ],
)
def test_a_file_is_parsed_and_not_run(checkout: Checkout, line: str, sentence: str) -> None:
    (checkout.folder / "infra/own.env").write_text(f"PROJECT=my-project\n{line}\n")
    done = checkout.run("infra/up.sh", code=2)

    assert sentence in done.stderr
    assert checkout.calls() == []
    assert not (checkout.folder / "pwned").exists()


def test_precedence_is_command_line_file_defaults(
    checkout: Checkout,
) -> None:
    own = b"# other\r\n\r\nPROJECT= my-project \r\nMACHINE=n2-standard-8\nDISK=70"
    (checkout.folder / "infra/own.env").write_bytes(own)
    done = checkout.run("infra/up.sh", "DRY_RUN=1", "DISK=80")

    (pool,) = [line for line in done.stdout.splitlines() if "node-pools create" in line]
    assert "--machine-type=n2-standard-8" in pool
    assert "--disk-size=80" in pool
    assert "--max-nodes=2" in pool
    assert "--project=my-project " in pool


def test_another_file_stands_in_for_the_persons(checkout: Checkout) -> None:
    (checkout.folder / "infra/own.env").write_text("PROJECT=one-project")
    (checkout.folder / "other file").write_text("PROJECT=two-project")
    done = checkout.run("infra/up.sh", "PARAMETERS=other file", "DRY_RUN=1")

    assert "two-project" in done.stdout
    assert "one-project" not in done.stdout
    assert "not a readable file" in checkout.run("infra/up.sh", "PARAMETERS=x", code=2).stderr


def test_asks_for_a_project(checkout: Checkout) -> None:
    assert "PROJECT=my-project into infra/own.env" in checkout.run("infra/up.sh", code=2).stderr


def test_adds_up_what_an_hour_costs(checkout: Checkout) -> None:
    done = checkout.up("DRY_RUN=1", "MIN_NODES=1", "MAX_NODES=3", "DISK=73")

    node, each = 0.0676, 73 * 0.10 / 730 + 0.005
    idle = 0.10 + 0.134 + node + 2 * each
    most = 0.10 + 0.134 + 3 * node + 4 * each
    (together,) = [line for line in done.stdout.splitlines() if " together " in line]
    assert together.split()[2:] == [f"{idle:.4f}", f"{most:.4f}"]
    assert "0.020 dollars per month and GB in the bucket" in done.stdout
    assert "WARNING" not in done.stdout


def test_says_when_the_prices_are_another_machines(checkout: Checkout) -> None:
    assert "WARNING" in checkout.up("DRY_RUN=1", "MACHINE=n2-standard-8").stdout
    assert "WARNING" in checkout.up("DRY_RUN=1", "SPOT=no").stdout


@pytest.mark.parametrize(
    ("cloud", "remedy"),
    [
        ({"person": ""}, "gcloud is not signed in: gcloud auth login"),
        ({"projects": []}, "gcloud projects create my-project"),
        ({"billing": False}, "gcloud billing projects link my-project"),
        (
            {"denied": ["container.clusters.create", "container.clusters.update"]},
            "gcloud projects add-iam-policy-binding my-project --member=user:ada@example.com"
            " --role=roles/container.admin",
        ),
        (
            {"person": "ci@x.iam.gserviceaccount.com", "denied": ["compute.regions.get"]},
            "--member=serviceAccount:ci@x.iam.gserviceaccount.com --role=roles/compute.viewer",
        ),
    ],
    ids=["signed out", "no project", "no billing", "no right", "no right of a robot"],
)
def test_says_what_the_person_lacks(checkout: Checkout, cloud: dict[str, Any], remedy: str) -> None:
    checkout.put(**cloud)
    done = checkout.up(code=2)

    assert remedy in done.stderr
    assert done.stderr.count("qfleet: ") == 1
    assert checkout.changes() == []


@pytest.mark.parametrize(
    ("cloud", "remedy"),
    [
        ({"networks": []}, "gcloud compute networks create default"),
        ({"machines": {"e2-standard-4": 4}}, "there is no machine type n2d-standard-4"),
        ({"quotas": {"N2D_CPUS": [8, 1]}}, "make infra-up MAX_NODES=1, or request more"),
        ({"quotas": {"CPUS": [12, 1]}}, "need 12 of the quota CPUS, but only 11 are left"),
        ({"quotas": {"PREEMPTIBLE_CPUS": [4, 0]}}, "need 8 of the quota PREEMPTIBLE_CPUS"),
        ({"quotas": {"IN_USE_ADDRESSES": [4, 2]}}, "need 3 of the quota IN_USE_ADDRESSES"),
        ({"quotas": {"SSD_TOTAL_GB": [100, 0]}}, "need 150 of the quota SSD_TOTAL_GB"),
        (
            {"everywhere": {"CPUS_ALL_REGIONS": [8, 0]}},
            "CPUS_ALL_REGIONS, but only 8 are left",
        ),
    ],
    ids=[
        "no network",
        "no such machine",
        "processors of a family",
        "processors",
        "spot processors",
        "addresses",
        "disks",
        "processors of all regions",
    ],
)
def test_says_what_the_project_lacks(
    checkout: Checkout, cloud: dict[str, Any], remedy: str
) -> None:
    checkout.put(**cloud)
    done = checkout.up(code=2)

    assert remedy in done.stderr
    assert [call[1:3] for call in checkout.changes()] == [["services", "enable"]]


def test_what_is_there_needs_no_more_quota(checkout: Checkout) -> None:
    checkout.up()
    checkout.put(quotas={"CPUS": [24, 24], "N2D_CPUS": [8, 8]})
    checkout.up()


def test_spot_machines_without_separate_quota(checkout: Checkout) -> None:
    checkout.put(quotas={"PREEMPTIBLE_CPUS": [0, 0], "N2D_CPUS": [8, 0]})
    checkout.up()


@pytest.mark.parametrize("program", ["gcloud", "kubectl", "gke-gcloud-auth-plugin", "curl", "git"])
def test_says_which_program_is_missing(checkout: Checkout, program: str) -> None:
    (checkout.programs / program).unlink()
    done = checkout.up(code=2)

    assert f"{program} is not installed" in done.stderr
    assert checkout.calls() == []


@pytest.mark.parametrize("look", ["billing projects describe", "testIamPermissions"])
def test_what_may_not_be_seen_is_no_lack(checkout: Checkout, look: str) -> None:
    checkout.fault(look, "ERROR: forbidden")

    assert "could not check" in checkout.up().stdout


def test_the_token_is_no_argument(checkout: Checkout) -> None:
    done = checkout.up()

    assert "secret-token" not in f"{checkout.calls()}{done.stdout}{done.stderr}"
    assert shutil.which("curl", path=checkout.programs)
    assert len(checkout.calls("curl")) == 1
