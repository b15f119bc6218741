"""The manifests: what is committed, what settings change in them, and what pods can't follow."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.errors import SettingsError
from common.settings import Settings
from launch import kustomize, manifests, objects, site_config
from launch.pods import ROOT, VERSION

BUILDS = ("training", "inference", "tensorboard")
COMMITTED = ("qcnn", "inference", "tensorboard")
OWN = {"storage": "gs://bucket/runs", "service_account": "a@b.iam.gserviceaccount.com"}
OWN["image"] = "europe-docker.pkg.dev/project/repository/qfleet"

needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl, which holds kustomize, is not on the PATH"
)


def settings(**said: Any) -> Settings:
    """The committed settings with others, whatever the environment says."""
    return Settings.from_record({**manifests.COMMITTED, **said})


def one(found: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The one object of a kind (and name)."""
    (it,) = (o for o in found if o["kind"] == kind and name in ("", o["metadata"]["name"]))
    return it


def container(it: dict[str, Any]) -> dict[str, Any]:
    """The container of an object's pods."""
    (spec,) = kustomize.pod_specs(it)
    return spec["containers"][0]


def env(it: dict[str, Any]) -> dict[str, Any]:
    """The variables that an object's pods say themselves: those with a value."""
    return {e["name"]: e.get("value") for e in container(it)["env"]}


def committed(name: str) -> list[dict[str, Any]]:
    """The objects of a committed build."""
    return list(yaml.safe_load_all((ROOT / "k8s" / f"{name}.yaml").read_text(encoding="utf-8")))


