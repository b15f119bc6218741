"""Faults of a node that is this machine: signals to pods' processes, and their network cut."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROC = Path("/proc")


def is_here(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if all nodes run on this machine, and this process may signal their pods."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return False
    return os.geteuid() == 0 and all(
        found["status"]["nodeInfo"]["bootID"] == boot for found in nodes
    )


def processes(uid: str) -> list[int]:
    """Return the Python processes of a pod on this machine, parents before children."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                groups = (entry / "cgroup").read_text()
                inside = uid in groups or uid.replace("-", "_") in groups
                if inside and b"python" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return sorted(found)


def send(pids: Sequence[int], number: int) -> None:
    """Send a signal to those processes that still exist."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def cut_network(pid: int) -> bool:
    """Drop all packets of the pod of a process, in both directions; False if that failed."""
    return all(_rule(pid, "--insert", chain) for chain in ("INPUT", "OUTPUT"))


def restore_network(pid: int) -> None:
    """Undo `cut_network`. Where the pod is gone, its network is gone as well."""
    for chain in ("INPUT", "OUTPUT"):
        _rule(pid, "--delete", chain)


def _rule(pid: int, action: str, chain: str) -> bool:
    direction = "--in-interface" if chain == "INPUT" else "--out-interface"
    command = [
        "nsenter", f"--net={PROC}/{pid}/ns/net", "iptables", action, chain,
        "!", direction, "lo", "--jump", "DROP",
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
