"""The settings that a program reads, from its source: those in the functions that it reaches.

A name in a function leads to its definition, an attribute to the methods of that name in all
reached classes, and a string such as "training.worker" to the process of that module. So more is
found than a program reads, and hardly less.
"""

import ast
import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from common.settings import Scope, Settings, names_in_scope
from common.settings.programs import POD_SETTINGS
from common.settings.registry import GROUPS

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "common", "training", "inference", "launch", "planning", "studies")
FIELDS = Settings.fields()
CLASSES = {group.__name__: name for name, group in GROUPS.items()}
SETTINGS_NAMES = ("settings", "requested", "merged", "numbers", "changed", "unlimited")
"""Names of variables and attributes that hold `Settings`."""

_IDENTITY = {name for name, one in FIELDS.items() if one.identity}
RESOLVED = {
    "run_name": {"run", "model"},
    "identity": _IDENTITY,
    "fingerprint": _IDENTITY,
}
"""Members of `Settings` that read several settings."""

Definition = tuple[str, str]
"""A module, and a name or Class.method in it; an empty name for the module itself."""


@dataclass
class Facts:
    """Names in a definition, and the settings that it reads."""

    names: set[str] = field(default_factory=set)
    members: set[tuple[str, str]] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)


@functools.cache
def _trees() -> dict[str, ast.Module]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _definitions() -> dict[Definition, ast.AST]:
    found: dict[Definition, ast.AST] = {}
    for module, tree in _trees().items():
        for node in tree.body:
            for name in _bound(node):
                found[module, name] = node
            for method in getattr(node, "body", ()) if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef):
                    found[module, f"{node.name}.{method.name}"] = method
    return found


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)]


@functools.cache
def _imports(module: str) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for node in ast.walk(_trees()[module]):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {one.asname or one.name: (node.module, one.name) for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.asname or one.name: (one.name, "") for one in node.names}
    return found


@functools.cache
def _resolve(module: str, name: str) -> Definition | None:
    """Return what a name means in a module, through re-exports."""
    while (module, name) not in _definitions():
        if f"{module}.{name}" in _trees():
            return f"{module}.{name}", ""
        if module not in _trees() or name not in _imports(module):
            return None
        module, name = _imports(module)[name]
    return module, name


@functools.cache
def _methods(owner: Definition) -> tuple[tuple[Definition, str], ...]:
    """Return the methods of a class, with their names; none for another definition."""
    node = _definitions()[owner]
    body = node.body if isinstance(node, ast.ClassDef) else []
    names = [one.name for one in body if isinstance(one, ast.FunctionDef)]
    return tuple(((owner[0], f"{owner[1]}.{name}"), name) for name in names)


@functools.cache
def _facts(definition: Definition) -> Facts:
    node, found = _definitions()[definition], Facts()
    parts = [node]
    if isinstance(node, ast.ClassDef):  # its methods are definitions of their own
        parts = [one for one in node.body if not isinstance(one, ast.FunctionDef)]
        parts += [*node.bases, *node.decorator_list]
    groups = dict(_group_variables(node))
    for each in (inner for part in parts for inner in ast.walk(part)):
        if isinstance(each, ast.Name):
            found.names.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.attributes.add(each.attr)
            if isinstance(each.value, ast.Name):
                found.members.add((each.value.id, each.attr))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.strings.add(each.value)
        found.reads |= _reads(each, groups)
    return found


def _reads(node: ast.AST, groups: dict[str, str]) -> set[str]:
    """Return the settings that an expression reads."""
    if isinstance(node, ast.Attribute):
        if group := _group_of(node.value, groups):
            return _reads_of_member(group, node.attr)
        if _is_settings(node.value):
            return RESOLVED.get(node.attr, set())
        return set(names_in_scope(Scope[node.attr])) if _is_name(node.value, "Scope") else set()
    if isinstance(node, ast.Name):
        return set().union(*POD_SETTINGS.values()) if node.id == "POD_SETTINGS" else set()
    constants: list[ast.expr] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "get" and _is_settings(node.func.value):
            constants = node.args
    elif isinstance(node, ast.Call) and _is_name(node.func, "getattr"):
        if group := _group_of(node.args[0], groups):
            return set(GROUPS[group].model_fields)
    elif isinstance(node, ast.Compare) and "explicit" in ast.unparse(node.comparators[0]):
        constants = [node.left]
    return {str(one.value) for one in constants if isinstance(one, ast.Constant)} & FIELDS.keys()


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_settings(node: ast.AST) -> bool:
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name.strip("_") in SETTINGS_NAMES


