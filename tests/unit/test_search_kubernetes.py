"""A search in Kubernetes: its manifest, its pods, the client, and histories in a bucket."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common import storage
from common.errors import RunError, SettingsError, run_main
from common.settings import Settings
from launch import api_errors, manifests
from launch.commands import search as client
from launch.commands import select, stop
from launch.pods import Object
from launch.search_manifest import search_objects
from studies.search import __main__ as program
from studies.search import seed_process
from studies.search.definition import SearchDefinition
from studies.search.kubernetes_seeds import KubernetesSeeds

SEARCH = ("NAME=s", "DATA=tfim:4:1.0", "METHOD=random", "BUDGET=40evaluations", "SEEDS=3,5")

needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl (with kustomize) is not on the PATH"
)


class Held:
    """A lease that is held."""

    def check(self) -> None:
        pass


def seeds(*args: str, script: str = "") -> KubernetesSeeds:
    given = {one.partition("=")[0]: one for one in (*SEARCH, "TARGET=k8s", *args)}
    definition = SearchDefinition.from_args([*given.values()])
    return KubernetesSeeds(definition, ["bash", "-c", script])


def task(*args: str) -> tuple[dict[str, Any], Settings]:
    """Return what the client gets: the pods, and the settings of the cluster."""
    found = seeds(*args).command()
    assert found[:4] == ["bash", "-c", "", "search"]
    assert "=" not in found[4]  # or the client would take it for a setting
    return json.loads(found[4]), Settings.from_args(found[5:], is_client=True)


def objects(*args: str) -> dict[str, Object]:
    pods, settings = task(*args)
    settings = settings.replace(parallelism=2)
    built = manifests.build(settings, "inference").objects
    found = search_objects(built, "s", pods["pods"], pods["limit"], pods["args"])
    return {one["kind"]: one for one in found}


def texts(thing: object) -> Iterator[str]:
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield from (key, *texts(value))
    elif isinstance(thing, list):
        for one in thing:
            yield from texts(one)
    elif isinstance(thing, str):
        yield thing


@needs_kubectl
def test_manifest_has_a_pod_for_each_seed() -> None:
    found = objects("PARALLELISM=1", "CPU=3", "QUEUE=team")
    job, policy = found["Job"], found["NetworkPolicy"]
    assert job["metadata"]["name"] == "qfleet-s-search"
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 1)
    labels = spec["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "search"
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"][:4] == ["python", "-m", seed_process.__name__, "of-pod"]
    assert container["resources"]["limits"]["cpu"] == "3"
    env = {one["name"]: one for one in container["env"]}
    assert env["QFLEET_NUM_THREADS"]["valueFrom"]["resourceFieldRef"]["resource"] == "limits.cpu"
    assert env["STORAGE_EMULATOR_HOST"]["value"] == "http://qfleet-storage:9023"
    assert found["ConfigMap"]["data"] == {"QFLEET_STORAGE": "gs://qfleet/runs"}
    assert container["envFrom"] == [
        {"configMapRef": {"name": found["ConfigMap"]["metadata"]["name"]}}
    ]
    assert not [one for one in texts([*found.values()]) if "inference" in one]
    for probe in ("livenessProbe", "startupProbe"):  # a pod that hangs is restarted
        assert env["QFLEET_HEARTBEAT_FILE"]["value"] in " ".join(
            container[probe]["exec"]["command"]
        )


def test_pods_get_the_settings_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QFLEET_SPACE", "layers:2")
    monkeypatch.setenv("QFLEET_PARALLELISM", "9")
    pods, settings = task("CPU=3")
    assert (pods["pods"], pods["limit"]) == (2, 2)
    assert (settings.job.run, settings.cluster.cpu) == ("s", "3")
    monkeypatch.delenv("QFLEET_SPACE")
    again = SearchDefinition.from_args(pods["args"][1:])
    assert (again.name, again.seeds, again.space) == ("s", (3, 5), "layers:2")
    assert (again.method, again.budget.evaluations) == ("random", 40)
    assert not any("CPU" in one.upper() or "k8s" in one for one in pods["args"])


@pytest.mark.exhaustive
def test_pod_writes_the_history_of_its_seed_to_a_bucket(
    gs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(main: object, *args: str) -> None:
        monkeypatch.setattr(sys, "argv", ["search", *args])
        assert run_main(main) == 0  # type: ignore[arg-type]

    monkeypatch.chdir(tmp_path)
    run(program.main, *SEARCH, "STORAGE=local")
    folder = storage.path(gs) / "searches" / "s"
    monkeypatch.setenv("QFLEET_STORAGE", gs)
    storage.write_atomic(folder / "search.json", "{}")
    heartbeat = tmp_path / "heartbeat"
    monkeypatch.setenv("QFLEET_HEARTBEAT_FILE", str(heartbeat))
    monkeypatch.setattr("common.native_watchdog.NativeWatchdog", lambda *_: None)  # one at most
    for number in ("0", "1"):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", number)
        run(seed_process.main, *task()[0]["args"])
    assert heartbeat.exists()
    names = ("seed-3.jsonl", "seed-5.jsonl")
    here = [Path("local/searches/s", name).read_bytes() for name in names]
    assert [storage.read_bytes(folder / name) for name in names] == here
    storage.delete(folder / "search.json")
    storage.delete(folder / "seed-5.jsonl")  # the command searches what is missing
    storage.write_atomic(folder / "search.json", Path("local/searches/s/search.json").read_bytes())
    run(program.main, *SEARCH)
    assert [storage.read_bytes(folder / name) for name in names] == here
    model = Path("runs/searches/s/circuits/0.model.json").read_bytes()
    assert storage.read_bytes(folder / "circuits/0.model.json") == model


@pytest.mark.parametrize(("code", "error"), [(2, SettingsError), (1, RunError), (143, RunError)])
def test_client_that_fails_ends_the_search(code: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="no room"):
        seeds(script=f"echo no room >&2; exit {code}").write_histories(Held())  # type: ignore[arg-type]
    seeds(script="exit 0").write_histories(Held())  # type: ignore[arg-type]


class FakeCluster:
    """A cluster whose Jobs end at the third look at them."""

    namespace, context = "here", "there"

    def __init__(self, found: list[Object]) -> None:
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in found}
        self.applied: list[Object] = []
        self.looks = 0

    def check(self) -> None:
        pass

    def get(self, kind: str, name: str, version: str = "") -> Object | None:
        found = self.objects.get((kind, name))
        if found is None or kind != "Job":
            return found
        self.looks += 1
        has_ended = self.looks % 4 == 0
        done = {"conditions": [{"type": "Complete", "status": "True"}]}
        made = {"uid": str(len(self.applied)), "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata = found["metadata"] | made
        return found | {"metadata": metadata, "status": done if has_ended else {"active": 1}}

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Any]:
        wanted = dict(one.split("=") for one in labels.split(",") if one)
        of_kind = [one for (name, _), one in self.objects.items() if name == kind]
        return [one for one in of_kind if wanted.items() <= one["metadata"]["labels"].items()]

    def watch(self, kind: str, labels: str) -> Iterator[Any]:
        raise api_errors.Forbidden("not recorded")

    def apply(self, body: Object, before: Any, *, dry_run: bool) -> Object:
        self.objects[body["kind"], body["metadata"]["name"]] = body
        self.applied.append(body)
        return body

    def delete(self, live: Object) -> bool:
        return self.objects.pop((live["kind"], live["metadata"]["name"]), None) is not None


@needs_kubectl
@pytest.mark.parametrize("now", ["BUDGET=40evaluations", "BUDGET=60evaluations"])
def test_client_follows_a_job_and_then_starts_a_changed_one(
    now: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = FakeCluster([*objects().values()])
    monkeypatch.setattr(client.KubeClient, "connect", lambda settings: cluster)
    monkeypatch.setattr("launch.job_watcher.POLL_SECONDS", 0.01)
    pods, settings = task(now)
    assert client.search(settings, json.dumps(pods)) == 0
    assert "job qfleet-s-search already exists; following it" in capsys.readouterr().out
    jobs = [one["spec"] for one in cluster.applied if one["kind"] == "Job"]
    assert len(jobs) == (now != SEARCH[3])
    for one in jobs:
        assert now in one["template"]["spec"]["containers"][0]["command"]
    assert {kind for kind, _ in cluster.objects} == {"ServiceAccount"}


@needs_kubectl
def test_search_is_listed_and_deleted_but_no_inference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pods, settings = task()
    inference = manifests.build(settings, "inference").objects
    cluster = FakeCluster([*objects().values(), *inference])
    monkeypatch.setattr(stop.KubeClient, "connect", lambda settings: cluster)
    (found,) = select.jobs(cluster, settings, "search")  # type: ignore[arg-type]
    assert found["spec"]["completions"] == pods["pods"]
    assert stop.delete(settings, "search") == 0
    assert "job/qfleet-s-search deleted" in capsys.readouterr().out
    left = {(one["kind"], one["metadata"]["name"]) for one in inference}
    assert cluster.objects.keys() == left
