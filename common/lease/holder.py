"""The holder of a lease: which process it is, and whether this machine knows that it has ended."""

import contextlib
import functools
import hashlib
import json
import os
import re
import socket
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from common import safe_json

PROC = Path("/proc")
"""Process information of Linux; other systems have none."""

Final = tuple[str, str] | tuple[()]
"""Last commit of a holder: name and text of a file next to the lease; empty before it."""

_FINAL_NAME = r"[a-z]+\.json"

CLUSTER_CA = "CLUSTER_CA"
"""Environment variable of pods: the certificate of their cluster's authority."""


@dataclass(frozen=True)
class Holder:
    """Content of lease.json.

    Attributes:
        job_id: Identity that all attempts of a job share.
        token: Identity of this acquisition.
        host: Name of the machine, for messages.
        machine: Identity of the machine's current boot.
        pid: Number of the process.
        process_start: Start time of the process, which distinguishes it from later ones.
        site: Identity of the Kubernetes cluster; empty where it is unknown.
        renewals: Number of renewals so far.
        final: Last commit of the holder.
    """

    job_id: str
    token: str
    host: str
    machine: str
    pid: int
    process_start: int
    site: str
    renewals: int
    final: Final = ()

    @classmethod
    def here(cls, job_id: str) -> Self:
        """Return a holder for this process."""
        pid = os.getpid()
        start = _process_start(pid) or 0
        token, host = uuid.uuid4().hex, socket.gethostname()
        return cls(job_id, token, host, _machine(), pid, start, _site(), 0)

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Return the holder; None for other content, which counts as alive while it changes."""
        try:
            fields = safe_json.parse(content)
            holder = cls(**{**fields, "final": tuple(fields["final"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        numbers = (holder.pid, holder.process_start, holder.renewals)
        texts = (holder.job_id, holder.token, holder.host, holder.machine, holder.site)
        valid = all(type(n) is int for n in numbers) and len(holder.final) in (0, 2)
        valid = valid and all(type(t) is str for t in (*texts, *holder.final))
        if valid and holder.final:
            valid = re.fullmatch(_FINAL_NAME, holder.final[0]) is not None
        return holder if valid else None

    def to_bytes(self) -> bytes:
        """Return the content of lease.json."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def is_here(self) -> bool:
        """Return True if this process could see the holder: same boot, same PID namespace."""
        return self.machine == _machine()

    def is_attempt_of(self, job_id: str) -> bool:
        """Return True if the holder is known to be an attempt of this job.

        Another Kubernetes cluster may run a job of the same name, on the same bucket.
        """
        same_site = self.site == _site() if self.site else self.is_here()
        return self.job_id == job_id and same_site

    def has_ended(self) -> bool:
        """Return True if the holder is known to have ended, without waiting."""
        if not self.is_here():
            return False
        start = _process_start(self.pid)
        return start != self.process_start and (start is not None or not _is_hidden(self.pid))


def _site() -> str:
    """Return the identity of the Kubernetes cluster of this pod: its certificate authority."""
    authority = os.environ.get(CLUSTER_CA, "")
    return hashlib.sha256(authority.encode()).hexdigest()[:16] if authority else ""


def _machine() -> str:
    """Return the identity of this boot of this machine or container."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {os.readlink(PROC / 'self/ns/pid')}"
    except OSError:
        return _machine_without_proc()


@functools.cache
def _machine_without_proc() -> str:
    try:
        import psutil
    except ImportError:
        return uuid.uuid4().hex  # so that no process counts as one of this machine
    return f"{socket.gethostname()} {int(psutil.boot_time())}"


def _process_start(pid: int) -> int | None:
    """Return the start time of a process; None if it has ended.

    The unit is clock ticks since boot on Linux, otherwise milliseconds since 1970.
    """
    if not (PROC / "self/stat").exists():
        return _process_start_without_proc(pid)
    try:
        status = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = status.rpartition(")")[2].split()  # the name before it can contain anything
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _is_hidden(pid: int) -> bool:
    """Return True if a process exists that /proc does not show, as with `hidepid`."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False  # /proc would show a process of the same user


def _process_start_without_proc(pid: int) -> int | None:
    try:
        import psutil
    except ImportError:
        return 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return int(process.create_time() * 1000)
    return None
