"""TF_CONFIG, and the errors when it is malformed."""

import json
import os

import pytest

from common.errors import SettingsError
from training.cluster.spec import TF_CONFIG, ClusterSpec, loopback_addresses


def config(workers=("a:1", "b:2"), task=None):
    return {"cluster": {"worker": list(workers)}, "task": task or {"type": "worker", "index": 1}}


def test_parse_returns_rank_size_and_chief():
    cluster = ClusterSpec.parse(json.dumps(config()), 2)
    assert (cluster.rank, cluster.size, cluster.is_chief, cluster.chief_host) == (1, 2, False, "a")


def test_to_config_is_read_back():
    cluster = ClusterSpec(loopback_addresses([1000, 1001, 1002]), 2)
    assert ClusterSpec.parse(cluster.to_config(), 3) == cluster


def test_select_gives_new_ranks_in_the_old_order(monkeypatch):
    monkeypatch.setenv(TF_CONFIG, "")  # restored after `export`
    cluster = ClusterSpec(("a:1", "b:2", "c:3"), 2).select((0, 2))
    assert (cluster.workers, cluster.rank) == (("a:1", "c:3"), 1)
    cluster.export()
    assert ClusterSpec.from_environment(2) == cluster


@pytest.mark.parametrize("text", ["", "  "])
def test_missing_config_is_a_single_worker(monkeypatch, text):
    monkeypatch.setenv(TF_CONFIG, text)
    assert ClusterSpec.from_environment(1).size == 1


def test_missing_config_with_several_workers_fails(monkeypatch):
    monkeypatch.delenv(TF_CONFIG, raising=False)
    with pytest.raises(SettingsError, match=r"WORKERS=2, but TF_CONFIG is not set"):
        ClusterSpec.from_environment(2)


def sparse(rank, address=None):
    """Return what the operator writes with enableDynamicWorker."""
    address = address or f"q-worker-1-worker-{rank}.lab-worker-1.svc:2222"
    task = {"type": "worker", "index": rank}
    return json.dumps({"cluster": {"worker": {str(rank): address}, "ps": None}, "task": task})


def test_sparse_config_becomes_the_full_one(monkeypatch):
    monkeypatch.setenv(TF_CONFIG, sparse(1))
    cluster = ClusterSpec.from_environment(3)
    assert cluster.workers == tuple(
        f"q-worker-1-worker-{rank}.lab-worker-1.svc:2222" for rank in range(3)
    )
    assert cluster.rank == 1
    # TensorFlow reads the environment itself.
    assert json.loads(os.environ[TF_CONFIG])["cluster"] == {"worker": list(cluster.workers)}
    assert ClusterSpec.from_environment(3) == cluster


def test_rank_above_workers_is_refused():
    with pytest.raises(SettingsError, match=r"this is worker 2, but WORKERS=2: .*WORKERS=3"):
        ClusterSpec.parse(sparse(2), 2)


# test_malformed.py passes these to a worker: TF_CONFIG -> part of the error message.
MALFORMED = {
    "not JSON": ("{", "is not JSON"),
    "not an object": ("3", "cluster is missing"),
    "no cluster": ('{"task": {}}', "cluster is missing"),
    "no workers": ('{"cluster": {}, "task": {}}', "cluster.worker is missing"),
    "workers no list": ('{"cluster": {"worker": "a:1"}}', "not a list"),
    "no task": ('{"cluster": {"worker": ["a:1"]}}', "task is missing"),
    "no port": (json.dumps(config(["a"])), "'a', which is not host:port"),
    "port too high": (json.dumps(config(["a:70000"])), "not host:port"),
    "an address no text": (json.dumps(config([3])), "not host:port"),
    "an address twice": (json.dumps(config(["a:1", "a:1"])), "each worker's address once"),
    "no addresses": (json.dumps(config([])), "each worker's address once"),
    "a parameter server": (json.dumps(config(task={"type": "ps", "index": 0})), "'ps'"),
    "index out of range": (json.dumps(config(task={"type": "worker", "index": 2})), "0 to 1"),
    "index no number": (json.dumps(config(task={"type": "worker", "index": "0"})), "'0'"),
    "sparse, without its own address": (
        '{"cluster": {"worker": {"0": "a:1"}}, "task": {"type": "worker", "index": 1}}',
        "None, which is not host:port",
    ),
    "sparse, a strange address": (sparse(1, "a:1"), "is not an address of worker 1"),
    "index missing": (json.dumps(config(task={"type": "worker"})), "task.index is None"),
}
