"""What a job that is there already goes on with, where a person now says otherwise."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from common.settings import Settings
from launch import api_errors, manifests
from launch.commands import infer
from launch.commands.infer import infer as verb

needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl, which holds kustomize, is not on the PATH"
)


class Recorded:
    """A cluster with an inference Job that ends once it is followed."""

    namespace, context = "here", "there"

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = {one["kind"]: one for one in objects}
        job = self.objects["Job"]
        job["metadata"] |= {"uid": "j", "creationTimestamp": "2026-01-01T00:00:00Z"}
        ended = [{"type": "Complete", "status": "True"}]
        self.stands: list[dict[str, Any]] = [{"active": 1}, {"active": 1}, {"conditions": ended}]

    def check(self) -> None:
        pass

    def get(self, kind: str, name: str, version: str = "") -> dict[str, Any] | None:
        found = self.objects.get(kind)
        if found is not None and kind == "Job":
            return {**found, "status": self.stands.pop(0)}
        return found

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Any]:
        return []

    def watch(self, kind: str, labels: str) -> Iterator[Any]:
        raise api_errors.Forbidden("not recorded")

    def apply(self, body: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        assert dry_run
        if body["spec"] == self.objects["Job"]["spec"]:
            return body
        raise api_errors.Invalid("the cluster takes no such Job: spec.template: field is immutable")


@needs_kubectl
@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({}, ""),
        ({"input": "gs://b/new.csv"}, "with INPUT=gs://b/old.csv (now gs://b/new.csv): to"),
        ({"weights": "gs://b/other"}, "with WEIGHTS=gs://b/weights.h5 (now gs://b/other): to"),
        ({"cpu": "1"}, "with other IMAGE, CPU, MEMORY or THREADS: to"),
    ],
)
def test_an_inference_that_is_there_says_what_differs(
    now: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    was = {**manifests.COMMITTED, "weights": "gs://b/weights.h5", "input": "gs://b/old.csv"}
    cluster = Recorded(manifests.inference(Settings.from_record(was)))
    monkeypatch.setattr(infer.KubeClient, "connect", lambda settings: cluster)
    assert verb(Settings.from_record(was | now)) == 0
    said = capsys.readouterr().out
    assert "job inference-qcnn is there already (Running): following it\n" in said
    assert ("it goes on as it was started" in said) == bool(told)
    assert told in said
    assert ("`make delete-inference RUN=qcnn`" in said) == bool(told)
