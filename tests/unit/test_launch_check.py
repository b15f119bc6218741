"""`launch check`: the real client against an API server that answers, and the comparisons."""

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import kube_config

from common import events
from common.errors import ClusterError
from common.settings import Settings
from launch import controllers, manifests, objects, probe, room
from launch.commands.check import check
from launch.commands.status import status
from launch.console import ClientConsole
from launch.engines import ENGINES, TEMPLATE_KINDS
from launch.kube_client import KubeClient
from launch.pods import pod_specs
from launch.room import Demand
from launch.startup import StartupMonitor
from tests.support.fake_api_server import (
    JOBSET,
    KUEUE,
    TRAINJOB,
    FakeApiServer,
    api_server,
    named,
    write_kubeconfig,
)
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl (with kustomize) is not on the PATH"
)

ROOMY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
READY = [{"type": "Ready", "status": "True"}]


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Restore the levels of loggers that a client changes in its process."""
    loggers = [logging.getLogger(name) for name in (None, "urllib3", "kubernetes")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def use(monkeypatch: pytest.MonkeyPatch, file: Path, url: str) -> None:
    """Write a kubeconfig and use it; the library reads KUBECONFIG when it is imported."""
    write_kubeconfig(file, url)
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))


def node(name: str = "n", *, taints: Any = None, **allocatable: str) -> dict[str, Any]:
    """A node that is ready."""
    amounts = {**ROOMY, **allocatable}
    return named(
        name, spec={"taints": taints or []}, status={"allocatable": amounts, "conditions": READY}
    )


def deployment(name: str, namespace: str, image: str) -> dict[str, Any]:
    """A Deployment of one image."""
    pod = {"containers": [{"name": "manager", "image": image}]}
    return named(name, namespace, spec={"template": {"spec": pod}})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:
    """A cluster with JobSet, Trainer and Kueue, and a node."""
    with api_server(TRAINJOB, JOBSET, KUEUE) as it:
        it.objects["Node"] = [node()]
        use(monkeypatch, tmp_path / "kubeconfig", it.url)
        yield it


def run(
    capsys: pytest.CaptureFixture[str], *words: str, probe: bool = False
) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and the mark and text of each part."""
    settings = Settings.from_args(["MODEL=qcnn", *words], "cluster check", is_client=True)
    code = check(settings, probe=probe)
    lines = capsys.readouterr().out.splitlines()
    found = {line[4:16].strip(): (line[:2], line[16:]) for line in lines if line[2:4] == "  "}
    return code, found


def test_check_of_a_ready_cluster_is_ok_and_writes_nothing(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys)
    assert code == 0
    assert {mark for mark, _ in found.values()} == {"ok"}
    assert "user jane@lab" in found["server"][1]
    assert "no TFJob" in found["job APIs"][1]
    assert "a JobSet (JOB_API=auto)" in found["job"][1]
    assert server.writes == []


