"""Import rules: the direction of imports between packages, read from the source text.

launch, planning, training, inference -> common -> qfleet. Events, processes, text and errors are
available to all of the application. Only qfleet.tensorflow imports TensorFlow and legacy Keras, and
the application gets both from qfleet.tensorflow.runtime. No package imports tools.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from qfleet.native.libraries import core_folders

ROOT = Path(__file__).parents[2]
APPLICATIONS = ("cli", "training", "inference", "launch", "planning", "studies")
PACKAGES = ("qfleet", "common", *APPLICATIONS)
ALL_PACKAGES = (*PACKAGES, "benchmarks", "chaos", "tools")
TENSORFLOW = {"tensorflow", "tf_keras", "keras"}
FRAMEWORKS = {
    "torch": ("qfleet.torch", "qfleet.pennylane", "qfleet.keras"),
    "jax": ("qfleet.jax", "qfleet.pennylane", "qfleet.keras"),
    "keras": ("qfleet.keras",),
    "pennylane": ("qfleet.pennylane",),
    "sklearn": ("qfleet.kernels.estimators", "common.data.splits", "training.kernel", "inference"),
}
"""Frameworks, and the adapters that may import them."""
RUNTIME = "qfleet.tensorflow.runtime"
TENSORFLOW_IMPORTS = {"qfleet.tensorflow.framework": {"tensorflow"}, RUNTIME: {"tf_keras"}}
"""The modules that import TensorFlow and legacy Keras."""

BASE = {
    "built_in_data", "commands", "count_bar", "environments", "epoch_bar", "errors", "events",
    "formats", "import_path", "metrics", "processes", "safe_json", "text", "tuning", "settings",
    "waiting",
}  # fmt: skip
"""Parts of common that all other parts may import."""

ALLOWED: Mapping[str, set[str]] = {
    "text": set(),
    "formats": set(),
    "metrics": set(),
    "tuning": set(),
    "count_bar": set(),
    "commands": set(),
    "environments": {"commands", "errors"},
    "import_path": set(),
    "safe_json": set(),
    "events": {"text"},
    "waiting": {"events"},
    "epoch_bar": {"events", "metrics"},
    "errors": {"commands", "events", "text"},
    "processes": {"events", "text"},
    "settings": {"commands", "errors", "events", "safe_json", "text"},
    "storage": BASE,
    "native_watchdog": {"events"},
    "uploads": BASE | {"storage"},
    "checkpoints": BASE | {"storage"},
    "lease": BASE | {"storage"},
    "data": BASE | {"storage", "lease"},
    "calibrations": BASE,
    "user_code": BASE,
    "weights_file": BASE | {"storage"},
    "found_circuits": BASE,
    "model_circuits": BASE | {"found_circuits"},
    "built_in_data": {"errors", "settings"},
    "devices": {"commands", "errors", "processes", "settings", "text"},
    "pulse_objectives": BASE | {"data"},
    "start_check": BASE
    | {"data", "found_circuits", "model_circuits", "pulse_objectives", "storage", "user_code"},
    "models": BASE
    | {
        "data",
        "found_circuits",
        "model_circuits",
        "pulse_objectives",
        "storage",
        "user_code",
        "weights_file",
    },
    "runs": BASE
    | {
        "storage",
        "lease",
        "checkpoints",
        "data",
        "models",
        "model_circuits",
        "user_code",
        "weights_file",
    },
}
"""Parts of common, and the parts that they may import."""

LIGHT = ("errors", "events", "processes", "text", "settings", "storage", "lease", "data")
"""Parts of common that validate input of the user, and so never import TensorFlow."""

REPORTS = {"jinja2", "matplotlib", "pandas", "sklearn"}
"""Packages of reports and tables, which take up to a second to import: no first line waits."""

PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for application in (*APPLICATIONS, "common")
    for path in (ROOT / application).rglob("__main__.py")
)


@dataclass(frozen=True)
class Import:
    """One imported name.

    Attributes:
        name: Dotted name; for `from a import b`, a.b.
        late: True if the import happens in a function, not when the module is loaded.
    """

    name: str
    late: bool


def imports(source: str, package: str = "") -> list[Import]:
    """Return all imports of a module at run time.

    Args:
        source: Source text of the module.
        package: Package that relative imports start from.
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
    """Yield the dotted name and the file of each module."""
    for package in ALL_PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), path


FILES = dict(modules())


@cache
def imports_of(module: str) -> list[Import]:
    """Return all imports of a module of this repository at run time."""
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imports(path.read_text(encoding="utf-8"), package)


def module_of(name: str) -> str | None:
    """Return the module of this repository that an imported name belongs to."""
    while name and name not in FILES:
        name = name.rpartition(".")[0]
    return name or None


def package_of(name: str) -> str:
    """Return the top-level package of a dotted name."""
    return name.partition(".")[0]


