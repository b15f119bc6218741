"""The workers of a run: TF_CONFIG, as the Kubeflow operator and the local launcher set it, or made
from what an Indexed Job sets (training/cluster/indexed_job.py).

With `enableDynamicWorker`, the operator sets only the worker's own address (a sparse TF_CONFIG).
The other addresses differ in the rank. Without it, one deleted pod would fail the whole job.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from common.commands import command
from common.errors import SettingsError
from training.cluster import indexed_job

TF_CONFIG = "TF_CONFIG"


@dataclass(frozen=True)
class ClusterSpec:
    """The addresses of all workers, and the rank of this one. Rank 0 is the chief."""

    workers: tuple[str, ...]
    rank: int

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self.workers)

    @property
    def is_chief(self) -> bool:
        """True for the worker that writes the run."""
        return self.rank == 0

    @property
    def chief_host(self) -> str:
        """Host name or address of the chief."""
        return self.workers[0].rpartition(":")[0].strip("[]")

    @property
    def local_workers(self) -> int:
        """Number of workers with this worker's host name or address, itself included."""
        hosts = [address.rpartition(":")[0] for address in self.workers]
        return hosts.count(hosts[self.rank])

    def to_config(self) -> str:
        """Return TF_CONFIG for this worker."""
        task = {"type": "worker", "index": self.rank}
        return json.dumps({"cluster": {"worker": list(self.workers)}, "task": task})

    def describe(self, ranks: Sequence[int]) -> str:
        """Return ranks with their addresses, for messages."""
        return ", ".join(f"worker {rank} ({self.workers[rank]})" for rank in ranks)

    def select(self, members: Sequence[int]) -> Self:
        """Return the cluster of some of the workers, with ranks from 0 in the same order.

        Args:
            members: Ranks, this worker's included.
        """
        addresses = tuple(self.workers[rank] for rank in members)
        return type(self)(addresses, list(members).index(self.rank))

    def export(self) -> None:
        """Write TF_CONFIG, which TensorFlow reads, into the environment."""
        os.environ[TF_CONFIG] = self.to_config()

    @classmethod
    def from_environment(cls, workers: int) -> Self:
        """Read TF_CONFIG, or the variables of an Indexed Job; else return a cluster of one worker.

        In the environment, the full TF_CONFIG that TensorFlow needs replaces a sparse one.

        Args:
            workers: WORKERS, which neither a sparse TF_CONFIG nor an Indexed Job contains.

        Raises:
            SettingsError: TF_CONFIG is malformed, or contradicts WORKERS.
        """
        text = os.environ.get(TF_CONFIG, "").strip() or indexed_job.tf_config(workers)
        if not text:
            if workers > 1:
                raise SettingsError(
                    f"WORKERS={workers}, but {TF_CONFIG} is not set, so this is the only worker:"
                    f" {_CHANGE}"
                )
            return cls(("127.0.0.1:0",), 0)
        cluster = cls.parse(text, workers)
        cluster.export()
        return cluster

    @classmethod
    def parse(cls, text: str, workers: int) -> Self:
        """Parse the text of a TF_CONFIG; see `from_environment`."""
        try:
            config = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{TF_CONFIG} is not JSON: {error}") from None
        cluster = _field(config, "cluster", dict)
        listed = _field(cluster, "worker", (list, dict), "cluster.")
        task = _field(config, "task", dict)
        if (kind := task.get("type")) != "worker":
            raise SettingsError(
                f"{TF_CONFIG}: task.type is {kind!r}; the only allowed type is 'worker'"
            )
        rank = task.get("index")
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
            raise SettingsError(
                f"{TF_CONFIG}: task.index is {rank!r}, which is not an integer from 0"
            )
        if isinstance(listed, dict):
            listed = _all_addresses(listed, rank, workers)
        for address in listed:
            _check_address(address)
        if not listed or len(set(listed)) < len(listed):
            raise SettingsError(f"{TF_CONFIG}: cluster.worker must list each worker's address once")
        if rank >= len(listed):
            raise SettingsError(
                f"{TF_CONFIG}: task.index is {rank}, which is not an integer from 0 to"
                f" {len(listed) - 1}, since cluster.worker lists {len(listed)}"
            )
        return cls(tuple(listed), rank)


_CHANGE = (
    "the job's replicas and WORKERS must be the same number; stop the job and start it again with"
    f" the new number of workers, for example `{command('train')} TARGET=k8s WORKERS=3`"
)


def _all_addresses(own: dict[str, object], rank: int, workers: int) -> list[str]:
    """Return the addresses of all workers from the only one in a sparse TF_CONFIG."""
    address = own.get(str(rank))
    _check_address(address)
    assert isinstance(address, str)
    found = re.fullmatch(rf"([^.:]*-worker-){rank}([.:].*)", address)
    if not found:
        raise SettingsError(
            f"{TF_CONFIG}: the only entry of cluster.worker, {address!r}, is not an address of"
            f" worker {rank} as the operator sets it, JOB-worker-RANK.NAMESPACE.svc:PORT"
        )
    if rank >= workers:
        raise SettingsError(f"this is worker {rank}, but WORKERS={workers}: {_CHANGE}")
    return [f"{found[1]}{other}{found[2]}" for other in range(workers)]


def _field(content: object, name: str, kind: type | tuple[type, ...], path: str = "") -> Any:
    value = content.get(name) if isinstance(content, dict) else None
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list of addresses"
        raise SettingsError(f"{TF_CONFIG}: {path}{name} is missing or not {expected}")
    return value


def _check_address(address: object) -> None:
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingsError(
            f"{TF_CONFIG}: cluster.worker contains {address!r}, which is not host:port"
        )


def loopback_addresses(ports: Sequence[int]) -> tuple[str, ...]:
    """Return the addresses of workers on this machine."""
    return tuple(f"127.0.0.1:{port}" for port in ports)
