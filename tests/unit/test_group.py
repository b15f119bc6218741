"""The group that a worker joins: its rank and settings there, and the chief's data set."""

import dataclasses
import json
import os

import pytest

from common.data import prepare
from common.errors import RunError
from common.events import emitter
from common.settings import Settings
from training.cluster.spec import TF_CONFIG, ClusterSpec, loopback_addresses
from training.group.join import enter_group, load_data
from training.group.rendezvous import StartMessage

START = StartMessage("hybrid", 1, "/data", "abc", None, (0, 2))
CLUSTER = ClusterSpec(loopback_addresses([1, 2, 3]), 2)


def test_whole_group_changes_nothing():
    settings = Settings.from_values(workers=3)
    start = dataclasses.replace(START, members=(0, 1, 2))
    assert enter_group(settings, CLUSTER, start) == (settings, CLUSTER)


def test_smaller_group_keeps_the_global_batch(monkeypatch):
    monkeypatch.setenv(TF_CONFIG, CLUSTER.to_config())
    monkeypatch.setattr(emitter, "_rank", None)  # of this process
    settings = Settings.from_values(workers=3, batch=60)
    inside, group = enter_group(settings, CLUSTER, START)
    assert (group.rank, group.workers) == (1, ("127.0.0.1:1", "127.0.0.1:3"))
    assert json.loads(os.environ[TF_CONFIG])["task"]["index"] == 1
    assert inside.training.workers == 2
    assert inside.training.global_batch == 60
    assert inside.identity() == settings.identity()


def test_other_data_set_at_the_same_path_is_refused(tmp_path):
    settings = Settings.from_values(
        qubits=2, train_examples=10, validation_examples=10, test_examples=10
    )
    data = prepare(settings, tmp_path)
    start = dataclasses.replace(START, data=str(data.path), data_fingerprint=data.fingerprint)
    assert load_data(settings, CLUSTER, start).name == data.name
    other = dataclasses.replace(start, data_fingerprint="0" * 64)
    with pytest.raises(RunError, match=r"000000000000 on worker 0 .* on worker 2"):
        load_data(settings, CLUSTER, other)
