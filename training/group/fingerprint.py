"""The fingerprint that all workers of a process group must share, and the sentence otherwise.

Compared are the settings that identify a run (but the place of the run, where the workers find
each other), those in Scope.GROUP, the number of workers, the versions of qfleet and of
the packages that compute, the native library, the Python sources, and the source of the user's own
model. Settings of one process, such as THREADS, may differ. The data set is compared after the
start, since the chief may have to write it first.
"""

import functools
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from common.environments import ROOT
from common.settings import Scope, Settings, names_in_scope
from common.settings.schema import format_value
from qfleet.engine.version import __version__
from qfleet.native import libraries
from training.cluster.spec import ClusterSpec

Fingerprint = Mapping[str, str]
"""By item: a setting's name in capitals, or one of the items below."""

PACKAGES = ("tensorflow", "tensorflow-cpu", "tf_keras", "numpy", "cirq-core")
SOURCES = ("common", "qfleet", "training")
MAX_DIFFERENCES = 4
MAX_VALUE_CHARACTERS = 60
DIGEST_CHARACTERS = 12

_VERSION = "the version of "
_LIBRARY = "the native library"
_CODE = "the Python code"
_MODEL = "the source of MODEL"


def group_fingerprint(settings: Settings, cluster: ClusterSpec) -> Fingerprint:
    """Return this worker's fingerprint.

    Args:
        settings: All settings, with the recorded numbers of an existing run.
        cluster: All workers.
    """
    shared = {name: settings.get(name) for name in names_in_scope(Scope.GROUP)}
    shared |= settings.identity() | {"workers": cluster.size}
    found = {name.upper(): format_value(value) for name, value in shared.items()}
    found |= {f"{_VERSION}{name}": version for name, version in _versions().items()}
    found[_LIBRARY] = _digest(libraries.core_path(), libraries.tensorflow_path())
    found[_CODE] = _digest(*_sources())
    if source := _model_source(settings.model.model):
        found[_MODEL] = _digest(source)
    return {name: _shortened(value) for name, value in found.items()}


def describe_differences(by_rank: Mapping[int, Fingerprint]) -> str:
    """Return how workers differ in one sentence; empty where they agree.

    Args:
        by_rank: Fingerprints of workers, the chief's included.
    """
    items = dict.fromkeys(name for one in by_rank.values() for name in one)
    differing = [name for name in items if len({one.get(name) for one in by_rank.values()}) > 1]
    if not differing:
        return ""
    parts = [_describe(name, by_rank) for name in differing[:MAX_DIFFERENCES]]
    if len(differing) > MAX_DIFFERENCES:
        parts.append(f"and {len(differing) - MAX_DIFFERENCES} more")
    same = "settings" if all(name.isupper() for name in differing) else "image or checkout"
    return f"the workers differ: {'; '.join(parts)}; start all of them with the same {same}"


def _describe(name: str, by_rank: Mapping[int, Fingerprint]) -> str:
    ranks: dict[str, list[int]] = {}
    for rank, one in sorted(by_rank.items()):
        ranks.setdefault(one.get(name) or "unset", []).append(rank)
    values = ", ".join(f"{value} on {_workers(which)}" for value, which in ranks.items())
    return f"{name} is {values}"


def _shortened(value: str) -> str:
    """Return a value of limited length that differs where the whole value does."""
    if len(value) <= MAX_VALUE_CHARACTERS:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{value[:MAX_VALUE_CHARACTERS]}... (sha256 {digest})"


def _workers(ranks: list[int]) -> str:
    numbers = [str(rank) for rank in ranks]
    if len(numbers) == 1:
        return f"worker {numbers[0]}"
    return f"workers {', '.join(numbers[:-1])} and {numbers[-1]}"


@functools.cache
def _versions() -> Mapping[str, str]:
    found = {"qfleet": __version__, "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _sources() -> list[Path]:
    return sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))


def _model_source(model: str) -> Path | None:
    """Return the file of the user's own model without importing it; None for a built-in one."""
    module, colon, _ = model.partition(":")
    if not colon:
        return None
    place = Path(*module.split("."))
    for folder in ["", *sys.path]:
        for path in (Path(folder, place, "__init__.py"), Path(folder, place).with_suffix(".py")):
            if path.is_file():
                return path
    return None


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes() if file.is_file() else b""
        digest.update(f"{file.name} {hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()[:DIGEST_CHARACTERS]
