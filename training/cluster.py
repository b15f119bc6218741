"""Who is in the gang: TF_CONFIG, as the Kubeflow operator and the gang on this machine set it.

With `enableDynamicWorker`, without which one deleted pod fails the whole job, the operator tells a
worker its own address alone; the others' differ from it by their number.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from common.errors import SettingsError

TF_CONFIG = "TF_CONFIG"


@dataclass(frozen=True)
class ClusterSpec:
    """The workers' addresses and which of them this process is. Worker 0 is the chief."""

    workers: tuple[str, ...]
    rank: int

    @property
    def size(self) -> int:
        """Workers in the gang."""
        return len(self.workers)

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the run."""
        return self.rank == 0

    @property
    def chief_host(self) -> str:
        """The chief's host name or address."""
        return self.workers[0].rpartition(":")[0].strip("[]")

    @property
    def here(self) -> int:
        """Workers with this worker's host name or address, itself included."""
        hosts = [address.rpartition(":")[0] for address in self.workers]
        return hosts.count(hosts[self.rank])

    def to_config(self) -> str:
        """TF_CONFIG for this worker."""
        task = {"type": "worker", "index": self.rank}
        return json.dumps({"cluster": {"worker": list(self.workers)}, "task": task})

    @classmethod
    def from_environment(cls, workers: int) -> Self:
        """The cluster of TF_CONFIG; without one, this worker is alone.

        A sparse TF_CONFIG is replaced in the environment by the full one that TensorFlow wants.

        Args:
            workers: WORKERS, which a sparse TF_CONFIG does not tell.

        Raises:
            SettingsError: TF_CONFIG is not what TensorFlow or the operator defines, or there is
                another number of workers; one sentence says where.
        """
        text = os.environ.get(TF_CONFIG, "").strip()
        if not text:
            if workers > 1:
                raise SettingsError(
                    f"WORKERS={workers}, but {TF_CONFIG} is not set, so this worker is the only one:"
                    f" {_CHANGE}"
                )
            return cls(("127.0.0.1:0",), 0)
        cluster = cls.parse(text, workers)
        os.environ[TF_CONFIG] = cluster.to_config()
        return cluster

    @classmethod
    def parse(cls, text: str, workers: int) -> Self:
        """Read the text of a TF_CONFIG; see `from_environment`."""
        try:
            config = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{TF_CONFIG} is not JSON: {error}") from None
        listed = _at(_at(config, "cluster", dict), "worker", (list, dict), "cluster.")
        task = _at(config, "task", dict)
        if (kind := task.get("type")) != "worker":
            raise SettingsError(
                f"{TF_CONFIG}: task.type is {kind!r}, but qfleet knows only 'worker'"
            )
        rank = task.get("index")
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
            raise SettingsError(
                f"{TF_CONFIG}: task.index is {rank!r}, but must be a whole number from 0"
            )
        if isinstance(listed, dict):
            listed = _complete(listed, rank, workers)
        for address in listed:
            _check_address(address)
        if not listed or len(set(listed)) < len(listed):
            raise SettingsError(f"{TF_CONFIG}: cluster.worker must list each worker's address once")
        if rank >= len(listed):
            raise SettingsError(
                f"{TF_CONFIG}: task.index is {rank}, but must be a whole number from 0 to"
                f" {len(listed) - 1}, since cluster.worker lists {len(listed)}"
            )
        return cls(tuple(listed), rank)


_CHANGE = (
    "the job's replicas and WORKERS must be the same number; stop the job and start it again with"
    " the number of workers wanted, as in `make training TARGET=k8s WORKERS=3`, and it goes on from"
    " its checkpoint"
)


def _complete(own: dict[str, Any], rank: int, workers: int) -> list[str]:
    """All workers' addresses, from the only one that a sparse TF_CONFIG holds."""
    address = own.get(str(rank))
    _check_address(address)
    assert isinstance(address, str)
    found = re.fullmatch(rf"([^.:]*-worker-){rank}([.:].*)", address)
    if not found:
        raise SettingsError(
            f"{TF_CONFIG}: cluster.worker holds {address!r} alone, which does not name worker {rank} as"
            " the operator does, JOB-worker-NUMBER.NAMESPACE.svc:PORT"
        )
    if rank >= workers:
        raise SettingsError(f"this is worker {rank}, but WORKERS={workers}: {_CHANGE}")
    return [f"{found[1]}{other}{found[2]}" for other in range(workers)]


def _at(config: Any, name: str, kind: type | tuple[type, ...], path: str = "") -> Any:
    found = config.get(name) if isinstance(config, dict) else None
    if not isinstance(found, kind):
        what = "an object" if kind is dict else "a list of addresses"
        raise SettingsError(f"{TF_CONFIG}: {path}{name} is missing or not {what}")
    return found


def _check_address(address: Any) -> None:
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingsError(
            f"{TF_CONFIG}: cluster.worker holds {address!r}, which is not host:port"
        )


def loopback_addresses(ports: Sequence[int]) -> tuple[str, ...]:
    """Addresses of a gang on this machine."""
    return tuple(f"127.0.0.1:{port}" for port in ports)
