"""Manifests: the committed files, the effect of settings and overlays, and rejected settings."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.errors import SettingsError
from common.lease.holder import CLUSTER_CA
from common.settings import Settings
from launch import inference_objects, manifests, objects, services, site_config
from launch.engines import ENGINES, TEMPLATE_KINDS
from launch.pods import ROOT, VERSION, StorageLocation, pod_specs

COMMITTED = ("qcnn", "qcnn-jobset", "qcnn-trainjob", "inference", "tensorboard")
SITE = {"storage": "gs://bucket/runs", "service_account": "a@b.iam.gserviceaccount.com"}
SITE["image"] = "europe-docker.pkg.dev/project/repository/qfleet"

needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl (with kustomize) is not on the PATH"
)


def settings(**values: Any) -> Settings:
    """The committed settings with other values; the environment is not read."""
    return Settings.from_record({**manifests.COMMITTED, **values})


def one(found: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The one object of a kind (and name)."""
    (it,) = (o for o in found if o["kind"] == kind and name in ("", o["metadata"]["name"]))
    return it


def built(values: Settings, part: str = "training") -> list[dict[str, Any]]:
    """The objects of a part, with the overlay applied."""
    return list(manifests.build(values, part).objects)


def container(it: dict[str, Any]) -> dict[str, Any]:
    """The container of an object's pods."""
    (spec,) = pod_specs(it)
    return spec["containers"][0]


def env(it: dict[str, Any]) -> dict[str, Any]:
    """The environment variables in an object's pods that have a value."""
    return {e["name"]: e.get("value") for e in container(it)["env"]}


def committed(name: str) -> list[dict[str, Any]]:
    """The objects of a committed build."""
    return list(yaml.safe_load_all((ROOT / "k8s" / f"{name}.yaml").read_text(encoding="utf-8")))


