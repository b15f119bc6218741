"""`launch run` and `infer`: how often they build, what they apply; the storage of a live job."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.settings import Settings
from launch import kustomize, manifests, objects
from launch.commands import infer, run, select
from launch.engines import BY_KIND, ENGINES, TEMPLATE_KINDS
from launch.pods import StorageLocation, pod_specs

pytestmark = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl (with kustomize) is not on the PATH"
)


class FakeCluster:
    """A cluster that serves some kinds of jobs and has some objects; it allows dry runs only."""

    namespace, context = "here", "there"

    def __init__(self, served: Iterable[str], live: Iterable[dict[str, Any]] = ()) -> None:
        self.served = set(served)
        self.live = {(one["kind"], one["metadata"]["name"]): one for one in live}
        self.applied: list[dict[str, Any]] = []

    def check(self) -> None:
        """Answer."""

    def serves(self, kind: str) -> bool:
        return kind in self.served

    def get(self, kind: str, name: str, version: str = "") -> dict[str, Any] | None:
        return self.live.get((kind, name))

    def apply(self, body: dict[str, Any], before: Any, *, dry_run: bool) -> dict[str, Any]:
        assert dry_run
        self.applied.append(body)
        return body


def settings(*words: str) -> Settings:
    """Settings of a dry run of the run qcnn."""
    return Settings.from_args(["MODEL=qcnn", "DRY_RUN=true", *words])


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that kustomize has built."""
    found: list[str] = []
    build = kustomize.build

    def counted(folder: Path) -> list[dict[str, Any]]:
        found.append(folder.name)
        return build(folder)

    monkeypatch.setattr(kustomize, "build", counted)
    return found


@pytest.mark.parametrize(
    "words", ["MODEL=absent:build", "LOSS=poisson", "DATA=digits CLASSES=1,22", "ENCODER=pca"]
)
def test_run_that_cannot_work_reaches_no_cluster(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(run.KubeClient, "connect", lambda settings: pytest.fail("connected"))
    with pytest.raises(UserError, match=words.rpartition(" ")[2]):
        run.run(settings(*words.split()))


@pytest.mark.parametrize(
    ("served", "name", "kind", "expected"),
    [
        (["TFJob", "JobSet"], "qcnn", "TFJob", ["training"]),
        (["TFJob"], "qcnn-2", "TFJob", ["training"] * 2),
        (["JobSet"], "qcnn", "JobSet", ["training", "training-jobset"]),
    ],
)
def test_run_builds_again_for_another_job_only(
    monkeypatch: pytest.MonkeyPatch,
    builds: list[str],
    served: list[str],
    name: str,
    kind: str,
    expected: list[str],
) -> None:
    cluster = FakeCluster(served)
    monkeypatch.setattr(run.KubeClient, "connect", lambda settings: cluster)
    monkeypatch.setattr(run, "select_run", lambda *args: name)
    assert run.run(settings()) == 0
    assert builds == expected
    (job,) = (one for one in cluster.applied if one["kind"] in BY_KIND)
    assert (job["kind"], job["metadata"]["name"]) == (kind, f"qfleet-{name}")


def test_run_with_auto_takes_workers_of_the_live_job(
    monkeypatch: pytest.MonkeyPatch, builds: list[str]
) -> None:
    live = objects.training(settings("WORKERS=3"))[-1]
    live["status"] = {"conditions": [{"type": "Running", "status": "True"}]}
    cluster = FakeCluster(["TFJob"], [live])
    monkeypatch.setattr(run.KubeClient, "connect", lambda settings: cluster)
    assert run.run(settings("WORKERS=auto")) == 0
    assert len(builds) == 2
    (job,) = (one for one in cluster.applied if one["kind"] == "TFJob")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


@pytest.mark.parametrize(("name", "expected"), [("qcnn", 1), ("other", 2)])
def test_infer_builds_again_for_another_run_only(
    monkeypatch: pytest.MonkeyPatch, builds: list[str], name: str, expected: int
) -> None:
    cluster = FakeCluster([])
    monkeypatch.setattr(infer.KubeClient, "connect", lambda settings: cluster)
    monkeypatch.setattr(infer, "_select_run", lambda *args: name)
    assert infer.infer(settings()) == 0
    assert len(builds) == expected
    assert cluster.applied[-1]["metadata"]["name"] == f"qfleet-{name}-inference"


@pytest.mark.parametrize("api", ENGINES)
def test_storage_of_a_live_job_is_that_of_its_pods(api: str) -> None:
    found = manifests.build(settings(f"JOB_API={api}"))
    (job,) = (one for one in found.objects if one["kind"] in BY_KIND)
    cluster: Any = FakeCluster([job["kind"]], found.objects)
    assert select.storage_location(cluster, settings(), job) == found.storage
    (template,) = (one for one in found.objects if one["kind"] in TEMPLATE_KINDS)
    (pod,) = pod_specs(template)  # a variable of a container hides that of the ConfigMap
    pod["containers"][0]["env"].append({"name": "QFLEET_STORAGE", "value": "gs://patched"})
    expected = StorageLocation("gs://patched", "http://qfleet-storage:9023")
    assert select.storage_location(cluster, settings(), job) == expected
