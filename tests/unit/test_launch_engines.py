"""Engines: the same contract in every manifest, a JobSet's policies and state, and the choice."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from common.errors import ClusterError, PeerLost, Preempted, RunError, SettingsError
from common.settings import Settings
from launch import api_errors, apply, job, objects, startup
from launch.benchmark_manifest import benchmark_objects
from launch.commands import select
from launch.engines import BY_KIND, ENGINES, TEMPLATE_KINDS
from launch.pods import pod_specs

TRANSMONS = Path(__file__).parents[2] / "examples/tasks/two_transmons.yaml"
FAILED = "Container tensorflow for pod lab/qfleet-qcnn-worker-0-1-x failed with exit code {}"


def settings(**values: Any) -> Settings:
    """Settings of a run qcnn."""
    return Settings.from_record({"model": "qcnn", **values})


def rendered(api: str, *, template: bool = False, **values: Any) -> dict[str, Any]:
    """The job of an engine, or the object with its pod template."""
    found = objects.training(settings(job_api=api, **values))
    (it,) = (one for one in found if one["kind"] in (TEMPLATE_KINDS if template else BY_KIND))
    return it


def indexed(it: dict[str, Any]) -> dict[str, Any]:
    """The spec of a JobSet's Job."""
    return it["spec"]["replicatedJobs"][0]["template"]["spec"]


# Rendering


def contract(api: str) -> dict[str, Any]:
    """The pod of an engine without what the engine itself needs."""
    it = rendered(api, template=True)
    (pod,) = pod_specs(it)
    (worker,) = pod["containers"]
    own = {variable["name"] for variable in ENGINES[api].variables("qcnn")}
    worker["env"] = [one for one in worker["env"] if one["name"] not in own]
    worker["name"], worker["ports"][0]["name"] = "", ""
    pod.pop("restartPolicy", None)
    text = json.dumps(pod)
    assert ENGINES[api].job_label in text
    return json.loads(text.replace(ENGINES[api].job_label, "JOB"))


@pytest.mark.parametrize("api", [api for api in ENGINES if api != "tfjob"])
def test_engines_give_workers_the_same_contract(api: str) -> None:
    assert contract(api) == contract("tfjob")


def outcome(reason: str, message: str) -> tuple[str, str]:
    """Rule and action of a JobSet's failurePolicy for a failed Job, as its controller finds it."""
    for rule in rendered("jobset")["spec"]["failurePolicy"]["rules"]:
        patterns = rule.get("onJobFailureMessagePatterns", [""])
        if reason in rule["onJobFailureReasons"] and any(
            re.search(pattern, message) for pattern in patterns
        ):
            return rule["name"], rule["action"]
    raise AssertionError("no rule matches, so that maxRestarts would count")


def of_pod(code: int, *, disrupted: bool = False) -> tuple[str, str]:
    """The reason and message of a Job with this failed pod, as its controller writes them."""
    spec = indexed(rendered("jobset"))
    for index, rule in enumerate(spec["podFailurePolicy"]["rules"]):
        if code in rule.get("onExitCodes", {}).get("values", []):
            return (
                "PodFailurePolicy",
                f"{FAILED.format(code)} matching FailJob rule at index {index}",
            )
        if disrupted and "onPodConditions" in rule:
            message = "Pod lab/p has condition DisruptionTarget matching FailJob rule at index"
            return "PodFailurePolicy", f"{message} {index}"
    assert spec["backoffLimit"] == 0
    return "BackoffLimitExceeded", "Job has reached the specified backoff limit"


@pytest.mark.parametrize(
    ("code", "disrupted", "rule", "ends"),
    [
        (1, False, "final", True),
        (2, False, "final", True),
        (127, False, "final", True),
        (2, True, "final", True),  # the worker's own end counts, whatever happened to its node
        (128, False, "retryable", False),
        (137, False, "retryable", False),
        (PeerLost.exit_code, False, "retryable", False),
        (Preempted.exit_code, False, "retryable", False),
        (Preempted.exit_code, True, "disrupted", False),
        (137, True, "disrupted", False),
        (146, False, "final", True),  # DEADLINE
    ],
)
def test_jobset_ends_or_restarts_by_exit_code(
    code: int, disrupted: bool, rule: str, ends: bool
) -> None:
    action = "FailJobSet" if ends else "RestartJobSetAndIgnoreMaxRestarts"
    assert outcome(*of_pod(code, disrupted=disrupted)) == (rule, action)


