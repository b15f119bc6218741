"""`launch infer` where a Job exists already: the settings that differ are reported."""

import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from common.settings import Settings
from launch import api_errors, manifests
from launch.commands import infer
from launch.commands.infer import infer as infer_command

needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl (with kustomize) is not on the PATH"
)


class FakeInferenceCluster:
    """A cluster with an inference Job that ends once it is followed."""

    namespace, context = "here", "there"

    def __init__(self, objects: Sequence[dict[str, Any]]) -> None:
        self.objects = {one["kind"]: one for one in objects}
        job = self.objects["Job"]
        job["metadata"] |= {"uid": "j", "creationTimestamp": "2026-01-01T00:00:00Z"}
        ended = [{"type": "Complete", "status": "True"}]
        self.statuses: list[dict[str, Any]] = [*[{"active": 1}] * 3, {"conditions": ended}]

    def check(self) -> None:
        pass

    def get(self, kind: str, name: str, version: str = "") -> dict[str, Any] | None:
        found = self.objects.get(kind)
        if found is not None and kind == "Job":
            return {**found, "status": self.statuses.pop(0)}
        return found

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Any]:
        return []

    def watch(self, kind: str, labels: str) -> Iterator[Any]:
        raise api_errors.Forbidden("not recorded")

    def apply(self, body: dict[str, Any], before: Any, *, dry_run: bool) -> dict[str, Any]:
        assert dry_run
        if body["spec"] == self.objects["Job"]["spec"]:
            return body
        raise api_errors.Invalid("the cluster rejects this Job: spec.template: field is immutable")


@needs_kubectl
@pytest.mark.parametrize(
    ("now", "difference"),
    [
        ({}, ""),
        ({"input": "gs://b/new.csv"}, "INPUT=gs://b/old.csv (now gs://b/new.csv)."),
        ({"weights": "gs://b/other"}, "WEIGHTS=gs://b/weights.h5 (now gs://b/other)."),
        ({"cpu": "1"}, "another IMAGE, CPU, MEMORY or THREADS."),
    ],
)
def test_infer_with_running_job_reports_differences(
    now: dict[str, Any], difference: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    was = {**manifests.COMMITTED, "weights": "gs://b/weights.h5", "input": "gs://b/old.csv"}
    cluster = FakeInferenceCluster(manifests.build(Settings.from_record(was), "inference").objects)
    monkeypatch.setattr(infer.KubeClient, "connect", lambda settings: cluster)
    assert infer_command(Settings.from_record(was | now)) == 0
    output = capsys.readouterr().out
    assert "job qfleet-qcnn-inference already exists (Running); following it\n" in output
    assert difference in output
    assert ("`make delete-inference RUN=qcnn`" in output) == bool(difference)
