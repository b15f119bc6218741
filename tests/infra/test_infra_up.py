"""infra-up creates missing resources and leaves existing ones unchanged."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infra import fake_cloud
from tests.infra.checkout import PROGRAMS, ROOT, Checkout

ORDER = """\
services enable
service-accounts create qfleet
service-accounts create qfleet-nodes
projects add-iam-policy-binding
repositories create
repositories add-iam-policy-binding
buckets create
buckets update
buckets add-iam-policy-binding
clusters create
node-pools create
service-accounts add-iam-policy-binding
apply --server-side
label --overwrite""".splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cloud that infra-up leaves, and its calls."""
    checkout = Checkout(tmp_path_factory.mktemp("made"))
    checkout.up()
    return checkout.cloud | {"changes": checkout.changes()}


def said(call: list[str]) -> str:
    return " ".join(call)


def test_makes_each_thing_after_what_it_needs(made: dict[str, Any]) -> None:
    changes = [said(call) for call in made["changes"]]

    assert len(changes) == len(ORDER)
    assert all(f" {step}" in change for step, change in zip(ORDER, changes, strict=True)), changes


def test_gives_each_account_the_least_it_needs(made: dict[str, Any]) -> None:
    training = "qfleet@my-project.iam.gserviceaccount.com"
    nodes = "serviceAccount:qfleet-nodes@my-project.iam.gserviceaccount.com"

    assert sorted(made["policies"]) == sorted(
        [
            [
                "gs://my-project-qfleet",
                "roles/storage.objectUser",
                f"serviceAccount:{training}",
                "^;^title=qfleet-default;expression="
                'resource.name.startsWith("projects/_/buckets/my-project-qfleet/objects/runs/default/")'
                ' || api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
                '.startsWith("runs/default/")',
            ],
            [
                training,
                "roles/iam.workloadIdentityUser",
                "serviceAccount:my-project.svc.id.goog[default/qfleet]",
            ],
            ["my-project", "roles/container.defaultNodeServiceAccount", nodes],
            ["repository qfleet", "roles/artifactregistry.reader", nodes],
        ]
    )


def test_closes_the_bucket_and_shields_the_nodes(made: dict[str, Any]) -> None:
    for flag in ("uniform-bucket-level-access", "public-access-prevention", "lifecycle-file"):
        assert flag in made["buckets"][0]["flags"]
    for verb in ("clusters", "node-pools"):
        (call,) = [call for call in made["changes"] if call[2:4] == [verb, "create"]]
        assert "--service-account=qfleet-nodes@my-project.iam.gserviceaccount.com" in call
        assert "--workload-metadata=GKE_METADATA" in call
        assert "--shielded-secure-boot" in call
        assert "--metadata=disable-legacy-endpoints=true" in call


def test_no_object_of_a_run_expires() -> None:
    rules = json.loads((ROOT / "infra/lifecycle.json").read_text())["rule"]

    assert [rule["action"]["type"] for rule in rules] == ["AbortIncompleteMultipartUpload"]


def test_another_namespace_gets_a_prefix_and_account_of_its_own(
    checkout: Checkout, made: dict[str, Any]
) -> None:
    checkout.cloud = made
    words = ("NAME=qfleet-b", "NAMESPACE=team-b", "ADOPT_CLUSTER=qfleet",
             "ADOPT_BUCKET=my-project-qfleet")  # fmt: skip
    done = checkout.up(*words)

    policies = checkout.cloud["policies"]
    roles = [entry for entry in policies if entry[1] == "roles/storage.objectUser"]
    assert [entry[2].partition("@")[0] for entry in roles] == [
        "serviceAccount:qfleet",
        "serviceAccount:qfleet-b",
    ]
    assert 'objects/runs/team-b/"' in roles[1][3]
    assert "STORAGE=gs://my-project-qfleet/runs/team-b " in done.stdout
    checkout.up(*words)
    assert checkout.changes() == []


def test_a_second_run_changes_nothing(checkout: Checkout, made: dict[str, Any]) -> None:
    checkout.cloud = made
    done = checkout.up()

    assert checkout.changes() == []
    assert "make manifests OVERLAY=gke STORAGE=gs://my-project-qfleet/runs/default " in done.stdout