def modules_in(*packages: str) -> list[str]:
    """Return the modules of packages, given as dotted names."""
    return [name for name in FILES if any(name == p or name.startswith(f"{p}.") for p in packages)]


def each_module_in(*packages: str) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Make one test of a rule for a module: 450 tests would take longer than the rule itself."""

    def decorate(rule: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            for module in modules_in(*packages):
                rule(module)

        test.__name__ = rule.__name__
        return test

    return decorate


def imported_modules(module: str) -> set[str]:
    """Return the modules of this repository that a module imports, also late."""
    return {found for one in imports_of(module) if (found := module_of(one.name))} - {module}


def imported_packages(module: str) -> set[str]:
    """Return the top-level packages that a module imports, also late."""
    return {package_of(one.name) for one in imports_of(module)}


def reachable(module: str, *, late: bool = True) -> set[str]:
    """Return the top-level packages that importing a module imports.

    Args:
        module: A module of this repository.
        late: Include imports in functions.
    """
    seen, ahead, packages = set(), [module], set()
    while ahead:
        here = ahead.pop()
        if here in seen:
            continue
        seen.add(here)
        if "." in here:
            ahead.append(here.rpartition(".")[0])
        for one in imports_of(here):
            if late or not one.late:
                packages.add(package_of(one.name))
                if inner := module_of(one.name):
                    ahead.append(inner)
    return packages


def part_of(module: str) -> str:
    """Return the part of common that a module belongs to: common.data.tables -> data."""
    return module.split(".")[1] if "." in module else ""


def room_of(module: str, package: str) -> str:
    """Return the folder or file of a package that a module is in, or an empty text if none."""
    depth = package.count(".") + 2
    return ".".join(module.split(".")[:depth]) if f"{module}.".startswith(f"{package}.") else ""


def test_imports_finds_late_and_relative_imports() -> None:
    source = "import a.b\nfrom . import c\nfrom ..d import e\ndef f():\n  from g import h\n"
    source += "if TYPE_CHECKING:\n  import i\nclass J:\n  import k\n"
    assert imports(source, "x.y") == [
        Import("a.b", False),
        Import("x.y.c", False),
        Import("x.d.e", False),
        Import("g.h", True),
        Import("k", False),
    ]


def test_files_contain_all_packages() -> None:
    assert {package_of(name) for name in FILES} == set(ALL_PACKAGES)
    assert {part_of(name) for name in modules_in("common")} - {""} == set(ALLOWED)


@each_module_in("qfleet")
def test_library_imports_no_application(module: str) -> None:
    assert imported_packages(module) & set(ALL_PACKAGES) <= {"qfleet"}


@each_module_in("common")
def test_common_imports_no_application(module: str) -> None:
    assert imported_packages(module) & set(ALL_PACKAGES) <= {"qfleet", "common"}


@each_module_in(*PACKAGES, "benchmarks")
def test_no_package_imports_tools_or_benchmarks(module: str) -> None:
    allowed = {"benchmarks", "tests"} if package_of(module) == "benchmarks" else set()
    assert imported_packages(module) & {"tools", "benchmarks", "chaos", "tests"} <= allowed


@each_module_in("chaos")
def test_chaos_imports_common_and_the_client_only(module: str) -> None:
    allowed = {"chaos", "common", "launch", "qfleet"}
    assert imported_packages(module) & {*ALL_PACKAGES, "tests"} <= allowed


@each_module_in(*PACKAGES)
def test_tensorflow_is_imported_by_its_runtime_only(module: str) -> None:
    found = imported_packages(module) & {"tensorflow", "tf_keras"}
    assert found <= TENSORFLOW_IMPORTS.get(module, set()), f"import it from {RUNTIME}"


@each_module_in("qfleet.tensorflow", "qfleet.native")
def test_only_layers_of_legacy_keras_reach_it(module: str) -> None:
    if module != RUNTIME and not module.startswith("qfleet.tensorflow.layers"):
        assert "tf_keras" not in reachable(module), "the simulators serve Keras 3, too"


@each_module_in(*PACKAGES)
def test_tensorflow_quantum_is_imported_late_by_tfq_only(module: str) -> None:
    found = [one for one in imports_of(module) if one.name.startswith("tensorflow_quantum")]
    assert all(one.late for one in found), "it must be imported after the strategy is created"
    assert not found or module == "qfleet.tensorflow.tfq"


@each_module_in("qfleet")
def test_library_reaches_tensorflow_in_its_adapter_only(module: str) -> None:
    if not module.startswith(("qfleet.tensorflow", "qfleet.keras")):
        assert not reachable(module, late=False) & {*TENSORFLOW, "tensorflow_quantum"}


@each_module_in(*PACKAGES)
def test_frameworks_are_imported_by_their_adapters_only(module: str) -> None:
    for framework in imported_packages(module) & FRAMEWORKS.keys():
        assert module.startswith(FRAMEWORKS[framework])


@each_module_in("qfleet.pennylane")
def test_pennylane_adapter_imports_interfaces_late(module: str) -> None:
    found = [one for one in imports_of(module) if package_of(one.name) in ("torch", "jax")]
    assert all(one.late for one in found), "PennyLane alone must be enough"


@each_module_in("qfleet.keras")
def test_layers_of_keras_3_import_backends_late(module: str) -> None:
    others = ("torch", "jax", "qfleet.torch", "qfleet.jax", "qfleet.tensorflow")
    found = [one for one in imports_of(module) if one.name.startswith(others)]
    assert all(one.late for one in found), "Keras has one backend"


@each_module_in("qfleet")
def test_adapters_do_not_import_each_other(module: str) -> None:
    names = ("tensorflow", "torch", "jax", "pennylane", "cirq", "keras")
    folders = {f"qfleet.{name}" for name in names}
    reached = {".".join(one.split(".")[:2]) for one in imported_modules(module)} & folders
    # The first loads the TensorFlow ops, the second calls the adapter of Keras's backend.
    if module not in ("qfleet.native", "qfleet.keras.backend_circuit"):
        assert reached <= {".".join(module.split(".")[:2])}


@each_module_in("studies")
def test_studies_import_the_client_of_slurm_only(module: str) -> None:
    client = [one for one in imported_modules(module) if package_of(one) == "launch"]
    assert all(one.startswith("launch.slurm.") for one in client)  # that of Kubernetes is a process


@each_module_in("launch")
def test_client_imports_common_only_and_nothing_heavy(module: str) -> None:
    assert not imported_packages(module) & {"training", "inference", "planning"}
    parts = {part_of(one) for one in imported_modules(module) if one.startswith("common.")}
    assert parts <= BASE | {"devices", "storage", "runs", "start_check", "user_code"}
    heavy = {*TENSORFLOW, "tensorflow_quantum", "numpy", "cirq", "pandas", "pyarrow", "psutil"}
    assert not reachable(module, late=False) & heavy


@each_module_in("planning")
def test_planning_imports_no_tensorflow(module: str) -> None:
    assert not imported_packages(module) & {"inference", "launch"}
    assert not reachable(module, late=False) & {*TENSORFLOW, "tensorflow_quantum"}


@each_module_in("studies")
def test_studies_import_no_tensorflow_and_start_trainings(module: str) -> None:
    assert "training" not in imported_packages(module)
    assert not reachable(module, late=False) & {*TENSORFLOW, "tensorflow_quantum"}


@each_module_in("training", "inference")
def test_training_and_inference_import_no_application(module: str) -> None:
    assert imported_packages(module) & set(APPLICATIONS) <= {package_of(module)}


@pytest.mark.parametrize("part", ALLOWED)
def test_part_of_common_imports_allowed_parts_only(part: str) -> None:
    for module in modules_in(f"common.{part}"):
        parts = {part_of(one) for one in imported_modules(module) if one.startswith("common.")}
        assert parts - {part} <= ALLOWED[part], module


@pytest.mark.parametrize("part", LIGHT)
def test_light_part_of_common_reaches_no_tensorflow(part: str) -> None:
    for module in modules_in(f"common.{part}"):
        assert not reachable(module) & {*TENSORFLOW, "tensorflow_quantum"}, module


def test_tensorboard_environment_reaches_no_tensorflow() -> None:
    assert "tensorboard" not in reachable("launch.tensorboard_launcher", late=False)
    assert not reachable("launch.tensorboard_launcher") & {*TENSORFLOW, "tensorflow_quantum"}


def test_programs_of_pods_import_no_client() -> None:
    assert "launch" not in imported_packages("launch.tensorboard_launcher")
    assert "kubernetes" not in reachable("launch.tensorboard_launcher")
    assert not imported_packages("launch.emulator") & set(ALL_PACKAGES)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_imports_no_packages_of_reports_at_start(program: str) -> None:
    assert not reachable(program, late=False) & REPORTS


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_have_no_cycle_even_through_late_imports(package: str) -> None:
    graph = {
        name: {one for one in imported_modules(name) if package_of(one) == package}
        for name in modules_in(package)
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", ["common", "qfleet.compiler", "training"])
def test_rooms_of_a_package_have_no_cycle(package: str) -> None:
    graph: dict[str, set[str]] = {}
    for module in modules_in(package):
        rooms = {room_of(one, package) for one in imported_modules(module)} - {package}
        if (room := room_of(module, package)) != package:
            graph.setdefault(room, set()).update(rooms - {room, ""})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_native_folders_include_lower_ones_only() -> None:
    order = core_folders()
    native = ROOT / "qfleet" / "native"
    wrong = []
    for file in (path for folder in order for path in (native / folder).iterdir()):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith('#include "'):
                included = line.removeprefix('#include "').partition("/")[0]
                above = order[order.index(file.parent.name) + 1 :]
                if included in above or {included, file.parent.name} == {"network", "noisy"}:
                    wrong.append(f"{file.name}: {line}")
    assert wrong == []
