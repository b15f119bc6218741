"""`qfleet check`: what works on this machine, a line each, and the command that mends the rest."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import psutil

from common import devices, storage
from common.environments import LAUNCH, WORKER, Environment, code_version, package_version
from common.errors import QfleetError, one_line
from common.settings import Settings

WORKS, MISSING = "ok", "--"
COMMAND_SECONDS = 5.0
"""Longest time that another program's answer is waited for."""

Finding = tuple[str, str]
"""WORKS or MISSING, and what was found or what mends it."""


def main() -> int:
    """Print a line for each part of a training. The exit code is 2 if nothing can be trained."""
    found = {name: part() for name, part in PARTS.items()}
    for name, (state, text) in found.items():
        print(f"{state}  {name:<11} {text}")
    return 0 if all(found[name][0] == WORKS for name in NEEDED) else 2


def _python() -> Finding:
    return WORKS, f"{platform.python_version()}, qfleet {code_version()}"


def _engine() -> Finding:
    try:
        from qfleet.engine.library import instruction_set, num_threads

        return WORKS, f"C++ with {instruction_set()}, {num_threads()} threads"
    except (ImportError, OSError, RuntimeError) as error:
        return MISSING, f"{one_line(error)}: `python -m qfleet.native` builds it"


def _tensorflow() -> Finding:
    if importlib.util.find_spec(WORKER.module) is None:
        return MISSING, _mend(WORKER)
    from qfleet import native

    version = package_version("tensorflow")
    if reason := native.unavailable_reason():
        return WORKS, f"{version}, without qfleet's operations, so slower: {reason}"
    return WORKS, f"{version} with qfleet's operations"


def _machine() -> Finding:
    memory = psutil.virtual_memory()
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    free, all_of_it = memory.available / 2**30, memory.total / 2**30
    return WORKS, f"{cpus} CPUs, {free:.1f} of {all_of_it:.1f} GiB of memory free"


def _storage() -> Finding:
    default = Settings.from_args([]).job.storage
    try:
        root = storage.path(default)
        if not isinstance(root, Path):
            names = sum(1 for _ in storage.children(root))
            return WORKS, f"{root} is read, {names} entries"
        place = next(one for one in (root, *root.absolute().parents) if one.exists())
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free / 2**30
        return WORKS, f"{root} can be written, {free:.0f} GiB free"
    except (QfleetError, OSError) as error:
        return MISSING, f"{one_line(error)}: set STORAGE to a folder or a bucket of yours"


def _tensorboard() -> Finding:
    try:
        return WORKS, f"{importlib.metadata.version('tensorboard')}: `qfleet tensorboard`"
    except importlib.metadata.PackageNotFoundError:
        return MISSING, "TensorBoard is missing: `pip install 'qfleet[tensorboard]'`"


def _cluster() -> Finding:
    if not shutil.which("kubectl"):
        return MISSING, "no kubectl: install it to train with TARGET=k8s"
    context = _output("kubectl", "config", "current-context")
    if context is None:
        return MISSING, "kubectl has no context: set KUBECONFIG to train with TARGET=k8s"
    if _output("kubectl", "version", "--request-timeout=3s") is None:
        return MISSING, f"context {context} does not answer"
    if importlib.util.find_spec(LAUNCH.module) is None:
        return MISSING, f"context {context} answers; {_mend(LAUNCH)}"
    return WORKS, f"context {context} answers"


def _slurm() -> Finding:
    if not shutil.which("sbatch"):
        return MISSING, "no sbatch: TARGET=slurm is for the login node of a cluster"
    return WORKS, _output("sbatch", "--version") or "sbatch does not answer"


def _gpu() -> Finding:
    from qfleet.engine import gpus

    if not gpus.gpu_count():
        return MISSING, "no Nvidia GPU: circuits are simulated on the CPUs"
    if not gpus.may_use_gpu():
        mend = f"`{devices.INSTALL}` installs it"
        return MISSING, f"the library of GPUs is missing: {mend}"
    found = [devices.description(f"cuda:{at}") for at in range(gpus.gpu_count())]
    if missing := [reason for text, reason in found if not text]:
        return MISSING, missing[0]
    return WORKS, "; ".join(text.removeprefix("device: ") for text, _ in found)


def _output(*command: str) -> str | None:
    """Return what a program prints; None if it is missing, fails or does not answer."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _mend(environment: Environment) -> str:
    return f"{environment.module} is missing: {environment.mend}"


PARTS: Mapping[str, Callable[[], Finding]] = MappingProxyType(
    {
        "Python": _python,
        "engine": _engine,
        "TensorFlow": _tensorflow,
        "machine": _machine,
        "storage": _storage,
        "TensorBoard": _tensorboard,
        "Kubernetes": _cluster,
        "Slurm": _slurm,
        "GPU": _gpu,
    }
)
"""Names and checks, in the order of the lines."""

NEEDED = ("engine", "TensorFlow", "storage")
"""Parts that a training on this machine needs."""
