"""The workers of a JobSet, from the rank and the addresses of their pods."""

import json

import pytest

from common.errors import SettingsError
from launch.engines import jobset
from training.cluster import indexed_job
from training.cluster.spec import TF_CONFIG, ClusterSpec

PATTERN = "qfleet-qcnn-worker-0-{rank}.qfleet-qcnn:2222"


@pytest.fixture(autouse=True)
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the environment of worker 1's pod."""
    monkeypatch.setenv(TF_CONFIG, "")  # restored after `export`
    monkeypatch.setenv(indexed_job.ADDRESSES, PATTERN)
    monkeypatch.setenv(indexed_job.RANK, "1")


def test_pod_of_indexed_job_knows_rank_and_addresses() -> None:
    cluster = ClusterSpec.from_environment(3)
    assert (cluster.rank, cluster.size) == (1, 3)
    assert cluster.workers[2] == "qfleet-qcnn-worker-0-2.qfleet-qcnn:2222"
    assert cluster.chief_host == "qfleet-qcnn-worker-0-0.qfleet-qcnn"


def test_addresses_are_those_of_the_manifest() -> None:
    (variable,) = jobset.JobSet().variables("qcnn")
    assert variable == {"name": indexed_job.ADDRESSES, "value": PATTERN}


def test_tf_config_of_the_environment_has_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv(TF_CONFIG, json.dumps(config))
    assert ClusterSpec.from_environment(2).workers == ("a:1", "b:2")


def test_indexed_job_without_addresses_is_not_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(indexed_job.ADDRESSES)
    assert ClusterSpec.from_environment(1).size == 1


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        (indexed_job.RANK, "", "JOB_COMPLETION_INDEX=''"),
        (indexed_job.RANK, "-1", "JOB_COMPLETION_INDEX='-1'"),
        (indexed_job.RANK, "3", "this is worker 3, but WORKERS=3"),
        (indexed_job.ADDRESSES, "worker:2222", "WORKER_ADDRESSES=worker:2222"),
        (indexed_job.ADDRESSES, "worker-{rank}", "is not host:port"),
    ],
)
def test_malformed_variable_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, part: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=part):
        ClusterSpec.from_environment(3)