def test_jobset_ends_when_the_deadline_of_its_job_passes() -> None:
    assert outcome("DeadlineExceeded", "Job was active longer")[1] == "FailJobSet"
    assert indexed(rendered("jobset", deadline=600))["activeDeadlineSeconds"] > 600


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_jobset_has_one_indexed_job_of_all_workers(workers: int) -> None:
    it = rendered("jobset", workers=workers)
    (replicated,) = it["spec"]["replicatedJobs"]
    spec = indexed(it)
    assert replicated["replicas"] == 1
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", workers)
    assert spec["parallelism"] == workers
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert job.worker_count(it) == job.configured_workers(it) == workers


def test_elastic_jobset_replaces_single_pods() -> None:
    spec = indexed(rendered("jobset", workers=3, min_workers=2, elastic_after=60))
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert spec["backoffLimit"] > 1_000_000
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["FailJob", "Ignore"]


@pytest.mark.parametrize("api", ENGINES)
def test_only_a_trainjob_reaches_the_controller(api: str) -> None:
    found = objects.training(settings(job_api=api))
    (policy,) = (one for one in found if one["kind"] == "NetworkPolicy")
    ports = [rule["ports"] for rule in policy["spec"]["egress"] if "10443" in json.dumps(rule)]
    expected = [[{"port": 10443, "protocol": "TCP"}]] if api == "trainjob" else []
    assert ports == expected