@pytest.fixture
def k8s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace k8s/ by a copy that a test may change; no image was pushed."""
    copy = tmp_path / "k8s"
    shutil.copytree(ROOT / "k8s", copy)
    monkeypatch.setattr(manifests, "K8S", copy)
    monkeypatch.setattr(site_config, "DIGESTS", tmp_path / ".images.json")
    return copy


# Committed files


@needs_kubectl
def test_committed_files_are_current():
    manifests.main(["--check"])


@needs_kubectl
@pytest.mark.parametrize("path", ["qcnn.yaml", "qcnn-jobset.yaml", "base/training/training.yaml"])
def test_check_names_stale_file(k8s: Path, path: str):
    file = k8s / path
    file.write_text(re.sub("(replicas|parallelism): 2", r"\1: 3", file.read_text()))
    with pytest.raises(SettingsError, match=f"^k8s/{path} is stale: .*`make manifests`"):
        manifests.main(["--check"])


@needs_kubectl
def test_check_accepts_filled_in_own_yaml(k8s: Path):
    file = k8s / "overlays/gke/patches/own.yaml"
    file.write_text(file.read_text().replace("storage: ''", "storage: gs://mine/runs  # my bucket"))
    manifests.main(["--check"])


@needs_kubectl
def test_main_for_other_overlay_writes_only_its_own_yaml(k8s: Path, capsys: Any):
    manifests.main(["OVERLAY=gke", *(f"{name}={value}" for name, value in SITE.items())])
    assert capsys.readouterr().out == "k8s/overlays/gke/patches/own.yaml written\n"
    manifests.main(["--check"])
    name = SITE["image"]
    assert yaml.safe_load((k8s / "overlays/gke/patches/own.yaml").read_text())["data"] == {
        "storage": SITE["storage"],
        "service-account": SITE["service_account"],
        "image-worker": f"{name}-worker:{VERSION}",
        "image-worker-gpu": f"{name}-worker-gpu:{VERSION}",
        "image-tensorboard": f"{name}-tensorboard:{VERSION}",
    }


@needs_kubectl
def test_main_writes_base_and_build_named_after_run(k8s: Path):
    manifests.main(["MODEL=hybrid", "WORKERS=3"])
    (job,) = (
        o for o in yaml.safe_load_all((k8s / "hybrid.yaml").read_text()) if o["kind"] == "TFJob"
    )
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    assert "name: qfleet-hybrid.training" in (k8s / "base/training/training.yaml").read_text()


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_images_have_this_version(name: str):
    images = [c["image"] for it in committed(name) for p in pod_specs(it) for c in p["containers"]]
    assert images
    assert all(image.partition("qfleet-")[2].endswith(f":{VERSION}") for image in images), images


# Least privilege


def _restricted(pod: dict[str, Any]) -> bool:
    """Assert that a pod meets the Pod Security Standard `restricted`, and has no token."""
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
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
        assert each["resources"]["limits"].keys() >= {"cpu", "memory", "ephemeral-storage"}
        assert each["resources"]["requests"].keys() >= {"cpu", "memory", "ephemeral-storage"}
    volumes = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]
    assert volumes
    assert all("sizeLimit" in volume for volume in volumes)
    return True


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_pods_are_restricted_and_have_no_token(name: str):
    found = committed(name)
    assert [_restricted(pod) for it in found for pod in pod_specs(it)]
    assert one(found, "ServiceAccount")["automountServiceAccountToken"] is False


@needs_kubectl
@pytest.mark.parametrize("overlay", ["gke", "gpu"])
@pytest.mark.parametrize("build", [*manifests.PARTS, "jobset", "trainjob"])
def test_overlays_keep_pods_restricted(k8s: Path, overlay: str, build: str):
    api, build = (build, "training") if build in ENGINES else ("tfjob", build)
    found = built(settings(overlay=overlay, job_api=api, **SITE), build)
    assert [_restricted(pod) for it in found for pod in pod_specs(it)]


def _open(it: dict[str, Any], pod: dict[str, str], *, to: bool = False) -> set[int]:
    """The ports that a NetworkPolicy opens from, or to, pods with these labels."""
    return {
        port["port"]
        for rule in it["spec"]["egress" if to else "ingress"]
        for peer in rule["to" if to else "from"]
        if "namespaceSelector" not in peer and "podSelector" in peer
        if peer["podSelector"]["matchLabels"].items() <= pod.items()
        for port in rule.get("ports", [{"port": 0}])
    }


def _networks(it: dict[str, Any]) -> dict[str, set[int]]:
    """The ports that a NetworkPolicy opens to networks outside of the cluster."""
    found: dict[str, set[int]] = {}
    for rule in it["spec"]["egress"]:
        for peer in rule["to"]:
            if "ipBlock" in peer:
                ports = {port["port"] for port in rule["ports"]}
                found.setdefault(peer["ipBlock"]["cidr"], set()).update(ports)
    return found


WORKER = {"training.kubeflow.org/job-name": "qfleet-qcnn", "app.kubernetes.io/part-of": "qfleet"}
TENSORBOARD = {"app.kubernetes.io/component": "tensorboard", "app.kubernetes.io/part-of": "qfleet"}


def test_policy_admits_peers_and_tensorboard_to_the_profiler():
    policy = one(committed("qcnn"), "NetworkPolicy", "qfleet-qcnn.training")
    assert _open(policy, WORKER) == {2222, 2224}
    found = objects.training(settings(profiler_port=2223))
    policy = one(found, "NetworkPolicy", "qfleet-qcnn.training")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= WORKER.items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert _open(policy, WORKER) == {2222, 2223, 2224}
    assert _open(policy, TENSORBOARD) == {2223}
    assert _open(policy, WORKER | {"training.kubeflow.org/job-name": "other"}) == set()


def test_policies_of_storage_and_tensorboard_admit_labelled_pods():
    storage = one(committed("qcnn"), "NetworkPolicy", "qfleet-storage")
    assert (_open(storage, WORKER), _open(storage, {"app": "other"})) == ({9023}, set())
    assert storage["spec"]["egress"] == []
    board = one(committed("tensorboard"), "NetworkPolicy")
    assert _open(board, WORKER) == set()
    assert _open(board, {"qfleet/opens-tensorboard": "true"}) == {5001}
    assert _open(board, TRAINING, to=True) == {0}  # any port; the worker's policy opens one
    inference = one(committed("inference"), "NetworkPolicy")
    assert inference["spec"]["ingress"] == []
    job = one(committed("inference"), "Job")
    selected = inference["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= job["spec"]["template"]["metadata"]["labels"].items()


STORAGE = {"app.kubernetes.io/component": "storage", "app.kubernetes.io/part-of": "qfleet"}
TRAINING = STORAGE | {"app.kubernetes.io/component": "training"}
DNS = {"169.254.20.10/32": {53}}


@pytest.mark.parametrize("name", COMMITTED)
def test_pods_reach_dns_and_the_emulator_only(name: str):
    policies = [it for it in committed(name) if it["kind"] == "NetworkPolicy"]
    for it in policies:
        assert it["spec"]["policyTypes"] == ["Ingress", "Egress"]
        if it["metadata"]["name"] == "qfleet-storage":
            continue
        assert _networks(it) == DNS
        assert _open(it, STORAGE, to=True) == {9023}
        dns = it["spec"]["egress"][0]["to"][0]
        assert dns["namespaceSelector"]["matchLabels"] == {
            "kubernetes.io/metadata.name": "kube-system"
        }
    selected = [it["spec"]["podSelector"]["matchLabels"].items() for it in policies]
    for it in committed(name):
        for pod in pod_specs(it):
            engine = TEMPLATE_KINDS.get(it["kind"])
            template = engine.template(it) if engine else it["spec"]["template"]
            labels = template["metadata"]["labels"]
            if engine:  # its controller adds the label
                labels = labels | {engine.job_label: it["metadata"]["name"]}
            assert any(labels.items() >= each for each in selected), pod


def test_workers_reach_their_own_peers_only():
    policy = one(committed("qcnn"), "NetworkPolicy", "qfleet-qcnn.training")
    assert _open(policy, WORKER, to=True) == {2222, 2224}
    other = WORKER | {"training.kubeflow.org/job-name": "qfleet-other"}
    assert _open(policy, other, to=True) == set()


@needs_kubectl
@pytest.mark.parametrize("build", manifests.PARTS)
def test_gke_pods_reach_google_and_their_token_only(k8s: Path, build: str):
    policy = one(built(settings(overlay="gke", **SITE), build), "NetworkPolicy")
    token = {"169.254.169.254/32": {80, 53}, "169.254.169.252/32": {988}}
    assert _networks(policy) == DNS | token | {"0.0.0.0/0": {443}}
    (rule,) = (
        r
        for r in policy["spec"]["egress"]
        if {"port": 443, "protocol": "TCP"} in r.get("ports", [])
    )
    excluded = rule["to"][0]["ipBlock"]["except"]
    for address in ("10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"):
        assert any(ip_address(address) in ip_network(cidr) for cidr in excluded)
    assert not any(ip_address("142.250.1.207") in ip_network(cidr) for cidr in excluded)
    assert _open(policy, STORAGE, to=True) == set()


@needs_kubectl
def test_storage_cidr_narrows_the_reachable_networks(k8s: Path):
    values = settings(overlay="gke", storage_cidr="199.36.153.8/30,10.2.0.0/16", **SITE)
    found = _networks(one(built(values), "NetworkPolicy"))
    assert found.keys() >= {"199.36.153.8/30", "10.2.0.0/16"}
    assert "0.0.0.0/0" not in found


@pytest.mark.parametrize("value", ["169.254.169.254/32", "storage", "10.0.0.1/8"])
def test_storage_cidr_refuses_metadata_server_and_text(value: str):
    with pytest.raises(SettingsError, match="STORAGE_CIDR"):
        Settings.from_args([f"STORAGE_CIDR={value}"])


# Names


RUNS = ("a", "a-inference", "storage", "tensorboard", "default-deny", "qfleet", "a-training")


def test_names_of_all_runs_and_services_differ():
    names: list[tuple[str, str]] = []
    for run in RUNS:
        values = settings(run=run, model="package.custom:build", image=SITE["image"])
        for found in (objects.training(values), inference_objects.inference(values)):
            names += [(it["kind"], it["metadata"]["name"]) for it in found]
    for found in (services.tensorboard(settings()), services.storage()):
        names += [(it["kind"], it["metadata"]["name"]) for it in found]
    shared = ("ServiceAccount", "qfleet")
    rest = [each for each in names if each != shared]
    assert len(set(rest)) == len(rest)
    assert all(name.startswith("qfleet-") for _, name in rest)


def test_pods_leave_a_lost_node_after_30_seconds():
    for name in COMMITTED:
        for it in committed(name):
            for pod in pod_specs(it):
                waits = {each["key"]: each["tolerationSeconds"] for each in pod["tolerations"]}
                assert waits == {
                    "node.kubernetes.io/not-ready": 30,
                    "node.kubernetes.io/unreachable": 30,
                }


# Settings


@needs_kubectl
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_setting_is_used_consistently(k8s: Path, workers: int):
    job = one(built(settings(workers=workers, gang_scheduling=True)), "TFJob")
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == workers
    assert job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == workers
    assert env(job)["QFLEET_WORKERS"] == str(workers)


WEEK = 604_800


def test_jobs_have_a_deadline_that_the_chief_knows():
    assert one(committed("qcnn"), "ConfigMap")["data"]["QFLEET_DEADLINE"] == str(WEEK)
    assert one(committed("inference"), "Job")["spec"]["activeDeadlineSeconds"] == WEEK
    job = one(objects.training(settings(deadline=600)), "TFJob")
    assert job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 600


def test_tfjob_survives_the_loss_of_pods():
    job = one(committed("qcnn"), "TFJob", "qfleet-qcnn")["spec"]
    assert job["enableDynamicWorker"] is True
    assert job["successPolicy"] == "AllWorkers"
    assert job["tfReplicaSpecs"].keys() == {"Worker"}
    assert job["tfReplicaSpecs"]["Worker"]["restartPolicy"] == "ExitCode"
    assert job["runPolicy"] == {
        "activeDeadlineSeconds": WEEK,
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": 86400,
    }


def test_elastic_job_is_done_when_its_chief_is():
    elastic = settings(workers=3, min_workers=2, elastic_after=60, gang_scheduling=True)
    found = objects.training(elastic)
    job = one(found, "TFJob")["spec"]
    assert job["successPolicy"] == ""  # the operator's default: worker 0 decides
    assert job["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    assert job["runPolicy"]["schedulingPolicy"]["minAvailable"] == 2
    passed = one(found, "ConfigMap")["data"]
    assert (passed["QFLEET_MIN_WORKERS"], passed["QFLEET_ELASTIC_AFTER"]) == ("2", "60")


def test_names_are_those_of_operator_and_tutorial():
    it = container(one(committed("qcnn"), "TFJob"))
    assert it["name"] == "tensorflow"
    ports = {port["name"]: port["containerPort"] for port in it["ports"]}
    assert ports == {"tfjob-port": 2222, "rendezvous": 2224}
    board = committed("tensorboard")
    assert one(board, "Deployment")["metadata"]["name"] == "qfleet-tensorboard"
    service = one(board, "Service")
    assert service["metadata"]["name"] == "qfleet-tensorboard"
    assert service["spec"]["ports"][0]["port"] == 5001
    assert one(committed("inference"), "Job")["metadata"]["name"] == "qfleet-qcnn-inference"


def _labels(job: dict[str, Any]) -> dict[str, str]:
    return job["metadata"]["labels"]


def _policy(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["runPolicy"]


def _pod(job: dict[str, Any]) -> dict[str, Any]:
    return job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]


@pytest.mark.parametrize(
    ("name", "value", "where", "key", "expected"),
    [
        ("queue", "team", _labels, "kueue.x-k8s.io/queue-name", "team"),
        ("priority_class", "high", _pod, "priorityClassName", "high"),
        ("gang_scheduling", True, _policy, "schedulingPolicy", {"minAvailable": 2}),
    ],
)
def test_optional_setting_adds_its_field(
    name: str, value: Any, where: Callable[..., Any], key: str, expected: Any
):
    present, absent = (
        one(objects.training(settings(**values)), "TFJob") for values in ({name: value}, {})
    )
    assert where(present)[key] == expected
    assert key not in where(absent)


def test_config_map_has_only_settings_without_default():
    values = settings(epochs=3, verbose=True, workers=3, deadline=9, cpu="4", storage="gs://b/r")
    config = one(objects.training(values), "ConfigMap")
    assert config["metadata"]["name"] == "qfleet-qcnn.training"
    assert config["data"] == {
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
    [
        *[("label_column", text, text)
          for text in ("1e3", "n", "0x1F", "007", "~", "2026-01-01", "No: [#]")],
        ("profile_steps", "10:20", "10:20"),
        ("classes", "y,n", "y,n"),
        ("learning_rate", 1e-05, "1e-05"),
    ],
)  # fmt: skip
def test_to_yaml_keeps_text_that_looks_like_a_number(k8s: Path, name, value, text):
    found = built(settings(**{name: value}))
    assert one(found, "ConfigMap")["data"][f"QFLEET_{name.upper()}"] == text
    again = yaml.safe_load_all(manifests.to_yaml(found))
    assert list(again) == found


@needs_kubectl
def test_requests_of_overlay_are_capped_at_limits(k8s: Path):
    found = built(settings(cpu="100m", memory="500Mi", scratch="100Mi"))
    limits = {"cpu": "100m", "memory": "500Mi", "ephemeral-storage": "100Mi"}
    assert container(one(found, "TFJob"))["resources"] == {"limits": limits, "requests": limits}
    usual = container(one(built(settings()), "TFJob"))["resources"]
    assert usual["requests"] == {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "512Mi"}
    assert usual["limits"] == {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "4Gi"}


def test_overlay_local_fits_a_node_of_two_cores():
    requests = []
    for name in ("qcnn", "inference", "tensorboard"):
        for it in committed(name):
            for pod in pod_specs(it):
                copies = 2 if it["kind"] == "TFJob" else 1
                requests += [c["resources"]["requests"]["cpu"] for c in pod["containers"]] * copies
    assert len(requests) == 5
    assert sum(int(cpu.removesuffix("m")) for cpu in requests) <= 1000


def test_worker_pods_write_events_to_their_logs():
    for name, kind in (("qcnn", "TFJob"), ("qcnn-jobset", "JobSet"), ("inference", "Job")):
        assert env(one(committed(name), kind))["QFLEET_EVENTS"] == "stdout"
    assert "QFLEET_EVENTS" not in env(one(committed("tensorboard"), "Deployment"))


def test_inference_job_fails_on_user_errors_and_retries_others():
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


@pytest.mark.parametrize("build", [objects.training, inference_objects.inference])
def test_pods_know_their_cluster(build: Callable[..., list[dict[str, Any]]]) -> None:
    job = build(settings(parallelism=2))[-1]
    (variable,) = (e for e in container(job)["env"] if e["name"] == CLUSTER_CA)
    source = variable["valueFrom"]["configMapKeyRef"]
    assert source == {"name": "kube-root-ca.crt", "key": "ca.crt", "optional": True}


def test_inference_with_parallelism_is_an_indexed_job():
    found = inference_objects.inference(settings(parallelism=4))
    job = one(found, "Job")
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["backoffLimitPerIndex"] > 0
    assert "backoffLimit" not in spec, "it would count the failures of all pods together"
    single = one(inference_objects.inference(settings()), "Job")["spec"]
    assert spec["podFailurePolicy"] == single["podFailurePolicy"]
    assert "completionMode" not in single
    assert container(job)["command"] == ["python", "-m", "inference.worker"]
    (job_id,) = (e for e in container(job)["env"] if e["name"] == "QFLEET_JOB_ID")
    path = job_id["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert one(found, "ConfigMap")["data"]["QFLEET_PARALLELISM"] == "4"
    for key in ("securityContext", "automountServiceAccountToken", "serviceAccountName"):
        assert spec["template"]["spec"][key] == single["template"]["spec"][key]


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"state_shards": 2}, "^STATE_SHARDS=2 "),
        ({"run": "r" * 52, "parallelism": 2}, "PARALLELISM=2 needs the pod name qfleet-r"),
    ],
)
def test_inference_refuses_settings_by_name(values, part):
    with pytest.raises(SettingsError, match=part):
        inference_objects.inference(settings(**values))


def test_inference_with_weights_has_no_run():
    data = one(inference_objects.inference(settings(weights="gs://b/model")), "ConfigMap")["data"]
    assert data["QFLEET_WEIGHTS"] == "gs://b/model"
    assert "QFLEET_RUN" not in data


# Overlays


@needs_kubectl
@pytest.mark.parametrize("api", ENGINES)
def test_overlay_gke_has_bucket_identity_images_and_spot(k8s: Path, api: str):
    pushed = f"{SITE['image']}-worker@sha256:{'0' * 64}"
    site_config.DIGESTS.write_text(
        json.dumps({"worker": pushed, "tensorboard": "another/name@sha256:1"})
    )
    found = built(settings(overlay="gke", job_api=api, **SITE))
    engine = ENGINES[api]
    own = {engine.kind, engine.template_kind or engine.kind}
    assert {it["kind"] for it in found} == {"ConfigMap", "NetworkPolicy", "ServiceAccount", *own}
    job = one(found, engine.template_kind or engine.kind)
    assert container(job)["image"] == pushed
    assert "STORAGE_EMULATOR_HOST" not in env(job)
    assert one(found, "ConfigMap")["data"]["QFLEET_STORAGE"] == SITE["storage"]
    account = one(found, "ServiceAccount")["metadata"]["annotations"]
    assert account == {"iam.gke.io/gcp-service-account": SITE["service_account"]}
    (spec,) = pod_specs(job)
    assert [each["key"] for each in spec["tolerations"]][2:] == ["cloud.google.com/gke-spot"]
    assert spec["affinity"].keys() == {"nodeAffinity", "podAntiAffinity"}
    board = one(built(settings(overlay="gke", **SITE), "tensorboard"), "Deployment")
    assert container(board)["image"] == f"{SITE['image']}-tensorboard:{VERSION}"
    assert env(board)["QFLEET_STORAGE"] == SITE["storage"]


@needs_kubectl
@pytest.mark.parametrize("api", ENGINES)
def test_overlay_gpu_adds_a_gpu_per_worker_and_its_image(k8s: Path, api: str):
    values = settings(overlay="gpu", job_api=api, **SITE)
    job = one(built(values), ENGINES[api].template_kind or ENGINES[api].kind)
    assert container(job)["image"] == f"{SITE['image']}-worker-gpu:{VERSION}"
    assert container(job)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    (spec,) = pod_specs(job)
    assert [each["key"] for each in spec["tolerations"]][2:] == [
        "cloud.google.com/gke-spot",
        "nvidia.com/gpu",
    ]
    inference = container(one(built(values, "inference"), "Job"))
    assert inference["image"] == f"{SITE['image']}-worker:{VERSION}"
    assert "nvidia.com/gpu" not in inference["resources"]["limits"]


@needs_kubectl
@pytest.mark.parametrize("api", ENGINES)
def test_device_cuda_needs_an_overlay_with_gpus(k8s: Path, api: str):
    values = {"job_api": api, "device": "cuda", **SITE}
    with pytest.raises(SettingsError, match=r"^DEVICE=cuda .* OVERLAY=gke .* set OVERLAY=gpu"):
        built(settings(overlay="gke", **values))
    found = built(settings(overlay="gpu", **values))
    data = [each["data"] for each in found if each["kind"] == "ConfigMap"]
    assert "cuda" in [each.get("QFLEET_DEVICE") for each in data]
    assert built(settings(overlay="gke", **values), "inference")
    values |= {"noise": "depolarizing:0.01", "qubits": 13}
    assert built(settings(overlay="gke", **values))
    job = one(
        built(settings(overlay="gpu", **values)), ENGINES[api].template_kind or ENGINES[api].kind
    )
    assert "nvidia.com/gpu" not in container(job)["resources"]["limits"]


@needs_kubectl
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"device": "auto"}, True),  # the worker chooses, when it has compiled the circuit
        ({"device": "cpu"}, False),
        ({"device": "auto", "reproducible": True}, False),
        ({"device": "auto", "noise": "depolarizing:0.01"}, False),
        ({"device": "cpu", "simulator": "tensorflow"}, True),
    ],
)
def test_overlay_gpu_requests_no_gpu_for_the_cpu(k8s: Path, values: dict[str, Any], wanted: bool):
    job = one(built(settings(overlay="gpu", **values, **SITE)), "TFJob")
    assert ("nvidia.com/gpu" in container(job)["resources"]["limits"]) == wanted


@needs_kubectl
@pytest.mark.parametrize("overlay", ["gke", "gpu"])
@pytest.mark.parametrize("missing", list(SITE))
def test_incomplete_own_yaml_is_refused_with_command(k8s: Path, overlay: str, missing: str):
    values = {name: value for name, value in SITE.items() if name != missing}
    with pytest.raises(SettingsError, match=r"gke/patches/own.yaml is incomplete") as raised:
        built(settings(overlay=overlay, **values))
    command = str(raised.value).partition("`make manifests")[2]
    assert [name for name in SITE if f"{name.upper()}=" in command] == [missing]


@needs_kubectl
def test_user_overlay_may_be_based_on_another(k8s: Path):
    shutil.copytree(k8s / "overlays/gpu", k8s / "overlays/other")
    found = built(settings(overlay="other", **SITE))
    assert container(one(found, "TFJob"))["image"] == f"{SITE['image']}-worker-gpu:{VERSION}"


STORAGE_PATCHES = {
    "ConfigMap": """
