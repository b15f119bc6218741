"""Memory that states need, compared with the free memory of this machine."""

import os
import sys
from pathlib import Path

from qfleet.errors import MemoryLimitError

MAX_WAITING_STATE_BYTES = 4 << 30
"""Most bytes of states kept for the adjoint pass (kMaxKeptBytes in native/capi/evaluation.h)."""

UNCHECKED_BYTES = 64 << 20
"""Smaller arrays are not checked: reading the free memory takes 0.1 ms."""

TENSORFLOW_QUBITS = 30
"""Widest state of plain TensorFlow, which counts amplitudes with 32 bits."""

ADVICE = "use fewer qubits, a smaller batch or a machine with more memory"

_MEMINFO = Path("/proc/meminfo")
_CGROUP_FILES = (  # (limit, usage) of a container, which /proc/meminfo does not include
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def available_bytes() -> int:
    """Return the bytes that this process may still allocate, within its container's limit."""
    free = _machine_bytes()
    for limit, usage in _CGROUP_FILES:
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(usage).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return max(free, 0)


def _machine_bytes() -> int:
    """Return the bytes that are available on this machine; on macOS, all of its memory."""
    if sys.platform == "linux":
        for line in _MEMINFO.read_text().splitlines():
            name, _, amount = line.partition(":")
            if name == "MemAvailable":
                return int(amount.removesuffix("kB")) << 10
    # macOS compresses memory and frees caches, and has no file that lists free memory.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def state_bytes(qubits: int, amplitude_bytes: int, states: int = 1) -> int:
    """Return the bytes that states take.

    Args:
        qubits: Qubits per state.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
        states: Number of states.
    """
    return states * amplitude_bytes << qubits


def require_memory(
    qubits: int, amplitude_bytes: int, states: int, processes: int = 1, shards: int = 1
) -> None:
    """Check that states fit into the free memory of this machine.

    Args:
        qubits: Qubits per state.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
        states: States that a process holds at a time: 1 for readouts, 2 for gradients.
        processes: Processes on this machine that do the same.
        shards: Processes that each state is sharded over.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes and the largest width
            that fits.
    """
    needed = state_bytes(qubits, amplitude_bytes, states * processes) // shards
    free = available_bytes()
    if needed <= free:
        return
    fits = qubits
    while fits and state_bytes(fits, amplitude_bytes, states * processes) // shards > free:
        fits -= 1
    task = "differentiating" if states > 1 else "simulating"
    count = "1 state" if states == 1 else f"{states} states"
    where = _in_each_of(processes)
    fewer = " fewer processes," if processes > 1 else ""
    raise MemoryLimitError(
        f"{task} {qubits} qubits takes {needed:,} bytes for {count}{where}, but {free:,} bytes are"
        f" free: use at most {fits} qubits,{fewer} or a machine with more memory"
    )


def require_bytes(
    needed: int,
    purpose: str,
    advice: str = ADVICE,
    processes: int = 1,
    free: int | None = None,
) -> None:
    """Check that an array of more than 64 MiB fits into the free memory.

    Args:
        needed: Bytes of the array in each process.
        purpose: The content of the array, for the message.
        advice: What to do instead.
        processes: Processes on this machine that do the same.
        free: Bytes of a device that are free; those of this machine unless given.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes.
    """
    needed *= processes
    if needed <= UNCHECKED_BYTES:
        return
    free = available_bytes() if free is None else free
    if needed > free:
        raise MemoryLimitError(
            f"{purpose}{_in_each_of(processes)} takes {needed:,} bytes, but {free:,} bytes are"
            f" free: {advice}"
        )


def _in_each_of(processes: int) -> str:
    return f" in each of {processes} processes" if processes > 1 else ""
