"""Section "machine" in the report of a failed test: what the machine was doing."""

import os
import shutil
import tempfile
import time

from tests.support import patience

GIB = 2**30
PROCESSES = 8
SAMPLE_SECONDS = 0.2


def describe_machine(elapsed_seconds: float) -> str:
    """Return load, memory, disk, speed and the busiest processes; never an exception.

    Args:
        elapsed_seconds: Time that the failed test took.
    """
    try:
        import psutil

        memory, folder = psutil.virtual_memory(), tempfile.gettempdir()
        loads = " ".join(f"{load:.1f}" for load in os.getloadavg())
        lines = [
            f"the test took {elapsed_seconds:.1f} s; factor of all limits: {patience.factor():.1f}",
            f"load {loads} on {os.cpu_count()} CPUs, {len(psutil.pids())} processes",
            f"memory {memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free",
            f"disk {shutil.disk_usage(folder).free / GIB:.1f} GiB free in {folder}",
        ]
        for _ in range(2):  # the CPU time of each process is that since the previous call
            found = [one.info for one in psutil.process_iter(["cpu_percent", "pid", "cmdline"])]
            time.sleep(SAMPLE_SECONDS)
        found.sort(key=lambda info: info["cpu_percent"] or 0.0, reverse=True)
        for info in found[:PROCESSES]:
            command = " ".join(" ".join(info["cmdline"] or ["?"]).split())
            lines.append(f"{info['cpu_percent']:4.0f} % CPU  {info['pid']:>7}  {command[:100]}")
        return "\n".join(lines)
    except Exception as error:  # the report of the failure matters more
        return f"unknown: {error!r}"