patches:
  - target: {kind: ConfigMap, labelSelector: qfleet/settings=true}
    patch: |
      - {op: replace, path: /data/QFLEET_STORAGE, value: "gs://mine/runs"}
""",
    "container": """
patches:
  - target: {kind: TFJob}
    patch: |
      - op: add
        path: /spec/tfReplicaSpecs/Worker/template/spec/containers/0/env/-
        value: {name: QFLEET_STORAGE, value: "gs://mine/runs"}
""",
    "generator": """
configMapGenerator:
  - {name: qfleet-qcnn.training, behavior: merge, literals: ["QFLEET_STORAGE=gs://mine/runs"]}
""",
}


@needs_kubectl
@pytest.mark.parametrize("way", STORAGE_PATCHES)
def test_storage_of_build_is_that_of_a_user_overlay(k8s: Path, way: str):
    shutil.copytree(k8s / "overlays/gke", k8s / "overlays/mine")
    file = k8s / "overlays/mine/training/kustomization.yaml"
    file.write_text(file.read_text().replace("../patches", "../patches, ../last"))
    (k8s / "overlays/mine/last").mkdir()
    text = f"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n{STORAGE_PATCHES[way]}"
    (k8s / "overlays/mine/last/kustomization.yaml").write_text(text)
    found = manifests.build(settings(overlay="mine", **SITE))
    assert found.storage == StorageLocation("gs://mine/runs", "")


@needs_kubectl
def test_overlay_local_accepts_other_path_and_images(k8s: Path):
    found = built(settings(storage="gs://qfleet/other", image=SITE["image"]))
    assert one(found, "ConfigMap")["data"]["QFLEET_STORAGE"] == "gs://qfleet/other"
    assert container(one(found, "Deployment", "qfleet-storage"))["command"][-1] == "qfleet"
    assert container(one(found, "TFJob"))["image"] == f"{SITE['image']}-worker:{VERSION}"
    emulator = container(one(found, "Deployment", "qfleet-storage"))
    assert emulator["image"] == f"{SITE['image']}-storage:{VERSION}"


@needs_kubectl
def test_own_yaml_with_bucket_unknown_to_emulator_is_refused(k8s: Path):
    file = k8s / "overlays/local/patches/own.yaml"
    file.write_text(file.read_text().replace("gs://qfleet/runs", "gs://other/runs"))
    with pytest.raises(SettingsError, match=r"^STORAGE=gs://other/runs "):
        built(settings(), "inference")


# Models of users


@needs_kubectl
@pytest.mark.parametrize("build", ["training", "inference"])
def test_user_model_is_mounted_where_python_imports_from(
    k8s: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str
):
    text = "def build(features, settings):\n    return 'é'\n"
    (tmp_path / "custom.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = built(settings(model="custom:build", run="r"), build)
    name = {"training": "qfleet-r.training-model", "inference": "qfleet-r.inference-model"}[build]
    assert one(found, "ConfigMap", name)["data"] == {"custom.py": text}
    it = one(found, {"training": "TFJob", "inference": "Job"}[build])
    mount = {"name": "model", "mountPath": "/qfleet/custom.py", "subPath": "custom.py"}
    assert mount in container(it)["volumeMounts"]
    (spec,) = pod_specs(it)
    assert {"name": "model", "configMap": {"name": name}} in spec["volumes"]


def test_user_model_without_file_needs_image():
    with pytest.raises(SettingsError, match=r"^MODEL=package.custom:build: .*IMAGE"):
        objects.training(settings(model="package.custom:build"))
    found = objects.training(settings(model="package.custom:build", image=SITE["image"]))
    assert [it["kind"] for it in found].count("ConfigMap") == 1


# Settings that can't be used in a cluster


@needs_kubectl
@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"run": "a" * 53, "workers": 101, "partitions": 200, "batch": 200}, "RUN by 8$"),
        ({"storage": "/data"}, r"^STORAGE=/data .*gs://bucket/path"),
        ({"storage": "gs://other/runs"}, r"^STORAGE=gs://other/runs .*OVERLAY=gke"),
        ({"storage": "gs://qfleet2"}, r"^STORAGE=gs://qfleet2 .* bucket qfleet"),
        ({"data": "my.csv"}, r"^DATA=my.csv .*DATA=gs://"),
        ({"input": "new.csv"}, r"^INPUT=new.csv "),
        ({"weights": "w.h5"}, r"^WEIGHTS=w.h5 "),
        ({"overlay": "none"}, r"^OVERLAY=none .* gke, gpu, local"),
        ({"image": "me/qfleet:1"}, r"^IMAGE=me/qfleet:1 is not registry/name"),
        ({"image": "qfleet@sha256:0"}, r"^IMAGE=qfleet@sha256:0 is not registry/name"),
        ({"service_account": "a@b.c"}, r"^SERVICE_ACCOUNT=a@b.c .*OVERLAY=gke"),
        ({"rendezvous_port": 0}, r"^RENDEZVOUS_PORT=0 .*RENDEZVOUS_PORT=2224"),
        (
            {"rendezvous_port": 2223, "profiler_port": 2223},
            r"^RENDEZVOUS_PORT=2223, PROFILER_PORT=2223 ",
        ),
    ],
)
def test_training_refuses_settings_by_name(k8s: Path, values, part: str):
    with pytest.raises(SettingsError, match=part):
        built(settings(**values))


def test_run_with_longest_dns_name_is_accepted():
    values = settings(run="a" * 46, workers=100, partitions=200, batch=200)
    assert one(objects.training(values), "TFJob")["metadata"]["name"] == f"qfleet-{'a' * 46}"


def test_data_in_a_bucket_is_accepted():
    config = one(objects.training(settings(data="gs://b/my.csv")), "ConfigMap")
    assert config["data"]["QFLEET_DATA"] == "gs://b/my.csv"


def test_main_refuses_run_named_like_another_build(k8s: Path):
    with pytest.raises(SettingsError, match=r"^RUN=inference .* k8s/inference.yaml"):
        manifests.main(["RUN=inference"])


def test_profiler_opens_no_port_by_default():
    found = objects.training(settings())
    names = [port["name"] for port in container(one(found, "TFJob"))["ports"]]
    assert names == ["tfjob-port", "rendezvous"]
    assert _open(one(found, "NetworkPolicy"), TENSORBOARD) == set()


def write_thread_states(process: Path, *states: str) -> None:
    """Write the states of a process's threads, as /proc/1 has them in a pod."""
    for thread, state in enumerate(states):
        folder = process / "task" / str(1 + thread)
        folder.mkdir(parents=True)
        (folder / "status").write_text(f"Name:\tpython\nState:\t{state} (of this test)\n")


