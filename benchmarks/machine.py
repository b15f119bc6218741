"""Facts about this machine, for reports of measured times."""

import os
import platform
from pathlib import Path

from common.processes import cpu_count

_SETS = ("sse4_2", "avx2", "fma", "avx512f", "asimd", "sve")


def facts() -> dict[str, str]:
    """Return CPU, cores, caches, instruction sets, memory, system and load as texts by name."""
    info = _cpuinfo()
    load = ", ".join(f"{number:.2f}" for number in os.getloadavg())
    flags = info.get("flags", info.get("Features", "")).split()
    return {
        "CPU": info.get("model name", platform.machine()),
        "cores": f"{cpu_count()} usable of {os.cpu_count()}",
        "caches": ", ".join(_caches()) or "unknown",
        "instruction sets": ", ".join(name for name in _SETS if name in flags) or "unknown",
        "memory": f"{total_gib():.1f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "load before the run (1, 5, 15 minutes)": load,
    }


def total_gib() -> float:
    """Return the memory of this machine in GiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def available_gib() -> float:
    """Return the memory that processes can still take without swapping, in GiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) / 2**20 for line in lines if line.startswith("MemAvailable"))


def _cpuinfo() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in reversed(lines))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _caches() -> list[str]:
    """Return the caches, such as "L1 data 32K" and "L2 1024K"."""
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        caches.append(f"L{level}{'' if kind == 'Unified' else ' ' + kind.lower()} {size}")
    return caches
