"""How much memory states take, and whether this machine has it."""

import os
from pathlib import Path

import psutil

from common.errors import CircuitError

MAX_WAITING_STATE_BYTES = 4 << 30
"""Most bytes of states that wait between forward pass and gradient (kMaxCachedBytes in native/tf_ops.h)."""

_LIMITS = (  # a container's, which psutil does not know: (limit, use)
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def available_bytes() -> int:
    """Bytes that this process may still take: what is free, or is left of a container's limit."""
    free = psutil.virtual_memory().available
    for limit, use in _LIMITS:
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(use).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return max(free, 0)


def cpu_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def state_bytes(qubits: int, amplitude: int, states: int) -> int:
    """Bytes of so many states.

    Args:
        qubits: N.
        amplitude: Bytes of one, 8 or 16.
        states: How many.
    """
    return states * amplitude << qubits


def require_memory(qubits: int, amplitude: int, states: int, copies: int, holders: int = 1) -> None:
    """Refuse what this machine has no memory for, before it is begun.

    Args:
        qubits: N.
        amplitude: Bytes of one, 8 or 16.
        states: How many states a process holds at a time.
        copies: How many processes there are on this machine.
        holders: How many processes hold a state together.

    Raises:
        CircuitError: It says how many bytes are needed and what would fit.
    """
    needed, free = state_bytes(qubits, amplitude, states * copies) // holders, available_bytes()
    if needed <= free:
        return
    fits = qubits
    while fits and state_bytes(fits, amplitude, states * copies) // holders > free:
        fits -= 1
    what = "training" if states > 1 else "reading"
    workers = f" in each of {copies} workers" if copies > 1 else ""
    raise CircuitError(
        f"{what} {qubits} qubits takes {needed:,} bytes for {states} state{'s'[: states > 1]}"
        f"{workers}, and {free:,} are free here: use at most {fits} qubits"
        f"{', fewer workers' if copies > 1 else ''} or a machine with more memory"
    )