def _group_of(node: ast.AST, groups: dict[str, str]) -> str:
    """Return the group that an expression holds; empty for others."""
    if isinstance(node, ast.Attribute):
        is_group = _is_settings(node.value) or _is_name(node.value, "self")
        name = node.attr.strip("_")
        name = {"limits": "fault_tolerance"}.get(name, name)
        return name if is_group and name in GROUPS else ""
    return groups.get(node.id, "") if isinstance(node, ast.Name) else ""


def _group_variables(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the parameters and variables of a function that hold a group."""
    for each in ast.walk(node):
        if isinstance(each, ast.arg) and each.annotation is not None:
            if group := CLASSES.get(ast.unparse(each.annotation)):
                yield each.arg, group
        elif isinstance(each, ast.Assign):
            left, right = each.targets[0], each.value
            pairs = [(left, right)]
            if isinstance(left, ast.Tuple) and isinstance(right, ast.Tuple):
                pairs = [*zip(left.elts, right.elts, strict=True)]
            for variable, value in pairs:
                if isinstance(variable, ast.Name) and (group := _group_of(value, {})):
                    yield variable.id, group


@functools.cache
def _reads_of_member(group: str, name: str) -> frozenset[str]:
    """Return the settings of a group that one of its members reads: a setting, or a property."""
    kind = GROUPS[group]
    if name in kind.model_fields:
        return frozenset({name})
    member = vars(kind).get(name)
    code = getattr(getattr(member, "fget", member), "__code__", None)
    inner = [one for one in code.co_names if one != name] if code else []
    return frozenset().union(*(_reads_of_member(group, one) for one in inner))


def settings_read_by(
    module: str, function: str = "main", without: Collection[str] = ()
) -> dict[str, set[str]]:
    """Return the settings that a function reads, directly or not -> where.

    Args:
        module: Its module.
        function: Its name.
        without: Modules whose process gets some settings only.
    """
    found: set[Definition] = set()
    attributes: set[str] = set()
    waiting: dict[str, list[Definition]] = {}  # methods of reached classes that nothing names yet
    todo = [(module, function)]
    while todo:
        one = todo.pop()
        if one in found or one[0] in without or one[0].startswith("common.settings"):
            continue
        found.add(one)
        todo += _successors(one)
        for owner, name in _methods(one):
            if name in attributes or name.startswith("__"):
                todo.append(owner)
            else:
                waiting.setdefault(name, []).append(owner)
        for name in _facts(one).attributes - attributes:
            todo += waiting.pop(name, ())
        attributes |= _facts(one).attributes
    where: dict[str, set[str]] = {}
    for one in found:
        for name in _facts(one).reads:
            where.setdefault(name, set()).add(".".join(one))
    return where


@functools.cache
def _successors(one: Definition) -> tuple[Definition, ...]:
    """Return the definitions that a definition names."""
    facts = _facts(one)
    reached = [_resolve(one[0], name) for name in facts.names]
    reached += [_member(one[0], *pair) for pair in facts.members]
    reached += [(text, "main") for text in facts.strings if text in _trees()]
    return tuple(each for each in reached if each in _definitions())


def _member(module: str, name: str, attribute: str) -> Definition | None:
    """Return the definition of `name.attribute`, where the name is a module."""
    base = _resolve(module, name) or _imports(module).get(name)
    return _resolve(base[0], attribute) if base and not base[1] and base[0] in _trees() else None