def test_a_dry_run_prints_what_a_run_does_and_calls_nothing(
    checkout: Checkout, made: dict[str, Any]
) -> None:
    for name in PROGRAMS:
        (checkout.programs / name).unlink()
    done = checkout.up("DRY_RUN=1")

    printed = [line for line in done.stdout.splitlines() if line.startswith(("gcloud", "kubectl"))]
    unquoted = [line.replace("'", "") for line in printed]
    assert [said(call) for call in made["changes"]] == [
        line
        for line in unquoted
        if "get-credentials" not in line and "configure-docker" not in line
    ]


def test_goes_on_from_where_it_was_cut_short(checkout: Checkout, made: dict[str, Any]) -> None:
    for number, call in enumerate(made["changes"]):
        # Each step is cut short when it has done its work, and some before it, too.
        for late in [False, True] if number % 4 == 1 else [True]:
            checkout.fault(said(call), late=late)
            done = checkout.up(code=1)
            assert "quota exhausted" in done.stderr
            assert "it resumes here" in done.stderr
            assert said(checkout.calls()[-1]) == said(call)
    checkout.up()

    for kind in set(checkout.made()) - {"contexts"}:
        assert checkout.cloud[kind] == made[kind]


def test_a_failed_look_ends_it(checkout: Checkout) -> None:
    checkout.fault("buckets get-iam-policy")
    checkout.up(code=1)

    assert not any("clusters create" in said(call) for call in checkout.calls())


def test_waits_for_a_cluster_that_is_being_made(checkout: Checkout, made: dict[str, Any]) -> None:
    checkout.cloud = made
    checkout.put(clusters=[made["clusters"][0] | {"status": "PROVISIONING"}], pools=[])
    checkout.up()

    assert checkout.calls("sleep") == [["sleep", "15"]]
    assert [call[2:4] for call in checkout.changes()] == [["node-pools", "create"]]


def test_a_cluster_that_could_not_be_made_is_told(checkout: Checkout, made: dict[str, Any]) -> None:
    checkout.cloud = made
    checkout.put(clusters=[made["clusters"][0] | {"status": "ERROR"}])

    assert "gcloud container clusters delete qfleet" in checkout.up(code=2).stderr


def test_waits_until_a_new_account_is_known(checkout: Checkout) -> None:
    checkout.fault("projects add-iam", "ERROR: the account does not exist", times=2)
    checkout.up()

    assert checkout.calls("sleep") == [["sleep", "10"]] * 2


def test_another_number_of_nodes_is_an_update(checkout: Checkout, made: dict[str, Any]) -> None:
    checkout.cloud = made
    checkout.up("MIN_NODES=1", "MAX_NODES=5")

    assert [call[2:4] for call in checkout.changes()] == [["clusters", "update"]]
    assert checkout.cloud["pools"][0]["autoscaling"] == {"minNodeCount": 1, "maxNodeCount": 5}


def test_another_machine_asks_for_another_pool(checkout: Checkout, made: dict[str, Any]) -> None:
    checkout.cloud = made
    done = checkout.up("MACHINE=n2d-standard-8", code=2)

    assert "gcloud container node-pools delete qfleet --cluster=qfleet" in done.stderr
    assert checkout.changes() == []


def test_nodes_that_are_not_spot_bear_no_taint(checkout: Checkout) -> None:
    checkout.up("SPOT=no", "NAMESPACE=lab")

    (pool,) = [call for call in checkout.changes() if call[2:4] == ["node-pools", "create"]]
    assert not [flag for flag in pool if "spot" in flag]
    assert checkout.cloud["namespaces"] == ["default", "lab"]


def adoptable(**cluster: Any) -> dict[str, Any]:
    """A cluster and a bucket of foreign, the bucket in another project."""
    found = {
        "name": "shared",
        "location": "us-central1",
        "status": "RUNNING",
        "workloadIdentityConfig": {"workloadPool": "my-project.svc.id.goog"},
        "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH"},
    }
    bucket = {"name": "data", "labels": {}, "objects": {"a/b": 7}, "elsewhere": True}
    return fake_cloud.new() | {"clusters": [found | cluster], "buckets": [bucket]}


