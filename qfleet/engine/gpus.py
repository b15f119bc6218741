"""GPUs of this machine, found without their driver and without NumPy."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from qfleet.native.libraries import cuda_path, cuda_sources

_GPU_FILE = re.compile(r"nvidia[0-9]+")
_NUMBER = re.compile(r"[0-9]+")
_WHOLE, _PART = "GPU-", "MIG-"
"""Beginnings of the names of GPUs and of parts of a GPU, of which a process may use only one."""


def gpu_count(environment: Mapping[str, str] | None = None, folder: Path = Path("/dev")) -> int:
    """Return the number of GPUs that this process may use. No driver is asked.

    Args:
        environment: Variables, of which CUDA_VISIBLE_DEVICES may hide GPUs; those of the process
            unless given.
        folder: The folder of the files of GPUs.
    """
    environment = os.environ if environment is None else environment
    try:
        count = sum(_GPU_FILE.fullmatch(name) is not None for name in os.listdir(folder))
    except OSError:
        return 0
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not count:
        return count
    names: list[str] = []
    for part in map(str.strip, visible.split(",")):
        is_number = _NUMBER.fullmatch(part) and int(part) < count
        if not is_number and not part.startswith((_WHOLE, _PART)):
            break  # CUDA hides this one and all others after it
        names.append(part)
    if len({*names}) < len(names):  # CUDA finds no GPU if one is named twice
        return 0
    return 1 if names and names[0].startswith(_PART) else len(names)


def may_use_gpu() -> bool:
    """Return True if there is a GPU, and its library is built. No library is loaded."""
    return gpu_count() > 0 and cuda_path().is_file()


def lacks_library() -> bool:
    """Return True if there is a GPU whose library is not built, but can be in this checkout."""
    return gpu_count() > 0 and bool(cuda_sources()) and not cuda_path().is_file()


def visible_from(first: int) -> dict[str, str]:
    """Return the variables with which a process counts GPUs from another one, in a circle.

    Args:
        first: Number of the GPU that is the process's first one, modulo the number of GPUs.

    Returns:
        CUDA_VISIBLE_DEVICES; nothing where there are not several GPUs.
    """
    count = gpu_count()
    if count < 2:
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",")[:count] if visible else [str(at) for at in range(count)]
    at = first % count
    return {"CUDA_VISIBLE_DEVICES": ",".join([*names[at:], *names[:at]])}
