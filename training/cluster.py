"""Who is in the gang: TF_CONFIG, as the Kubeflow operator and the gang on this machine set it."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from common.errors import SettingsError

ENV = "TF_CONFIG"


@dataclass(frozen=True)
class Cluster:
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
    def from_environment(cls) -> Self | None:
        """The cluster of TF_CONFIG, or None where there is none: this worker is alone.

        Raises:
            SettingsError: TF_CONFIG is not what TensorFlow defines; one sentence says where.
        """
        text = os.environ.get(ENV, "").strip()
        return cls.parse(text) if text else None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a TF_CONFIG; see `from_environment`."""
        try:
            config = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{ENV} is not JSON: {error}") from None
        workers = _at(_at(config, "cluster", dict), "worker", list, "cluster.")
        task = _at(config, "task", dict)
        for address in workers:
            _check_address(address)
        if not workers or len(set(workers)) < len(workers):
            raise SettingsError(f"{ENV}: cluster.worker must list each worker's address once")
        if (kind := task.get("type")) != "worker":
            raise SettingsError(f"{ENV}: task.type is {kind!r}, but qfleet knows only 'worker'")
        rank = task.get("index")
        if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < len(workers):
            raise SettingsError(
                f"{ENV}: task.index is {rank!r}, but must be a whole number from 0 to"
                f" {len(workers) - 1}, since cluster.worker lists {len(workers)}"
            )
        return cls(tuple(workers), rank)


def _at(config: Any, name: str, kind: type, path: str = "") -> Any:
    found = config.get(name) if isinstance(config, dict) else None
    if not isinstance(found, kind):
        what = "a list of addresses" if kind is list else "an object"
        raise SettingsError(f"{ENV}: {path}{name} is missing or not {what}")
    return found


def _check_address(address: Any) -> None:
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingsError(f"{ENV}: cluster.worker holds {address!r}, which is not host:port")


def local(ports: Sequence[int]) -> tuple[str, ...]:
    """Addresses of a gang on this machine."""
    return tuple(f"127.0.0.1:{port}" for port in ports)
