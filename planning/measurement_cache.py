"""Cached analyses and profiles: a second plan needs no measurement.

One file each in ~/.cache/qfleet/plans (or $XDG_CACHE_HOME). The file name is a digest of everything
that the content depends on: machine or cluster, native library, TensorFlow, circuits.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from common.environments import package_version
from common.processes import usable_cpus
from common.settings import Scope, Settings, names_in_scope
from common.settings.device_checks import ANY_DEVICE
from planning.fit import FitPoint
from planning.machine_profile import MachineProfile, MeasurementEffort
from planning.workload import WorkloadAnalysis
from qfleet.cache_folder import cache_folder
from qfleet.native.libraries import tensorflow_path

FORMAT = 5
MAX_AGE_DAYS = 30

# Errors of reading a file that is missing, damaged or of another version.
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


def machine_key(settings: Settings) -> dict[str, object]:
    """Return the machine, or the pods of a cluster, and the software that a profile depends on."""
    packages = ("tensorflow", "tf_keras", "numpy")
    machine: dict[str, object]
    if settings.job.target == "k8s":
        machine = {name: settings.get(name) for name in names_in_scope(Scope.PROFILE_KEY)}
    else:
        memory = psutil.virtual_memory().total
        machine = {"cpu model": cpu_model(), "cpus": usable_cpus(), "memory": memory}
    return {
        "format": FORMAT,
        **machine,
        "native library": tensorflow_path().name,
        "python": platform.python_version(),
        **{name: package_version(name) for name in packages},
    }


def cpu_model() -> str:
    """Return the name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load_workload(settings: Settings) -> WorkloadAnalysis | None:
    """Return the cached analysis for the same settings; None if there is none."""
    with suppress(*_UNREADABLE):
        return WorkloadAnalysis.from_json(_read(_workload_path(settings))["workload"])
    return None


def store_workload(settings: Settings, workload: WorkloadAnalysis) -> None:
    """Cache an analysis, unless it depends on a user's model or table, which may change."""
    if ":" not in settings.model.model and settings.data.data in ("excitations", "digits"):
        _write(_workload_path(settings), {"workload": workload.to_json()})


def load_profile(
    settings: Settings, workload: WorkloadAnalysis, effort: MeasurementEffort
) -> MachineProfile | None:
    """Return the cached profile of such circuits with at least this effort, if there is one."""
    for name in ("full", *(("quick",) if effort.turns == 1 else ())):
        with suppress(*_UNREADABLE):
            values = _read(_profile_path(settings, workload, name))
            points = tuple(FitPoint(**point) for point in values["points"])
            return MachineProfile(points, int(values["cores"]), 0.0, float(values["created"]))
    return None


def store_profile(
    settings: Settings,
    workload: WorkloadAnalysis,
    effort: MeasurementEffort,
    profile: MachineProfile,
) -> None:
    """Cache a profile."""
    path = _profile_path(settings, workload, "quick" if effort.turns == 1 else "full")
    values = {
        "machine": machine_key(settings),
        "cores": profile.cores,
        "created": profile.created,
        "points": [asdict(point) for point in profile.points],
    }
    _write(path, values)


def _workload_path(settings: Settings) -> Path:
    fields = type(settings).fields()
    values = {n: str(settings.get(n)) for n, f in fields.items() if f.group in ("model", "data")}
    del values["device"]  # circuits are analyzed on the CPU
    sharded = settings.training.state_shards > 1
    return _path("workload", {**machine_key(settings), **values, "sharded": sharded})


def _profile_path(settings: Settings, workload: WorkloadAnalysis, effort: str) -> Path:
    names = (
        *("family", "qubits", "circuits", "forward_flops", "backward_flops", "readouts"),
        *("features", "placement", "classes"),
    )
    circuits = {name: getattr(workload, name) for name in names}
    values = {**circuits, "spanned": workload.has_spanning_states}
    if settings.model.device not in ANY_DEVICE:
        values["device"] = settings.model.device
    training = settings.training
    if training.explicit_batch:
        values["batch"] = training.batch
    return _path(f"profile-{effort}", {**machine_key(settings), **values})


def _path(kind: str, key: Mapping[str, object]) -> Path:
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder("plans") / f"{kind}-{digest}.json"


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a file; empty if it is older than MAX_AGE_DAYS."""
    fresh = time.time() - path.stat().st_mtime < MAX_AGE_DAYS * 86_400
    return json.loads(path.read_text(encoding="utf-8")) if fresh else {}


def _write(path: Path, values: Mapping[str, object]) -> None:
    """Write a file atomically. Without a writable cache, the next plan only takes longer."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(values), encoding="utf-8")
        part.replace(path)