def test_trainjob_refers_to_a_runtime_with_the_jobset() -> None:
    it, runtime = rendered("trainjob", deadline=600), rendered("trainjob", template=True)
    reference = it["spec"]["runtimeRef"]
    assert (reference["kind"], reference["name"]) == (runtime["kind"], "qfleet-qcnn")
    assert it["spec"]["activeDeadlineSeconds"] > 600
    assert runtime["spec"]["mlPolicy"]["numNodes"] == job.worker_count(it) == 2
    template = runtime["spec"]["template"]["spec"]
    assert template["failurePolicy"] == rendered("jobset")["spec"]["failurePolicy"]
    (replicated,) = template["replicatedJobs"]
    (container,) = replicated["template"]["spec"]["template"]["spec"]["containers"]
    assert (replicated["name"], container["name"]) == ("node", "node")
    rules = replicated["template"]["spec"]["podFailurePolicy"]["rules"]
    assert rules[0]["onExitCodes"]["containerName"] == "node"
    labels = replicated["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


@pytest.mark.parametrize("api", ENGINES)
def test_pods_of_a_gate_have_its_device_and_no_other_rights(api: str) -> None:
    words = ["TASK=gate", "DATA=cz", f"NOISE={TRANSMONS}", f"JOB_API={api}", "RUN=r"]
    given = Settings.from_args(words)
    found, others = objects.training(given), objects.training(settings(job_api=api, run="r"))
    (values,) = (one["data"] for one in found if one["kind"] == "ConfigMap")
    read = [f"{name.removeprefix('QFLEET_')}={value}" for name, value in values.items() if value]
    assert Settings.from_args(read).model == given.model
    assert "exchange" not in values["QFLEET_NOISE"]  # the device itself, not its file
    assert "5.128" in values["QFLEET_NOISE"]
    for one, other in zip(found, others, strict=True):
        if one["kind"] != "ConfigMap":
            assert one == other


@pytest.mark.parametrize("api", ENGINES)
def test_queue_and_its_priority_label_the_job(api: str) -> None:
    it = rendered(api, queue="team", queue_priority="high")
    labels = it["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "team"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert "suspend" not in it["spec"]
    assert "kueue.x-k8s.io/priority-class" not in rendered(api, queue="team")["metadata"]["labels"]


@pytest.mark.parametrize(
    ("values", "part"),
    [({"gang_scheduling": True}, "GANG_SCHEDULING"), ({"run": "r" * 45}, "shorten RUN by 6")],
)
def test_jobset_refuses_settings_by_name(values: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        rendered("jobset", **values)


@pytest.mark.parametrize("api", ENGINES)
def test_benchmark_ends_with_its_first_lost_worker(api: str) -> None:
    values = settings(job_api=api)
    found = benchmark_objects(objects.training(values), "[]", values)
    (it,) = (one for one in found if one["kind"] in TEMPLATE_KINDS)
    (pod,) = pod_specs(it)
    names = {variable["name"] for variable in pod["containers"][0]["env"]}
    assert names >= {variable["name"] for variable in ENGINES[api].variables("qcnn")}
    assert "POD_NAMESPACE" not in names
    assert "failurePolicy" not in json.dumps(it)
    (it,) = (one for one in found if one["kind"] in BY_KIND)
    assert "app.kubernetes.io/part-of" not in it["metadata"]["labels"]


# State


def jobset(*conditions: str, **state: Any) -> dict[str, Any]:
    """A JobSet with these true conditions; `ready`, `active` Jobs and `restarts`."""
    counts = {name: state.pop(name) for name in ("ready", "active") if name in state}
    status = {
        "conditions": [{"type": kind, "status": "True"} for kind in conditions],
        "replicatedJobsStatus": [{"name": "worker", **counts}],
        **state,
    }
    return {**rendered("jobset"), "status": status}


@pytest.mark.parametrize(
    ("found", "phase", "started"),
    [
        ({"kind": "JobSet", "spec": {}}, "Pending", False),
        (jobset(active=1), "Created", False),
        (jobset(active=1, ready=1), "Running", True),
        (jobset("RestartingJobSet", restarts=1), "Restarting", True),
        (jobset("Suspended"), "Suspended", False),
        (jobset("Completed", "StartupPolicyCompleted"), "Succeeded", True),
        (jobset("Failed"), "Failed", True),
        ({"kind": "TrainJob", "status": {"jobsStatus": [{"ready": 1}]}}, "Running", True),
    ],
)
def test_phase_of_jobset_is_read_from_its_status(
    found: dict[str, Any], phase: str, started: bool
) -> None:
    assert job.phase(found) == phase
    assert job.has_started(found) is started


# Choice


class FakeServer:
    """A cluster that serves some kinds, with one job of each that is given."""

    namespace = "lab"

    def __init__(self, *served: str, forbidden: str = "", **live: dict[str, Any]) -> None:
        self.served, self.live, self.forbidden = served, live, forbidden

    def kind(self, kind: str) -> None:
        if kind not in self.served:
            raise api_errors.kind_not_served(kind, "")

    def serves(self, kind: str) -> bool:
        return kind in self.served

    def get(self, kind: str, name: str, version: str = "") -> dict[str, Any] | None:
        if kind == self.forbidden:
            raise api_errors.Forbidden(f"may not get {kind}")
        return self.live.get(kind)

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[dict[str, Any]]:
        found = self.get(kind, "")
        return [found] if found else []


def choice(cluster: Any, **values: Any) -> tuple[str, Any]:
    found = select.engines(cluster, settings(**values))
    engine, live = select.choose_engine(cluster, found, "qcnn")
    return engine.api, live


@pytest.mark.parametrize(
    ("served", "api", "chosen"),
    [
        (["TFJob", "JobSet"], "auto", "tfjob"),
        (["JobSet"], "auto", "jobset"),
        (["TFJob", "JobSet"], "jobset", "jobset"),
    ],
)
def test_auto_takes_the_first_engine_that_is_served(
    served: list[str], api: str, chosen: str
) -> None:
    assert choice(FakeServer(*served), job_api=api) == (chosen, None)


def test_jobset_of_a_trainjob_is_not_a_training_itself() -> None:
    part = jobset(active=1)
    part["metadata"]["ownerReferences"] = [{"kind": "TrainJob", "name": "qfleet-qcnn"}]
    whole = rendered("trainjob")
    cluster: Any = FakeServer("JobSet", "TrainJob", JobSet=part, TrainJob=whole)
    assert choice(cluster) == ("trainjob", whole)
    assert select.jobs(cluster, settings()) == [whole]


def test_auto_follows_the_engine_of_the_unfinished_job() -> None:
    live = jobset(active=1)
    assert choice(FakeServer("TFJob", "JobSet", JobSet=live)) == ("jobset", live)
    assert choice(FakeServer("TFJob", "JobSet", JobSet=jobset("Failed"))) == ("tfjob", None)


def test_run_of_another_engine_is_refused_with_its_commands() -> None:
    cluster = FakeServer("TFJob", "JobSet", JobSet=jobset(active=1))
    with pytest.raises(RunError, match=r"JOB_API=jobset.*cluster stop qcnn"):
        choice(cluster, job_api="tfjob")


def test_cluster_without_engines_names_the_install_command() -> None:
    with pytest.raises(ClusterError, match=r"kubectl apply .*jobset") as raised:
        choice(FakeServer())
    assert raised.value.exit_code == 2
    with pytest.raises(ClusterError, match=r"does not serve JobSet.*kubectl apply .*jobset"):
        choice(FakeServer("TFJob"), job_api="jobset")


def test_user_with_the_rights_for_one_engine_needs_no_others() -> None:
    live = jobset(active=1)
    cluster: Any = FakeServer("TFJob", "JobSet", forbidden="TFJob", JobSet=live)
    assert select.jobs(cluster, settings()) == [live]
    with pytest.raises(api_errors.Forbidden, match="TFJob"):
        select.jobs(cluster, settings(job_api="tfjob"))


# Messages


def test_events_of_a_jobset_include_those_of_its_job() -> None:
    class Events(FakeServer):
        def list(self, kind: str, labels: str = "", fields: str = "") -> list[dict[str, Any]]:
            if kind == "Job":
                assert labels == "jobset.sigs.k8s.io/jobset-name=qfleet-qcnn"
                return [{"metadata": {"uid": "child"}}]
            uid = fields.partition("=")[2]
            return [{"reason": uid, "lastTimestamp": "2026-01-01T00:00:01Z"}]

    found = {**rendered("jobset")}
    found["metadata"] = {**found["metadata"], "uid": "set"}
    cluster: Any = Events("JobSet")
    assert {event["reason"] for event in startup.events_about_job(cluster, found)} == {
        "set",
        "child",
    }


def test_other_number_of_workers_of_a_jobset_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise api_errors.Invalid("immutable")

    monkeypatch.setattr(apply, "apply", refuse)
    cluster: Any = FakeServer("JobSet", JobSet=rendered("jobset"))
    more = apply.differing_settings(cluster, [rendered("jobset", workers=3)])
    assert more == ["WORKERS=2 (now 3)"]
    other = apply.differing_settings(cluster, [rendered("jobset", cpu="3")])
    assert other == ["another IMAGE, CPU, MEMORY or THREADS"]


def test_unanswered_webhook_names_its_controller() -> None:
    class Response(Exception):
        status, body, reason = 500, b"", ""

    error: Any = Response()
    error.reason = 'failed calling webhook "mjobset.kb.io": no endpoints for jobset-webhook-service'
    found = api_errors.from_api_exception(error, "patch", "JobSet", "lab")
    assert "get pods -n jobset-system" in str(found)


class LateWebhook:
    """A cluster whose controllers' webhooks answer after some requests."""

    def __init__(self, late: int) -> None:
        self.late = late

    def get(self, *_: str) -> None:
        return None

    def apply(self, body: dict[str, Any], *_: object, **__: object) -> dict[str, Any]:
        self.late -= 1
        if self.late >= 0:
            raise api_errors.WebhookTimeout("late")
        return body


def test_late_webhook_is_asked_again_and_reported() -> None:
    job = {"kind": "JobSet", "apiVersion": "v1", "metadata": {"name": "qcnn"}}
    lines: list[str] = []
    cluster: Any = LateWebhook(apply.MAX_WEBHOOK_TIMEOUTS)
    assert apply.apply(cluster, job, lines.append).action == "created"
    assert lines == 2 * ["jobset/qcnn: the controller's webhook is late, trying again"]
    cluster = LateWebhook(apply.MAX_WEBHOOK_TIMEOUTS + 1)
    with pytest.raises(api_errors.WebhookTimeout):
        apply.apply(cluster, job)
