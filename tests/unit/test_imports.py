"""The import law of ARCHITECTURE.md: which arrow may lead where, read from the source text.

training, inference, launch -> common; planning -> training's gang
common: models -> layers -> simulator -> circuits, data -> circuits; all -> errors, settings
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APPLICATIONS = ("training", "inference", "launch", "planning")
ROOMS = ("common", *APPLICATIONS)
KERAS = {"tensorflow", "tf_keras", "keras"}

# Where each part of common may lead, besides itself. A part that is not here is free to use the
# others, as long as no way leads back to it.
ARROWS = {
    "errors": {"events"},
    "settings": {"events", "errors"},
    "tensorflow": {"errors", "settings"},
    "storage": {"errors", "settings"},
    "circuits": {"errors", "settings"},
    "lease": {"errors", "settings", "storage"},
    "data": {"errors", "settings", "storage", "lease", "circuits"},
    "simulator": {"errors", "settings", "tensorflow", "circuits"},
    "layers": {"errors", "settings", "tensorflow", "circuits", "simulator"},
    "models": {"errors", "settings", "tensorflow", "circuits", "simulator", "layers"},
}


@dataclass(frozen=True)
class Import:
    """One imported name.

    Attributes:
        name: What is imported, with dots; of `from a import b`, a.b.
        late: Whether it happens when a function is called, not when the module is loaded.
    """

    name: str
    late: bool


def imports(source: str, package: str = "") -> list[Import]:
    """All imports of a module's text that happen at run time.

    Args:
        source: The text.
        package: The package that relative imports start from.
    """
    found: list[Import] = []

    def visit(node: ast.AST, late: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            origin = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            found.extend(Import(f"{origin}.{alias.name}", late) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, late)

    visit(ast.parse(source), False)
    return found


def modules() -> Iterator[tuple[str, Path]]:
    """The dotted name and the file of each module of qfleet."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), path


FILES = dict(modules())
IMPORTS = {
    name: imports(
        path.read_text(encoding="utf-8"),
        name if path.name == "__init__.py" else name.rpartition(".")[0],
    )
    for name, path in FILES.items()
}


def module_of(name: str) -> str | None:
    """The module of ours that an imported name lies in; None for a third party's."""
    while name and name not in FILES:
        name = name.rpartition(".")[0]
    return name or None


def part(module: str) -> str:
    """common.data.tables -> data. common.cloud is that half of storage which is loaded late."""
    name = module.split(".")[1] if "." in module else ""
    return "storage" if name == "cloud" else name


def reached(module: str, *, late: bool = True) -> set[str]:
    """Top-level names of all that loading a module imports.

    Args:
        module: One of ours.
        late: Whether what is imported once something in it is called counts, too.
    """
    seen, ahead, tops = set(), [module], set()
    while ahead:
        here = ahead.pop()
        if here in seen:
            continue
        seen.add(here)
        if "." in here:
            ahead.append(here.rpartition(".")[0])
        for one in IMPORTS[here]:
            if late or not one.late:
                tops.add(one.name.split(".")[0])
                if inner := module_of(one.name):
                    ahead.append(inner)
    return tops


def in_common(part_name: str) -> list[str]:
    return [name for name in FILES if name.startswith("common.") and part(name) == part_name]


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a.b\nfrom . import c\nfrom ..d import e\ndef f():\n  from g import h\n"
    source += "if TYPE_CHECKING:\n  import i\nclass J:\n  import k\n"
    assert imports(source, "x.y") == [
        Import("a.b", False),
        Import("x.y.c", False),
        Import("x.d.e", False),
        Import("g.h", True),
        Import("k", False),
    ]


@pytest.mark.parametrize("module", FILES)
def test_tensorflow_is_imported_in_one_place(module: str) -> None:
    third_parties = {one.name.split(".")[0] for one in IMPORTS[module]}
    if module != "qfleet.tensorflow.runtime":
        assert not third_parties & KERAS, "take tf and keras from qfleet.tensorflow.runtime"


@pytest.mark.parametrize("module", FILES)
def test_tensorflow_quantum_is_imported_late_and_in_one_place(module: str) -> None:
    found = [one for one in IMPORTS[module] if one.name.startswith("tensorflow_quantum")]
    assert all(one.late for one in found), "it must come after the strategy: inside a function"
    assert not found or module == "qfleet.tensorflow.tfq"


@pytest.mark.parametrize("module", [name for name in FILES if name.split(".")[0] == "common"])
def test_common_imports_no_application(module: str) -> None:
    assert not {one.name.split(".")[0] for one in IMPORTS[module]} & set(APPLICATIONS)


@pytest.mark.parametrize("module", [name for name in FILES if name.split(".")[0] == "launch"])
def test_the_clusters_client_imports_common_alone_and_nothing_heavy(module: str) -> None:
    assert not {one.name.split(".")[0] for one in IMPORTS[module]} & {"training", "inference"}
    parts = {part(one.name) for one in IMPORTS[module] if one.name.startswith("common.")}
    assert parts <= {"errors", "events", "runs", "settings", "storage", "text"}
    heavy = {*KERAS, "tensorflow_quantum", "numpy", "cirq", "pandas", "pyarrow"}
    assert not reached(module, late=False) & heavy


@pytest.mark.parametrize("module", [name for name in FILES if name.split(".")[0] == "planning"])
def test_planning_starts_what_needs_tensorflow_as_processes(module: str) -> None:
    assert not {one.name.split(".")[0] for one in IMPORTS[module]} & {"inference", "launch"}
    assert not reached(module, late=False) & {*KERAS, "tensorflow_quantum"}


@pytest.mark.parametrize("name", ARROWS)
def test_a_part_of_common_leads_only_where_its_arrows_do(name: str) -> None:
    for module in in_common(name):
        ours = {module_of(one.name) or "" for one in IMPORTS[module]}
        leads = {part(other) for other in ours if other.startswith("common.")} - {name}
        assert leads <= ARROWS[name], module


@pytest.mark.parametrize("name", ["errors", "settings", "storage", "lease", "circuits", "data"])
def test_a_part_without_tensorflow_never_reaches_it(name: str) -> None:
    for module in in_common(name):
        assert not reached(module) & {*KERAS, "tensorflow_quantum"}, module


def test_what_the_tensorboard_environment_runs_reaches_no_tensorflow() -> None:
    assert not reached("training.tensorboard_launcher") & {*KERAS, "tensorflow_quantum"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {
        name: {module_of(one.name) for one in found if not one.late} - {None, name}
        for name, found in IMPORTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_parts_of_common_lead_to_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for module in (name for name in FILES if name.startswith("common.")):
        ours = {module_of(one.name) or "" for one in IMPORTS[module]}
        leads = {part(other) for other in ours if other.startswith("common.")}
        graph.setdefault(part(module), set()).update(leads - {part(module)})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