def test_liveness_probe_fails_for_an_old_heartbeat_file(tmp_path: Path):
    it = container(one(committed("qcnn"), "TFJob"))
    file = env(one(committed("qcnn"), "TFJob"))["QFLEET_HEARTBEAT_FILE"]
    write_thread_states(tmp_path, "S")  # of this machine's first process, it may be R

    def probe(kind: str, path: Path) -> int:
        command = [
            part.replace(file, str(path)).replace("/proc/1", str(tmp_path))
            for part in it[kind]["exec"]["command"]
        ]
        return subprocess.run(command, check=False, capture_output=True).returncode

    path = tmp_path / "heartbeat"
    assert (probe("startupProbe", path), probe("livenessProbe", path)) == (1, 1)
    path.touch()
    assert (probe("startupProbe", path), probe("livenessProbe", path)) == (0, 0)
    past = time.time() - 60
    os.utime(path, (past, past))
    assert probe("livenessProbe", path) == 1


@pytest.mark.parametrize(
    ("state", "age", "code"),
    [("R", 60, 0), ("D", 60, 0), ("T", 60, 1), ("S", 60, 1), ("R", 300, 1)],
)
def test_liveness_probe_spares_a_starved_worker(tmp_path: Path, state: str, age: int, code: int):
    it = container(one(committed("qcnn"), "TFJob"))
    (path := tmp_path / "heartbeat").touch()
    os.utime(path, (time.time() - age,) * 2)
    write_thread_states(tmp_path, "S", state)
    command = it["livenessProbe"]["exec"]["command"][-1]
    command = command.replace("/tmp/heartbeat", str(path)).replace("/proc/1", str(tmp_path))
    assert subprocess.run(["sh", "-c", command], check=False).returncode == code


