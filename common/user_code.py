"""The source of a user's model: found without importing it, recorded at training, checked later.

A run records the name of its model, module:factory. Whoever made the run chose that name, so a
program that reads the run imports the module only if the user names it again (MODEL=...), or if its
source is the recorded one and lies where the user's own modules lie.
"""

import hashlib
import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

from common.errors import SettingsError

ROOT = Path(__file__).resolve().parents[1]
"""Folder of this installation."""

_OWN_FOLDERS = tuple(
    ROOT / name
    for name in ("benchmarks", "chaos", "common", "docs", "examples", "images", "inference",
                 "infra", "k8s", "launch", "planning", "qfleet", "studies", "tests", "tools",
                 "training")
)  # fmt: skip


@dataclass(frozen=True)
class UserCode:
    """Permission of a program to import the user's model or sampler that a run records.

    Attributes:
        model: MODEL as the user gave it to this program; empty if not.
        folders: Folders of runs, from which nothing is imported unless `model` names it.
        verbose: Show the user's part of a traceback.
        sampler: SAMPLER as the user gave it to this program; a run's own is not imported.
    """

    model: str = ""
    folders: Sequence[Path] = ()
    verbose: bool = False
    sampler: str = ""

    def require(self, recorded: str, source: Mapping[str, str | None] | None) -> None:
        """Check that the recorded model may be imported; nothing is imported here.

        Args:
            recorded: MODEL of the run.
            source: Result of `digests` when the run was trained.

        Raises:
            SettingsError: The user must name the model first.
        """
        if ":" not in recorded or recorded == self.model:
            return
        module = recorded.partition(":")[0]
        reason = self._refusal(module, source)
        if reason:
            raise SettingsError(
                f"this run's model is {recorded}, which would run the code of module {module}, and"
                f" {reason}: set MODEL={recorded} if you trust that code"
            )

    def _refusal(self, module: str, source: Mapping[str, str | None] | None) -> str:
        """Return why a module is not imported without the user's word; empty if it may be."""
        if not source:
            return "the run records no digest of it"
        files = find_files(module)
        if files is None:
            return "it is not in this folder or on PYTHONPATH"
        for name, file in files.items():
            if file is None:
                continue
            where = file.resolve()
            if any(where.is_relative_to(folder) for folder in _library_folders()):
                return f"{file} is not a module of yours"
            if any(where.is_relative_to(Path(folder).resolve()) for folder in self.folders):
                return f"{file} lies among the runs"
            loaded = getattr(sys.modules.get(name), "__file__", None)
            if loaded and Path(loaded).resolve() != where:
                return f"another module of this name is in use ({loaded})"
        if digests(module) != dict(source):
            return "its source is not the one that the run was trained with"
        return ""


def add_current_folder() -> None:
    """Let modules of the current folder be imported, after all others.

    At the front of the path, a file of that folder could replace any library.
    """
    if not any(entry in ("", os.getcwd()) for entry in sys.path):
        sys.path.append("")


def find_files(module: str) -> dict[str, Path | None] | None:
    """Find the source of a module and of the packages that contain it, without importing them.

    Args:
        module: Full name, such as my_model or package.my_model.

    Returns:
        Name -> source file, None for a package without one; None if the module is not found, or is
        not Python source.
    """
    found: dict[str, Path | None] = {}
    places = [os.path.abspath(place) for place in (*sys.path, os.getcwd())]
    parts = module.split(".")
    for count, part in enumerate(parts, start=1):
        name = ".".join(parts[:count])
        spec = _find_spec(part, places)  # with the full name, it would need imported parents
        if spec is None:
            return None
        if spec.origin is None and spec.submodule_search_locations is not None:
            found[name] = None  # a namespace package; its own list of folders would import it
            places = [os.path.join(place, part) for place in places]
            continue
        if not isinstance(spec.loader, SourceFileLoader) or not spec.origin:
            return None
        found[name] = Path(spec.origin)
        places = list(spec.submodule_search_locations or ())
    return found if found[module] is not None else None


def digests(module: str) -> dict[str, str | None] | None:
    """Return the SHA-256 of the source of a module and its packages, for model.json.

    Returns:
        Name -> SHA-256 (hex), None for a package without source; None if there is no source file.
    """
    files = find_files(module)
    if files is None:
        return None
    try:
        return {
            name: None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in files.items()
        }
    except OSError:
        return None


def _find_spec(name: str, places: Sequence[str]) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name, places)
    except (ImportError, ValueError, OSError):
        return None


def _library_folders() -> list[Path]:
    """Return the folders of Python, of installed packages and of qfleet."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(name) for name in names]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return [Path(folder).resolve() for folder in folders] + list(_OWN_FOLDERS)