@pytest.fixture
def k8s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of k8s/ that a test may change, in place of the real one; nothing was pushed."""
    copy = tmp_path / "k8s"
    shutil.copytree(ROOT / "k8s", copy)
    monkeypatch.setattr(manifests, "K8S", copy)
    monkeypatch.setattr(site_config, "DIGESTS", tmp_path / ".images.json")
    return copy


# What is committed


@needs_kubectl
def test_what_is_committed_is_what_the_settings_make():
    manifests.main(["--check"])


@needs_kubectl
@pytest.mark.parametrize("path", ["qcnn.yaml", "base/training/training.yaml"])
def test_a_stale_file_is_told_by_its_name(k8s: Path, path: str):
    file = k8s / path
    file.write_text(file.read_text().replace("replicas: 2", "replicas: 3"))
    with pytest.raises(SettingsError, match=f"^k8s/{path} is stale: `make manifests`"):
        manifests.main(["--check"])


@needs_kubectl
def test_an_own_file_that_is_filled_in_makes_nothing_stale(k8s: Path):
    file = k8s / "overlays/gke/patches/own.yaml"
    file.write_text(file.read_text().replace("storage: ''", "storage: gs://mine/runs  # mine"))
    manifests.main(["--check"])


@needs_kubectl
def test_manifests_for_another_overlay_write_its_own_file_alone(k8s: Path, capsys: Any):
    manifests.main(["OVERLAY=gke", *(f"{name}={value}" for name, value in OWN.items())])
    assert capsys.readouterr().out == "k8s/overlays/gke/patches/own.yaml is written\n"
    manifests.main(["--check"])
    name = OWN["image"]
    assert yaml.safe_load((k8s / "overlays/gke/patches/own.yaml").read_text())["data"] == {
        "storage": OWN["storage"],
        "service-account": OWN["service_account"],
        "image-worker": f"{name}-worker:{VERSION}",
        "image-worker-gpu": f"{name}-worker-gpu:{VERSION}",
        "image-tensorboard": f"{name}-tensorboard:{VERSION}",
    }


@needs_kubectl
def test_settings_go_into_base_and_a_build_of_the_runs_name(k8s: Path):
    manifests.main(["MODEL=hybrid", "WORKERS=3"])
    (job,) = (
        o for o in yaml.safe_load_all((k8s / "hybrid.yaml").read_text()) if o["kind"] == "TFJob"
    )
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    assert "name: hybrid-settings" in (k8s / "base/training/training.yaml").read_text()


@pytest.mark.parametrize("name", COMMITTED)
def test_every_image_is_of_this_version(name: str):
    images = [
        c["image"] for it in committed(name) for p in kustomize.pod_specs(it) for c in p["containers"]
    ]
    assert images
    assert all(image.partition("qfleet-")[2].endswith(f":{VERSION}") for image in images), images


# Least privilege


def _restricted(pod: dict[str, Any]) -> bool:
    """Whether a pod is within the Pod Security Standard `restricted`, and has no token."""
    whole = pod["securityContext"]
    assert whole["runAsNonRoot"] is True
    assert whole["runAsUser"] == 65532
    assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
    assert all({"emptyDir", "configMap"} & volume.keys() for volume in pod["volumes"])
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    for each in pod["containers"]:
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert not any("hostPort" in port for port in each.get("ports", []))
        assert each["resources"]["limits"].keys() >= {"cpu", "memory"}
        assert each["resources"]["requests"].keys() >= {"cpu", "memory"}
    return True


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_pods_are_restricted_and_have_no_token(name: str):
    found = committed(name)
    assert [_restricted(pod) for it in found for pod in kustomize.pod_specs(it)]
    assert one(found, "ServiceAccount")["automountServiceAccountToken"] is False


@needs_kubectl
@pytest.mark.parametrize("overlay", ["gke", "gpu"])
@pytest.mark.parametrize("build", BUILDS)
def test_overlays_leave_pods_restricted(k8s: Path, overlay: str, build: str):
    found = getattr(manifests, build)(settings(overlay=overlay, **OWN))
    assert [_restricted(pod) for it in found for pod in kustomize.pod_specs(it)]


def _admits(rule: dict[str, Any], pod: dict[str, str]) -> bool:
    """Whether a rule of a NetworkPolicy is for a pod with these labels."""
    senders = [sender["podSelector"]["matchLabels"].items() for sender in rule["from"]]
    return any(sender <= pod.items() for sender in senders)


def _open(it: dict[str, Any], pod: dict[str, str]) -> set[int]:
    """The ports that a NetworkPolicy opens to a pod with these labels."""
    rules = it["spec"]["ingress"]
    return {port["port"] for rule in rules if _admits(rule, pod) for port in rule["ports"]}


WORKER = {"training.kubeflow.org/job-name": "qcnn", "app.kubernetes.io/part-of": "qfleet"}
BOARD = {"app.kubernetes.io/component": "tensorboard", "app.kubernetes.io/part-of": "qfleet"}


def test_only_the_gang_reaches_the_gang_and_tensorboard_its_profiler():
    gang = one(committed("qcnn"), "NetworkPolicy", "qcnn")
    assert gang["spec"]["podSelector"]["matchLabels"].items() <= WORKER.items()
    assert gang["spec"]["policyTypes"] == ["Ingress"]
    assert _open(gang, WORKER) == {2222, 2223, 2224}
    assert _open(gang, BOARD) == {2223}
    assert _open(gang, WORKER | {"training.kubeflow.org/job-name": "other"}) == set()


def test_only_our_pods_reach_storage_and_none_but_marked_ones_tensorboard():
    storage = one(committed("qcnn"), "NetworkPolicy", "storage")
    assert (_open(storage, WORKER), _open(storage, {"app": "other"})) == ({9023}, set())
    board = one(committed("tensorboard"), "NetworkPolicy")
    assert _open(board, WORKER) == set()
    assert _open(board, {"qfleet/opens-tensorboard": "true"}) == {5001}


# What settings change


@needs_kubectl
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_workers_is_the_same_everywhere(k8s: Path, workers: int):
    job = one(manifests.training(settings(workers=workers, gang_scheduling=True)), "TFJob")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == workers
    assert job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == workers
    assert env(job)["QFLEET_WORKERS"] == str(workers)


def test_the_job_is_one_that_outlives_its_pods():
    job = one(committed("qcnn"), "TFJob", "qcnn")["spec"]
    assert job["enableDynamicWorker"] is True
    assert job["successPolicy"] == "AllWorkers"
    assert job["tfReplicaSpecs"].keys() == {"Worker"}
    assert job["tfReplicaSpecs"]["Worker"]["restartPolicy"] == "ExitCode"
    assert job["runPolicy"] == {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 86400}


def test_workers_are_called_as_the_operator_and_the_tutorial_call_them():
    it = container(one(committed("qcnn"), "TFJob"))
    assert it["name"] == "tensorflow"
    ports = {port["name"]: port["containerPort"] for port in it["ports"]}
    assert ports == {"tfjob-port": 2222, "profiler": 2223, "gate": 2224}
    board = committed("tensorboard")
    assert one(board, "Deployment")["metadata"]["name"] == "qcnn-tensorboard"
    service = one(board, "Service")
    assert service["metadata"]["name"] == "tensorboard-service"
    assert service["spec"]["ports"][0]["port"] == 5001
    assert one(committed("inference"), "Job")["metadata"]["name"] == "inference-qcnn"


def _labels(job: dict[str, Any]) -> dict[str, str]:
    return job["metadata"]["labels"]


def _policy(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["runPolicy"]


def _pod(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]


@pytest.mark.parametrize(
    ("name", "value", "where", "key", "made"),
    [
        ("queue", "team", _labels, "kueue.x-k8s.io/queue-name", "team"),
        ("priority_class", "high", _pod, "priorityClassName", "high"),
        ("gang_scheduling", True, _policy, "schedulingPolicy", {"minAvailable": 2}),
        ("deadline", 600, _policy, "activeDeadlineSeconds", 600),
    ],
)
def test_an_optional_setting_is_there_when_said_and_else_not(
    name: str, value: Any, where: Callable[..., Any], key: str, made: Any
):
    said, unsaid = (
        one(objects.training(settings(**more)), "TFJob") for more in ({name: value}, {})
    )
    assert where(said)[key] == made
    assert key not in where(unsaid)


def test_settings_that_are_no_defaults_reach_the_pods_and_no_others():
    said = settings(epochs=3, verbose=True, workers=3, deadline=9, cpu="4", storage="gs://b/r")
    told = one(objects.training(said), "ConfigMap")
    assert told["metadata"]["name"] == "qcnn-settings"
    assert told["data"] == {
        "QFLEET_STORAGE": "",  # the overlay's
        "QFLEET_RUN": "qcnn",
        "QFLEET_MODEL": "qcnn",
        "QFLEET_EPOCHS": "3",
        "QFLEET_DEADLINE": "9",
        "QFLEET_VERBOSE": "true",
    }


@needs_kubectl
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("label", "1e3", "1e3"), ("profile", "10:20", "10:20"), ("classes", "y,n", "y,n"),
     ("label", "n", "n"), ("label", "0x1F", "0x1F"), ("label", "007", "007"), ("label", "~", "~"),
     ("label", "2026-01-01", "2026-01-01"), ("learning_rate", 1e-05, "1e-05"),
     ("label", "No: [#]", "No: [#]")],
)  # fmt: skip
def test_what_looks_like_a_number_or_a_truth_value_stays_text(k8s: Path, name, value, text):
    found = manifests.training(settings(**{name: value}))
    assert one(found, "ConfigMap")["data"][f"QFLEET_{name.upper()}"] == text
    again = yaml.safe_load_all(manifests.to_yaml(found))
    assert list(again) == found


@needs_kubectl
def test_an_overlays_requests_never_exceed_the_limits(k8s: Path):
    found = manifests.training(settings(cpu="100m", memory="500Mi"))
    limits = {"cpu": "100m", "memory": "500Mi"}
    assert container(one(found, "TFJob"))["resources"] == {"limits": limits, "requests": limits}
    usual = container(one(manifests.training(settings()), "TFJob"))["resources"]
    assert usual["requests"] == {"cpu": "250m", "memory": "1Gi"}
    assert usual["limits"] == {"cpu": "2", "memory": "4Gi"}


def test_a_node_of_two_cores_holds_all_that_local_asks_for():
    asked = []
    for name in COMMITTED:
        for it in committed(name):
            for pod in kustomize.pod_specs(it):
                copies = 2 if it["kind"] == "TFJob" else 1
                asked += [c["resources"]["requests"]["cpu"] for c in pod["containers"]] * copies
    assert len(asked) == 5
    assert sum(int(cpu.removesuffix("m")) for cpu in asked) <= 1000


def test_inference_fails_at_once_for_a_mistake_and_goes_on_otherwise():
    spec = one(committed("inference"), "Job")["spec"]
    codes, evicted = spec["podFailurePolicy"]["rules"]
    assert (codes["action"], codes["onExitCodes"]["values"]) == ("FailJob", [1, 2])
    assert (
        codes["onExitCodes"]["containerName"]
        == container(one(committed("inference"), "Job"))["name"]
    )
    assert (evicted["action"], evicted["onPodConditions"][0]["type"]) == (
        "Ignore",
        "DisruptionTarget",
    )
    assert spec["backoffLimit"] > 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_several_pods_answer_as_an_indexed_job_each_tried_again_alone():
    found = objects.inference(settings(parallel=4))
    job = one(found, "Job")
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["backoffLimitPerIndex"] > 0
    assert "backoffLimit" not in spec, "the whole Job's would count all its pods' together"
    alone = one(objects.inference(settings()), "Job")["spec"]
    assert spec["podFailurePolicy"] == alone["podFailurePolicy"]
    assert "completionMode" not in alone
    assert container(job)["command"] == ["python", "-m", "inference.worker"]
    (gang,) = (e for e in container(job)["env"] if e["name"] == "QFLEET_JOB_ID")
    path = gang["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert one(found, "ConfigMap")["data"]["QFLEET_PARALLELISM"] == "4"
    for key in ("securityContext", "automountServiceAccountToken", "serviceAccountName"):
        assert spec["template"]["spec"][key] == alone["template"]["spec"][key]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"split": 2}, "STATE_SHARDS=2 splits states in training alone"),
        ({"run": "r" * 52, "parallel": 2}, "makes a pod's name inference-r"),
    ],
)
def test_what_an_indexed_job_can_not_be_is_one_sentence(said, words):
    with pytest.raises(SettingsError, match=words):
        objects.inference(settings(**said))


def test_weights_stand_in_for_a_run():
    told = one(objects.inference(settings(weights="gs://b/model")), "ConfigMap")["data"]
    assert told["QFLEET_WEIGHTS"] == "gs://b/model"
    assert "QFLEET_RUN" not in told


# Overlays


@needs_kubectl
def test_gke_has_bucket_identity_images_and_spot_nodes_and_no_emulator(k8s: Path):
    pushed = f"{OWN['image']}-worker@sha256:{'0' * 64}"
    site_config.DIGESTS.write_text(
        json.dumps({"worker": pushed, "tensorboard": "another/name@sha256:1"})
    )
    found = manifests.training(settings(overlay="gke", **OWN))
    assert sorted(it["kind"] for it in found) == [
        "ConfigMap", "NetworkPolicy", "ServiceAccount", "TFJob",
    ]  # fmt: skip
    job = one(found, "TFJob")
    assert container(job)["image"] == pushed
    assert "STORAGE_EMULATOR_HOST" not in env(job)
    assert one(found, "ConfigMap")["data"]["QFLEET_STORAGE"] == OWN["storage"]
    account = one(found, "ServiceAccount")["metadata"]["annotations"]
    assert account == {"iam.gke.io/gcp-service-account": OWN["service_account"]}
    (spec,) = kustomize.pod_specs(job)
    assert [each["key"] for each in spec["tolerations"]] == ["cloud.google.com/gke-spot"]
    assert spec["affinity"].keys() == {"nodeAffinity", "podAntiAffinity"}
    board = one(manifests.tensorboard(settings(overlay="gke", **OWN)), "Deployment")
    assert container(board)["image"] == f"{OWN['image']}-tensorboard:{VERSION}"
    assert env(board)["QFLEET_STORAGE"] == OWN["storage"]


@needs_kubectl
def test_gpu_is_gke_with_a_gpu_a_worker_and_its_image(k8s: Path):
    said = settings(overlay="gpu", **OWN)
    job = one(manifests.training(said), "TFJob")
    assert container(job)["image"] == f"{OWN['image']}-worker-gpu:{VERSION}"
    assert container(job)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    (spec,) = kustomize.pod_specs(job)
    assert [each["key"] for each in spec["tolerations"]] == [
        "cloud.google.com/gke-spot",
        "nvidia.com/gpu",
    ]
    answering = container(one(manifests.inference(said), "Job"))
    assert answering["image"] == f"{OWN['image']}-worker:{VERSION}"
    assert "nvidia.com/gpu" not in answering["resources"]["limits"]


@needs_kubectl
@pytest.mark.parametrize("overlay", ["gke", "gpu"])
@pytest.mark.parametrize("missing", list(OWN))
def test_an_own_file_that_is_not_filled_in_is_told_with_what_fills_it(
    k8s: Path, overlay: str, missing: str
):
    said = {name: value for name, value in OWN.items() if name != missing}
    with pytest.raises(SettingsError, match=r"gke/patches/own.yaml is not filled in") as told:
        manifests.training(settings(overlay=overlay, **said))
    asked = str(told.value).partition("`make manifests")[2]
    assert [name for name in OWN if f"{name.upper()}=" in asked] == [missing]


@needs_kubectl
def test_an_overlay_of_ones_own_may_stand_on_another(k8s: Path):
    mine = k8s / "overlays/mine"
    shutil.copytree(k8s / "overlays/gpu", mine)
    found = manifests.training(settings(overlay="mine", **OWN))
    assert container(one(found, "TFJob"))["image"] == f"{OWN['image']}-worker-gpu:{VERSION}"


@needs_kubectl
def test_local_takes_another_path_and_a_registrys_images(k8s: Path):
    found = manifests.training(settings(storage="gs://qfleet/mine", image=OWN["image"]))
    assert one(found, "ConfigMap")["data"]["QFLEET_STORAGE"] == "gs://qfleet/mine"
    assert container(one(found, "Deployment", "storage"))["command"][-1] == "qfleet"
    assert container(one(found, "TFJob"))["image"] == f"{OWN['image']}-worker:{VERSION}"
    emulator = container(one(found, "Deployment", "storage"))
    assert emulator["image"] == f"{OWN['image']}-storage:{VERSION}"


@needs_kubectl
def test_a_bucket_that_the_emulator_lacks_is_refused_in_own_yaml_too(k8s: Path):
    file = k8s / "overlays/local/patches/own.yaml"
    file.write_text(file.read_text().replace("gs://qfleet/runs", "gs://mine/runs"))
    with pytest.raises(SettingsError, match=r"^STORAGE=gs://mine/runs is not in the bucket"):
        manifests.inference(settings())


# One's own model


@needs_kubectl
@pytest.mark.parametrize("build", ["training", "inference"])
def test_a_model_in_one_file_is_mounted_where_python_looks(
    k8s: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str
):
    text = "def build(features, settings):\n    return 'é'\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = getattr(manifests, build)(settings(model="mine:build", run="r"))
    name = {"training": "r-model", "inference": "inference-r-model"}[build]
    assert one(found, "ConfigMap", name)["data"] == {"mine.py": text}
    it = one(found, {"training": "TFJob", "inference": "Job"}[build])
    assert {"name": "model", "mountPath": "/qfleet/mine.py", "subPath": "mine.py"} in container(it)[
        "volumeMounts"
    ]
    (spec,) = kustomize.pod_specs(it)
    assert {"name": "model", "configMap": {"name": name}} in spec["volumes"]


def test_a_model_that_is_no_file_here_must_be_in_an_image_of_ones_own():
    with pytest.raises(SettingsError, match=r"no file package.mine.py in this folder"):
        objects.training(settings(model="package.mine:build"))
    found = objects.training(settings(model="package.mine:build", image=OWN["image"]))
    assert [it["kind"] for it in found].count("ConfigMap") == 1


# What pods can't follow


@needs_kubectl
@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"run": "1qcnn"}, r"RUN=1qcnn begins with a digit.*RUN=run-1qcnn"),
        ({"run": "a" * 53, "workers": 101, "lanes": 200, "batch": 200}, "shorten RUN by 1$"),
        ({"storage": "/data"}, r"STORAGE=/data is a folder of this machine.*gs://bucket/path"),
        ({"storage": "gs://mine/runs"}, r"gs://mine/runs is not in the bucket qfleet.*OVERLAY=gke"),
        ({"storage": "gs://qfleet2"}, r"gs://qfleet2 is not in the bucket qfleet"),
        ({"data": "my.csv"}, r"DATA=my.csv is a file of this machine.*DATA=gs://"),
        ({"input": "new.csv"}, r"INPUT=new.csv is a file of this machine"),
        ({"weights": "w.h5"}, r"WEIGHTS=w.h5 is a file of this machine"),
        ({"overlay": "none"}, r"OVERLAY=none is no folder of k8s/overlays: it has gke, gpu, local"),
        ({"image": "me/qfleet:1"}, r"IMAGE=me/qfleet:1 is not registry/name"),
        ({"image": "qfleet@sha256:0"}, r"IMAGE=qfleet@sha256:0 is not registry/name"),
        (
            {"service_account": "a@b.c"},
            r"SERVICE_ACCOUNT=a@b.c is for .* Google Cloud.*OVERLAY=gke",
        ),
        ({"gate_port": 0}, r"RENDEZVOUS_PORT=0 .* give a number"),
        (
            {"gate_port": 2223},
            r"RENDEZVOUS_PORT=2223, PROFILER_PORT=2223 and .* three different ports",
        ),
    ],
)
def test_what_pods_cannot_follow_is_refused_in_one_sentence(k8s: Path, said, sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        manifests.training(settings(**said))


def test_the_longest_name_that_dns_takes_is_taken():
    said = settings(run="a" * 53, workers=100, lanes=200, batch=200)
    assert one(objects.training(said), "TFJob")["metadata"]["name"] == "a" * 53


def test_data_in_a_bucket_is_taken():
    told = one(objects.training(settings(data="gs://b/my.csv")), "ConfigMap")
    assert told["data"]["QFLEET_DATA"] == "gs://b/my.csv"


def test_a_run_named_like_another_build_is_not_written(k8s: Path):
    with pytest.raises(
        SettingsError, match=r"RUN=inference would be written to k8s/inference.yaml"
    ):
        manifests.main(["RUN=inference"])


def test_a_profiler_that_is_off_has_no_port():
    found = objects.training(settings(profiler_port=0))
    names = [port["name"] for port in container(one(found, "TFJob"))["ports"]]
    assert names == ["tfjob-port", "gate"]
    assert _open(one(found, "NetworkPolicy"), BOARD) == set()


def test_no_kubectl_is_said_in_one_sentence(k8s: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(k8s))
    with pytest.raises(SettingsError, match=r"there is no kubectl on the PATH.*install it"):
        manifests.training(settings())


@needs_kubectl
def test_what_kustomize_refuses_is_said_with_the_folder(k8s: Path):
    (k8s / "overlays/local/patches/worker.yaml").write_text("- op: remove\n  path: /spec/none\n")
    with pytest.raises(
        SettingsError, match=r"^kustomize can't build k8s/overlays/local/training: "
    ) as told:
        manifests.training(settings())
    assert "\n" not in str(told.value)


@needs_kubectl
def test_a_run_that_no_job_could_be_called_may_be_answered_with(k8s: Path):
    job = one(manifests.inference(settings(run="1qcnn")), "Job")
    assert job["metadata"]["name"] == "inference-1qcnn"


@needs_kubectl
@pytest.mark.parametrize("text", ["data: 3", "data: {storage: 3}", "[", "", "- data"])
def test_an_own_file_that_is_damaged_is_told(k8s: Path, text: str):
    (k8s / "overlays/local/patches/own.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"^own.yaml of overlay local is no ConfigMap"):
        manifests.training(settings())


def test_digests_that_are_damaged_are_told(k8s: Path):
    site_config.DIGESTS.write_text("{")
    with pytest.raises(SettingsError, match=r"images.json is damaged: `make push`"):
        site_config.image_reference("worker", OWN["image"])


@needs_kubectl
def test_nothing_is_written_where_something_is_refused(k8s: Path):
    before = {path: path.read_bytes() for path in k8s.rglob("*.yaml")}
    with pytest.raises(SettingsError):
        manifests.main(["WORKERS=3", "DATA=my.csv"])
    assert {path: path.read_bytes() for path in k8s.rglob("*.yaml")} == before


@pytest.mark.parametrize("said", ["WORKERS=auto", "BATCH=auto"])
def test_a_manifest_holds_numbers(said):
    with pytest.raises(SettingsError, match=r"a manifest holds numbers.*make plan"):
        manifests.training(Settings.from_args([said]))
