"""Profiles that were taken before, so that a second plan needs no measuring.

A file for each of them below ~/.cache/qfleet/plans (or $XDG_CACHE_HOME), named by all that it
depends on: machine or cluster, kernel, TensorFlow, the model's circuits. It is stale after DAYS.
"""

import hashlib
import importlib.metadata
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

from common.settings import Settings
from common.settings import Scope, names_in_scope
from planning.machine_profile import MachineProfile, MeasurementEffort
from planning.step_model import FitPoint
from planning.workload import WorkloadAnalysis
from qfleet import native

FORMAT, DAYS = 3, 30
# What reading ends with where there is no file, or a damaged one, or another version's: made anew.
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)


def machine_key(settings: Settings) -> dict[str, Any]:
    """What a profile holds for: the machine, or the cluster's pods, and what computes there."""
    packages = ("tensorflow", "tf_keras", "numpy")
    where = {
        name: settings.get(name)
        for name in names_in_scope(Scope.PROFILE_KEY)
        if settings.job.target == "k8s"
    }
    here = {"cpu model": cpu(), "cores": len(_cores()), "memory": psutil.virtual_memory().total}
    return {
        "format": FORMAT,
        **(where or here),
        "kernel": native.library_path().name,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def cpu() -> str:
    """The processor's name."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def workload(settings: Settings) -> WorkloadAnalysis | None:
    """What the compiler said before of the same settings; None for what may have changed since."""
    with suppress(*_DAMAGED):
        return WorkloadAnalysis.from_json(_read(_described(settings))["workload"])
    return None


def keep_workload(settings: Settings, found: WorkloadAnalysis) -> None:
    """Remember what the compiler said; not of the person's own model or table, which may change."""
    if ":" not in settings.model.model and settings.data.data in ("excitations", "digits"):
        _write(_described(settings), {"workload": found.to_json()})


def profile(
    settings: Settings, found: WorkloadAnalysis, effort: MeasurementEffort
) -> MachineProfile | None:
    """What was measured for such circuits, at least so thoroughly; None where nothing was."""
    for name in ("full", *(("quick",) if effort.turns == 1 else ())):
        with suppress(*_DAMAGED):
            said = _read(_measured(settings, found, name))
            points = tuple(FitPoint(**point) for point in said["points"])
            return MachineProfile(points, int(said["cores"]), 0.0, float(said["taken"]))
    return None


def keep_profile(
    settings: Settings, found: WorkloadAnalysis, effort: MeasurementEffort, taken: MachineProfile
) -> None:
    """Remember what was measured."""
    said = {
        "machine": machine_key(settings),
        "cores": taken.cores,
        "taken": taken.taken,
        "points": [asdict(point) for point in taken.points],
    }
    _write(_measured(settings, found, "quick" if effort.turns == 1 else "full"), said)


def _described(settings: Settings) -> Path:
    fields = type(settings).fields()
    said = {n: str(settings.get(n)) for n, f in fields.items() if f.group in ("model", "data")}
    return _path(
        "workload",
        {**machine_key(settings), **said, "is split": settings.training.state_shards > 1},
    )


def _measured(settings: Settings, found: WorkloadAnalysis, effort: str) -> Path:
    circuits = {
        name: getattr(found, name)
        for name in ("family", "qubits", "circuits", "forward", "backward", "readouts")
    }
    spanned = any(found.spans.values())
    return _path(f"profile-{effort}", {**machine_key(settings), **circuits, "spanned": spanned})


def _path(kind: str, key: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "qfleet" / "plans" / f"{kind}-{digest}.json"


def _read(path: Path) -> dict[str, Any]:
    """A file's content; empty where it is stale."""
    fresh = time.time() - path.stat().st_mtime < DAYS * 86_400
    return json.loads(path.read_text(encoding="utf-8")) if fresh else {}


def _write(path: Path, said: Mapping[str, Any]) -> None:
    """Whole or not at all; a cache that can't be written costs only the next plan's time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(said), encoding="utf-8")
        part.replace(path)


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