def test_missing_kubectl_is_a_settings_error(k8s: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(k8s))
    with pytest.raises(SettingsError, match=r"there is no kubectl on the PATH.*install it"):
        built(settings())


@needs_kubectl
def test_kustomize_error_names_the_folder(k8s: Path):
    (k8s / "overlays/local/patches/worker.yaml").write_text("- op: remove\n  path: /spec/none\n")
    with pytest.raises(
        SettingsError, match=r"^kustomize can't build k8s/overlays/local/training: "
    ) as raised:
        built(settings())
    assert "\n" not in str(raised.value)


@needs_kubectl
def test_run_may_start_with_a_digit(k8s: Path):
    job = one(built(settings(run="1qcnn"), "inference"), "Job")
    assert job["metadata"]["name"] == "qfleet-1qcnn-inference"
    job = one(built(settings(run="1qcnn")), "TFJob")
    assert job["metadata"]["name"] == "qfleet-1qcnn"


@needs_kubectl
@pytest.mark.parametrize("text", ["data: 3", "data: {storage: 3}", "[", "", "- data"])
def test_damaged_own_yaml_is_refused(k8s: Path, text: str):
    (k8s / "overlays/local/patches/own.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"^own.yaml of overlay local "):
        built(settings())


def test_damaged_digests_are_refused(k8s: Path):
    site_config.DIGESTS.write_text("{")
    with pytest.raises(SettingsError, match=r"images.json is damaged: .*`make push`"):
        site_config.image_reference("worker", SITE["image"])


@needs_kubectl
def test_main_writes_nothing_if_a_setting_is_refused(k8s: Path):
    before = {path: path.read_bytes() for path in k8s.rglob("*.yaml")}
    with pytest.raises(SettingsError):
        manifests.main(["WORKERS=3", "DATA=my.csv"])
    assert {path: path.read_bytes() for path in k8s.rglob("*.yaml")} == before


@pytest.mark.parametrize("word", ["WORKERS=auto", "BATCH=auto"])
def test_training_refuses_auto(word):
    with pytest.raises(SettingsError, match=r"WORKERS and BATCH.*make plan"):
        built(Settings.from_args([word]))
