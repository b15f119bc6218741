"""The source of a user's model: found and checked without importing it, recorded at training.

A run records the name of its model, module:factory. Whoever made the run chose that name, so a
program that reads the run imports the module only if the user names it again (MODEL=...), or if its
source is the recorded one and lies where the user's own modules lie.
"""

import ast
import hashlib
import importlib.util
import itertools
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

from common.errors import SettingsError
from common.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
"""Folder of this installation."""

_OWN_FOLDERS = tuple(
    ROOT / name
    for name in ("benchmarks", "chaos", "cli", "common", "docs", "examples", "images", "inference",
                 "infra", "k8s", "launch", "planning", "qfleet", "studies", "tests", "tools",
                 "training")
)  # fmt: skip

_BINDING = ("globals", "vars", "locals", "setattr", "exec", "modules")
"""Names in code that can give a module names that it does not spell."""


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


def named_functions(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the functions that MODEL and SAMPLER name, SETTING=module:factory -> parameters."""
    named = {
        f"MODEL={settings.model.model}": ("features", "settings"),
        f"SAMPLER={settings.model.sampler}": ("settings",),
    }
    return {title: parameters for title, parameters in named.items() if ":" in title}


def check_functions(settings: Settings) -> None:
    """Check the source of MODEL and SAMPLER, as far as it shows errors without being imported.

    Raises:
        SettingsError: A module is not found, or `check_source` refuses it.
    """
    add_current_folder()
    for title, parameters in named_functions(settings).items():
        module = module_of(title)
        if (files := find_files(module)) is not None:
            file = Path(str(files[module]))
            _check_imports(title, file, check_source(title, file, parameters))
        elif missing := _missing_package(module):
            raise SettingsError(
                f"{title}: module {missing!r} is not in this folder or on PYTHONPATH"
            )


def module_of(title: str) -> str:
    """Return the module of SETTING=module:factory."""
    return title.partition("=")[2].partition(":")[0]


def _check_imports(title: str, file: Path, tree: ast.Module) -> None:
    """Check that what a module imports before anything else is installed here.

    Other imports may be meant to fail, or follow a change of sys.path.

    Raises:
        SettingsError: A package is not found.
    """
    for node in itertools.takewhile(_is_import_or_text, tree.body):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        for missing in filter(None, map(_missing_package, names)):
            raise SettingsError(
                f"{title} imports {missing!r} at {file}:{node.lineno}, which is not installed"
                f" for {sys.executable}: install it there"
            )


def _missing_package(module: str) -> str:
    """Return the outermost package of a module, or "" where it is found."""
    top = module.partition(".")[0]
    return "" if top in sys.modules or importlib.util.find_spec(top) else top


def _is_import_or_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def check_source(title: str, file: Path, parameters: Sequence[str]) -> ast.Module:
    """Check that a file defines a function. What only an import shows is left to the import.

    Args:
        title: SETTING=module:factory.
        file: The module.
        parameters: Names of the function's parameters.

    Returns:
        The syntax tree of the file.

    Raises:
        SettingsError: The file is not Python, does not define the name, or defines a class or a
            function of other parameters.
    """
    name = title.rpartition(":")[2]
    try:
        tree = ast.parse(file.read_bytes(), str(file))
        compile(tree, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        cause = f"SyntaxError: {error.msg} at {file}:{error.lineno}"
        raise SettingsError(f"{title} failed: {cause}") from None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{title}: {file} can't be read as Python: {error}") from None
    bindings = [node for node in _statements(tree) if _may_bind(node, name)]
    if not bindings:
        raise SettingsError(f"{title}: module {module_of(title)!r} has no {name!r}")
    node, *others = bindings
    if others or getattr(node, "name", "") != name or getattr(node, "decorator_list", []):
        return tree
    expected = f"({', '.join(parameters)})"
    if isinstance(node, ast.ClassDef):
        raise SettingsError(
            f"{title} is a class: it must be a function, defined as `def build{expected}:`"
        )
    if isinstance(node, ast.FunctionDef) and not _takes(node.args, len(parameters)):
        raise SettingsError(
            f"{title} can't be called with {expected}, since it is defined as"
            f" `def {name}({ast.unparse(node.args)})` at {file}:{node.lineno}: change its"
            f" parameters to {expected}"
        )
    return tree


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module, without those in the bodies of its functions and classes."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _statements(node)


def _may_bind(node: ast.AST, name: str) -> bool:
    """Return True if a node of a module may give it a name."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name in (name, "__getattr__") or any(map(_binds_any, ast.walk(node)))
    if isinstance(node, ast.alias):
        return name == (node.asname or node.name.partition(".")[0]) or node.name == "*"
    stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
    return (
        stored or name in (getattr(node, "name", ""), getattr(node, "rest", "")) or _binds_any(node)
    )


def _binds_any(node: ast.AST) -> bool:
    """Return True for code that can give a module names that it does not spell."""
    called = getattr(node, "id", getattr(node, "attr", ""))
    return isinstance(node, ast.Global) or called in _BINDING


def _takes(arguments: ast.arguments, count: int) -> bool:
    """Return True if a function can be called with `count` arguments, and `outputs` if it has."""
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [one.arg for one in (*positional, *arguments.kwonlyargs)]
    count += "outputs" in names
    least = len(positional) - len(arguments.defaults)
    most = count if arguments.vararg else len(positional)
    return least <= count <= most and None not in arguments.kw_defaults


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