def test_check_names_versions_of_controllers(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.objects["Deployment"] = [
        deployment("kubeflow-trainer-controller-manager", "elsewhere", "r:5/trainer:v2.3.0"),
        deployment("kueue-controller-manager", "kueue-system", "r/kueue:v0.17.1@sha256:1234"),
    ]
    definition = named("jobsets.jobset.x-k8s.io")
    definition["metadata"]["labels"] = {"app.kubernetes.io/version": "v0.12.0"}
    server.objects["CustomResourceDefinition"] = [definition]
    text = run(capsys)[1]["job APIs"][1]
    for part in (
        "v1alpha1), controller 2.3.0",
        "v1alpha2), controller 0.12.0",
        "controller 0.17.1",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("words", "denied", "part", "mark", "text"),
    [
        (["JOB_API=tfjob"], [], "job", "--", "does not serve TFJob"),
        ([], [("create", "jobsets")], "permissions", "--", "create jobsets.jobset.x-k8s.io"),
        ([], [("get", "pods")], "permissions", "--", "get pods/log"),
        ([], [("list", "nodes")], "nodes", "??", "may not list nodes"),
        ([], [("list", "pods@")], "nodes", "ok", "you may not read them"),
        ([], [("list", "resourcequotas")], "quota", "??", "may not list resourcequotas"),
        (["WORKERS=60"], [], "nodes", "--", "WORKERS=60"),
        (["PRIORITY_CLASS=high"], [], "names", "--", "PRIORITY_CLASS=high"),
        (["QUEUE=team"], [], "queue", "--", "not a LocalQueue of namespace lab"),
    ],
)
def test_check_names_what_is_missing(
    server: FakeApiServer,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    denied: list[tuple[str, str]],
    part: str,
    mark: str,
    text: str,
) -> None:
    server.denied = {*denied}
    code, found = run(capsys, *words)
    assert found[part][0] == mark
    assert text in found[part][1]
    assert code == (ClusterError.exit_code if mark == "--" else 0)


def test_check_without_any_job_api_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with api_server() as server:
        use(monkeypatch, tmp_path / "kubeconfig", server.url)
        code, found = run(capsys)
    assert code == ClusterError.exit_code
    assert "kubectl apply" in found["job"][1]


def test_check_of_a_quota_counts_all_pods(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    hard, used = {"pods": "4"}, {"pods": "2"}
    server.objects["ResourceQuota"] = [named("small", status={"hard": hard, "used": used})]
    code, found = run(capsys)  # two workers and the storage emulator
    assert code == ClusterError.exit_code
    assert "small" in found["quota"][1]
    assert "pods: 3 needed, 2 left" in found["quota"][1]
    server.objects["Deployment"] = [named("qfleet-storage")]
    server.objects["Deployment"][0]["metadata"]["labels"] = {
        "app.kubernetes.io/part-of": "qfleet", "app.kubernetes.io/component": "storage",
    }  # fmt: skip
    assert run(capsys)[1]["quota"][0] == "ok"


def test_check_of_a_foreign_object_is_refused(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.objects["JobSet"] = [named("qfleet-qcnn")]
    code, found = run(capsys)
    assert code == ClusterError.exit_code
    assert "is not qfleet's" in found["names"][1]


def queue(**spec: Any) -> list[dict[str, Any]]:
    """A ClusterQueue with 4 CPUs."""
    resources = [{"name": "cpu", "nominalQuota": "4"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}
    return [named("all", spec={"resourceGroups": [group], **spec})]


@pytest.mark.parametrize(
    ("words", "cluster_queue", "mark", "text"),
    [
        (["WORKERS=2"], queue(), "ok", "has enough quota"),
        (["WORKERS=64"], queue(), "--", "never admits the job"),
        (["WORKERS=64"], queue(cohort="c"), "ok", "may borrow"),
        ([], [], "--", "which does not exist"),
    ],
)
def test_check_of_a_queue_compares_its_quota(
    server: FakeApiServer,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    cluster_queue: list[dict[str, Any]],
    mark: str,
    text: str,
) -> None:
    server.objects["LocalQueue"] = [named("team", spec={"clusterQueue": "all"})]
    server.objects["ClusterQueue"] = cluster_queue
    found = run(capsys, "QUEUE=team", *words)[1]["queue"]
    assert found[0] == mark
    assert text in found[1]


@pytest.mark.parametrize(("api", "mark"), [("trainjob", "--"), ("jobset", "ok")])
def test_check_of_a_queue_names_versions_that_conflict(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], api: str, mark: str
) -> None:
    server.objects |= {
        "LocalQueue": [named("team", spec={"clusterQueue": "all"})],
        "ClusterQueue": queue(),
        "Deployment": [
            deployment("kubeflow-trainer-controller-manager", "k", "r/trainer:v2.1.0"),
            deployment("kueue-controller-manager", "k", "r/kueue:v0.17.3"),
        ],
    }
    found = run(capsys, "QUEUE=team", f"JOB_API={api}")[1]["queue"]
    assert found[0] == mark
    assert ("kueue#11931" in found[1]) == (api == "trainjob")


@pytest.mark.parametrize(
    ("kueue", "trainer", "part"),
    [
        ("0.17.3", "2.1.0", "kueue#11931"),
        ("0.18.0", "2.1.0", "update Trainer"),
        ("0.16.1", "2.2.0", "update Kueue"),
        ("0.20.0", "2.2.1", "kueue#14504"),
        ("0.17.1", "2.3.0", ""),  # tests/e2e/test_kueue.py trains with this pair
        ("0.19.0", "2.2.1", ""),
        ("0.16.1", "2.1.0", ""),
        ("", "2.1.0", ""),
        ("0.17.1", "", ""),
    ],
)
def test_version_conflict_names_known_pairs_only(kueue: str, trainer: str, part: str) -> None:
    text = controllers.version_conflict(kueue, trainer)
    assert part in text
    assert bool(text) == bool(part)


def conflicting(server: FakeApiServer, api: str, queue: str) -> tuple[KubeClient, dict[str, Any]]:
    """A suspended job of a queue, in a cluster whose Kueue never starts a TrainJob."""
    server.objects["Deployment"] = [
        deployment("kubeflow-trainer-controller-manager", "k", "r/trainer:v2.1.0"),
        deployment("kueue-controller-manager", "k", "r/kueue:v0.17.3"),
    ]
    settings = Settings.from_args(["MODEL=qcnn", f"QUEUE={queue}", f"JOB_API={api}"])
    live = objects.training(settings)[-1]
    live["metadata"]["uid"] = "u"
    live["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    server.objects[live["kind"]] = [live]
    return KubeClient.connect(settings), live


@pytest.mark.parametrize(
    ("api", "queue", "ends"),
    [("trainjob", "team", True), ("trainjob", "", False), ("jobset", "team", False)],
)
def test_follower_of_a_job_that_never_starts_names_the_pair(
    server: FakeApiServer, api: str, queue: str, ends: bool
) -> None:
    cluster, live = conflicting(server, api, queue)
    monitor = StartupMonitor(cluster, ClientConsole(), 60)
    if ends:
        with pytest.raises(ClusterError, match="kueue#11931"):
            monitor.check(live, [])
    else:
        monitor.check(live, [])


def test_status_of_a_job_that_never_starts_names_the_pair(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    conflicting(server, "trainjob", "team")
    assert status(Settings.from_args(["RUN=qcnn"], "cluster status", is_client=True)) == 0
    assert "kueue#11931" in capsys.readouterr().out


def test_version_without_rights_is_that_of_the_definition(server: FakeApiServer) -> None:
    controller = controllers.of_engine(controllers.BY_KIND["TrainJob"])
    server.denied = {("list", "deployments")}
    definition = named(controller.definition)
    definition["metadata"]["labels"] = {"helm.sh/chart": "kubeflow-trainer-2.2.1"}
    server.objects["CustomResourceDefinition"] = [definition]
    cluster = KubeClient.connect(Settings.from_args([]))
    assert controllers.installed_version(cluster, controller) == "2.2.1"
    server.denied.add(("get", "customresourcedefinitions"))
    assert controllers.installed_version(cluster, controller) == ""


def test_version_without_rights_elsewhere_is_of_its_namespace(server: FakeApiServer) -> None:
    server.denied = {("list", "deployments@")}
    server.objects["Deployment"] = [
        deployment("kueue-controller-manager", "kueue-system", "r/kueue:v0.17.1")
    ]
    cluster = KubeClient.connect(Settings.from_args([]))
    assert controllers.installed_version(cluster, controllers.KUEUE) == "0.17.1"


def command(*words: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """Run `qfleet cluster check WORDS`."""
    return subprocess.run(
        [sys.executable, "-m", "qfleet", "cluster", "check", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds(60),
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "KUBECONFIG": str(kubeconfig),
             "HOME": str(kubeconfig.parent)},
    )  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_command_prints_each_part(server: FakeApiServer, tmp_path: Path, words: list[str]) -> None:
    done = command("WORKERS=60", *words, kubeconfig=tmp_path / "kubeconfig")
    assert done.returncode == ClusterError.exit_code, done.stderr
    if words:
        read = [events.parse(line) for line in done.stdout.splitlines()]
        states = {one.text("part"): one.text("state") for one in read if one}
        assert (states["server"], states["nodes"]) == ("ok", "missing")
        assert json.loads(done.stdout.splitlines()[0])["event"] == "check"
    else:
        assert "--  nodes " in done.stdout


@pytest.mark.parametrize(
    ("words", "address", "part"),
    [
        ([], "", "there is no kubeconfig"),
        ([], "http://127.0.0.1:1", "can't be reached"),
        (["NAMESPACE=none"], "server", "there is no namespace none"),
        (["CONTEXT=other"], "server", "CONTEXT=other"),
        (["EPOCS=3"], "server", "did you mean EPOCHS?"),
        (["OVERLAY=none"], "server", "OVERLAY=none"),
    ],
)
def test_command_reports_a_mistake_in_one_sentence(
    server: FakeApiServer, tmp_path: Path, words: list[str], address: str, part: str
) -> None:
    kubeconfig = tmp_path / "other"
    if address:
        write_kubeconfig(kubeconfig, server.url if address == "server" else address)
    done = command(*words, kubeconfig=kubeconfig)
    assert done.returncode == ClusterError.exit_code
    assert part in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


# The pod of PROBE


def ended(code: int, message: str = "") -> dict[str, Any]:
    """The status of a pod that has ended."""
    state = {"terminated": {"exitCode": code, "message": message, "reason": "Error"}}
    found = {"name": "node", "state": state, "restartCount": 0}
    phase = "Failed" if code else "Succeeded"
    return {"phase": phase, "containerStatuses": [{**found, "name": "tensorflow"}]}


def waits(reason: str, message: str) -> dict[str, Any]:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "tensorflow", "state": state}]}


@pytest.mark.parametrize(
    ("state", "mark", "text"),
    [
        (ended(0), "ok", "wrote to STORAGE"),
        (ended(2, "bucket b does not exist"), "--", "bucket b does not exist"),
        (waits("ErrImagePull", "not found"), "--", "can't pull its image"),
        (waits("InvalidImageName", ""), "--", "not a valid image name"),
    ],
)
def test_probe_reports_the_pod_and_deletes_it(
    server: FakeApiServer,
    capsys: pytest.CaptureFixture[str],
    state: dict[str, Any],
    mark: str,
    text: str,
) -> None:
    server.accepts_writes, server.pod_status = True, state
    code, found = run(capsys, probe=True)
    assert code == (0 if mark == "ok" else ClusterError.exit_code)
    assert found["pod"][0] == mark
    assert text in found["pod"][1]
    assert server.objects["Pod"] == []
    names = [one["metadata"]["name"] for one in server.objects["NetworkPolicy"]]
    assert not [name for name in names if "probe" in name]
    assert "JobSet" not in server.objects  # no job of the run
    assert any("/pods/qfleet-probe-" in path for path in server.writes)


def test_probe_without_rights_is_unknown(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys, probe=True)
    assert code == 0
    assert found["pod"][0] == "??"


@pytest.mark.parametrize("api", ENGINES)
def test_probe_has_the_workers_pod_without_their_run(api: str) -> None:
    settings = Settings.from_args(["MODEL=qcnn", f"JOB_API={api}", "MEMORY=9Gi"])
    build = manifests.build(settings)
    made = probe.pod(build, "qfleet-probe-1")
    (worker,) = (one for one in build.objects if one["kind"] in TEMPLATE_KINDS)
    (expected,), (container,) = pod_specs(worker), made["spec"]["containers"]
    assert container["image"] == expected["containers"][0]["image"]
    assert container["resources"]["limits"]["memory"] == "9Gi"
    assert made["spec"]["serviceAccountName"] == expected["serviceAccountName"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["QFLEET_STORAGE"] == build.storage.storage
    assert env["STORAGE_EMULATOR_HOST"] == build.storage.emulator
    assert "envFrom" not in container
    policy = probe.policy(build, "qfleet-probe-1")
    assert policy["spec"]["podSelector"]["matchLabels"] == made["metadata"]["labels"]
    assert policy["spec"]["egress"]


def test_probe_program_writes_reads_and_deletes_an_object(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    done = subprocess.run(
        [sys.executable, "-m", "common.storage.probe"],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds(60),
        env={"PATH": "/usr/bin:/bin", "QFLEET_STORAGE": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "was written, read and deleted" in done.stdout
    assert [one.name for one in tmp_path.iterdir()] == ["other"]


def test_probe_program_of_a_refused_storage_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "common.storage.probe"],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds(60),
        env={"PATH": "/usr/bin:/bin", "QFLEET_STORAGE": str(tmp_path / "file")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "STORAGE" in done.stderr
    assert done.stderr.count("\n") == 1


# Room


def pod(cpu: str = "2", memory: str = "4Gi", **spec: Any) -> dict[str, Any]:
    """The spec of a pod."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "4"}}
    return {"containers": [{"name": "c", "resources": resources}], **spec}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "running", "spec", "expected"),
    [
        ([node()], [], pod(), 4),
        ([node(), node("m", cpu="3")], [], pod(), 5),
        ([node(memory="7Gi")], [], pod(), 1),
        ([node(pods="3")], [], pod(), 3),
        ([node()], [{"spec": pod("5", nodeName="n"), "status": {}}], pod(), 1),
        ([node()], [{"spec": pod("8", nodeName="n"), "status": {"phase": "Failed"}}], pod(), 4),
        ([node(cpu="1500m")], [], pod("500m"), 3),
        ([node(taints=[TAINT])], [], pod(), 0),
        ([node(taints=[TAINT])], [], pod(tolerations=[{"key": "gpu", "operator": "Exists"}]), 4),
        ([node(taints=[TAINT])], [], pod(tolerations=[{"key": "gpu", "value": "no"}]), 0),
        ([node()], [], pod(nodeSelector={"zone": "a"}), 0),
        ([{**node(), "spec": {"unschedulable": True}}], [], pod(), 0),
        ([named("n", status={"allocatable": ROOMY})], [], pod(), 0),
    ],
)
def test_fitting_counts_pods_that_nodes_take(
    nodes: list[Any], running: list[Any], spec: dict[str, Any], expected: int
) -> None:
    assert room.fitting(nodes, running, spec) == expected


@pytest.mark.parametrize(
    ("quota", "priority", "expected"),
    [
        ({"hard": {"requests.cpu": "4"}}, "", []),
        ({"hard": {"requests.cpu": "3"}}, "", ["requests.cpu: 4 needed, 3 left"]),
        ({"hard": {"cpu": "3500m"}}, "", ["cpu: 4 needed, 3.5 left"]),
        ({"hard": {"limits.cpu": "7"}}, "", ["limits.cpu: 8 needed, 7 left"]),
        ({"hard": {"requests.memory": "6Gi"}}, "", ["requests.memory: 8Gi needed, 6Gi left"]),
        ({"hard": {"count/pods": "1"}}, "", ["count/pods: 2 needed, 1 left"]),
        ({"hard": {"count/secrets": "0"}}, "", []),
        ({"hard": {"pods": "0"}, "scopes": ["Terminating"]}, "", []),
        ({"hard": {"pods": "0"}, "scopes": ["NotTerminating"]}, "", ["pods: 2 needed, 0 left"]),
        ({"hard": {"pods": "0"}, "class": ("In", ["high"])}, "", []),
        ({"hard": {"pods": "0"}, "class": ("In", ["high"])}, "high", ["pods: 2 needed, 0 left"]),
    ],
)
def test_quota_excess_names_resources_that_lack(
    quota: dict[str, Any], priority: str, expected: list[str]
) -> None:
    spec = {name: quota[name] for name in ("hard", "scopes") if name in quota}
    if "class" in quota:
        operator, values = quota["class"]
        rule = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        spec["scopeSelector"] = {"matchExpressions": [rule]}
    assert room.quota_excess({"spec": spec}, [Demand(pod(), 2)], priority) == expected


def test_requested_takes_limits_where_requests_lack() -> None:
    it = {"containers": [{"resources": {"limits": {"cpu": "500m"}}}, {}]}
    assert room.requested(it) == {"cpu": Decimal("0.5"), "pods": 1}
