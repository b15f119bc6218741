"""TF_CONFIG, and what is said when it is malformed."""

import json

import pytest

from training.cluster import ENV, Cluster, local


def config(workers=("a:1", "b:2"), task=None):
    return {"cluster": {"worker": list(workers)}, "task": task or {"type": "worker", "index": 1}}


def test_a_worker_finds_its_place():
    cluster = Cluster.parse(json.dumps(config()))
    assert (cluster.rank, cluster.size, cluster.is_chief, cluster.chief_host) == (1, 2, False, "a")


def test_what_the_local_gang_writes_is_read_back():
    cluster = Cluster(local([1000, 1001, 1002]), 2)
    assert Cluster.parse(cluster.to_config()) == cluster


@pytest.mark.parametrize("text", ["", "  "])
def test_no_config_is_a_worker_alone(monkeypatch, text):
    monkeypatch.setenv(ENV, text)
    assert Cluster.from_environment() is None


# What test_malformed.py hands to a worker's process: text -> words of the answer.
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
    "index missing": (json.dumps(config(task={"type": "worker"})), "task.index is None"),
}