ADOPT = ("ADOPT_CLUSTER=shared", "ADOPT_BUCKET=data")


def test_adopts_a_cluster_and_a_bucket_as_they_are(checkout: Checkout) -> None:
    checkout.cloud = adoptable()
    done = checkout.up(*ADOPT)

    verbs = [call[1:4] for call in checkout.changes()]
    assert ["container", "clusters", "create"] not in verbs
    assert ["container", "node-pools", "create"] in verbs
    assert [verb for verb in verbs if verb[0] == "storage"] == [
        ["storage", "buckets", "add-iam-policy-binding"]
    ]
    assert checkout.cloud["clusters"] == adoptable()["clusters"]
    assert checkout.cloud["buckets"] == adoptable()["buckets"]
    assert "STORAGE=gs://data/runs/default " in done.stdout
    checkout.up(*ADOPT)
    assert checkout.changes() == []


def test_leaves_an_adopted_clusters_operator_alone(checkout: Checkout) -> None:
    checkout.cloud = adoptable() | {"operator": {"managed-by": "somebody"}}
    checkout.up(*ADOPT)

    assert checkout.cloud["operator"] == {"managed-by": "somebody"}


def test_an_autopilot_cluster_makes_its_own_nodes(checkout: Checkout) -> None:
    checkout.cloud = adoptable(autopilot={"enabled": True})
    checkout.up(*ADOPT)

    assert checkout.cloud["pools"] == []


@pytest.mark.parametrize(
    ("cloud", "remedy"),
    [
        (adoptable(workloadIdentityConfig=None), "--workload-pool=my-project.svc.id.goog"),
        (adoptable() | {"clusters": []}, "gcloud container clusters list"),
        (adoptable(location="europe-west4"), "gcloud container clusters list"),
        (adoptable() | {"buckets": []}, "gcloud storage buckets list"),
    ],
    ids=["no workload identity", "no cluster", "another region", "no bucket"],
)
def test_says_why_it_cannot_adopt(checkout: Checkout, cloud: dict[str, Any], remedy: str) -> None:
    checkout.cloud = cloud

    assert remedy in checkout.up(*ADOPT, code=2).stderr
    assert [call[1:3] for call in checkout.changes()] == [["services", "enable"]]


THEIRS = {
    "accounts": [{"email": "qfleet@my-project.iam.gserviceaccount.com", "description": "ours"}],
    "repositories": [{"name": "projects/my-project/locations/us-central1/repositories/qfleet"}],
    "buckets": [{"name": "my-project-qfleet", "labels": {}, "objects": {"thesis/a": 1}}],
    "clusters": [{"name": "qfleet", "location": "us-central1-a", "status": "RUNNING"}],
}


@pytest.mark.parametrize("kind", THEIRS)
def test_does_not_touch_what_bears_its_name(checkout: Checkout, kind: str) -> None:
    checkout.put(**{kind: THEIRS[kind]})
    done = checkout.up(code=2)

    assert "was not created by make infra-up" in done.stderr
    assert "set NAME= to another name" in done.stderr
    assert checkout.cloud[kind] == THEIRS[kind]


def test_gcloud_itself_takes_every_command(checkout: Checkout, made: dict[str, Any]) -> None:
    gcloud = shutil.which("gcloud")
    if not gcloud:
        pytest.skip("no gcloud is installed")
    calls = made["calls"]
    for words in (["YES=1"], ["DRY_RUN=1", *ADOPT]):
        checkout.cloud = made | (adoptable() if len(words) > 1 else {})
        checkout.down(*words)
        calls = calls + checkout.calls()
    lines = {subprocess.list2cmdline(call) for call in calls if call[0] == "gcloud"}
    file = checkout.folder / "commands.json"
    file.write_text(json.dumps([{"command_string": line} for line in sorted(lines)]))
    environment = {"HOME": str(checkout.folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [gcloud, "meta", "lint-gcloud-commands", f"--commands-file={file}"],
        env=environment | {"CLOUDSDK_CONFIG": str(checkout.folder / "gcloud")},
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(done.stdout)
    wrong = [one["error_message"] for one in results if not one["success"]]
    assert len(results) == len(lines)
    assert not wrong
