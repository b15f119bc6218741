"""Every test file is collected, every test has one tier, and make selects it once."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import TIERS
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
PRINT_MARKERS = """
import sys
import pytest

class Plugin:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print(item.nodeid, *(mark.name for mark in item.iter_markers()), sep="\\t")

sys.exit(pytest.main(sys.argv[1:], plugins=[Plugin()]))
"""
MARKED = """
import pytest

pytestmark = pytest.mark.nightly

def test_of_file(): ...

@pytest.mark.e2e
def test_of_function(): ...

@pytest.mark.default
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.native)])
def test_of_parameter(number): ...
"""


def collect(root: Path) -> dict[str, list[str]]:
    """Return the names of the markers of each test below tests/, by node ID."""
    config = f"--config-file={ROOT / 'pyproject.toml'}"
    found = subprocess.run(
        [sys.executable, "-c", PRINT_MARKERS, config, f"--rootdir={root}", "--collect-only", "-qq",
         str(root / "tests")],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds(300),
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    rows = [line.split("\t") for line in found.stdout.splitlines() if line.startswith("tests/")]
    return {node_id: markers for node_id, *markers in rows if markers}


@pytest.fixture(scope="module")
def collected() -> dict[str, list[str]]:
    """Markers of all tests, e2e included."""
    return collect(ROOT)


def pytest_arguments(*targets: str) -> list[list[str]]:
    """Return the arguments of each pytest that targets of the Makefile start."""
    printed = subprocess.run(
        ["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.replace("\\\n", "")
    runs = [line for line in printed.splitlines() if "/bin/python -m pytest " in line]
    script = "\n".join(f"printf '%s\\t' {line}; echo" for line in runs)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [line.split("\t")[3:-1] for line in done.stdout.splitlines()]


def selects(arguments: list[str], node_id: str, markers: list[str]) -> bool:
    """Return True if pytest with these arguments runs a test."""
    paths = [word for word in arguments if word.startswith("tests/")] or PYTEST["testpaths"]
    expression = arguments[arguments.index("-m") + 1]
    names = {name: name in markers for name in TIERS}
    return node_id.startswith(tuple(paths)) and eval(expression, names)


@pytest.mark.exhaustive  # it imports all tests
def test_collection_finds_every_test_file(collected: dict[str, list[str]]) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    files = {name for name in files if not name.startswith(("tests/adapters/", "tests/keras/"))}
    assert files == {node_id.partition("::")[0] for node_id in collected}


@pytest.mark.exhaustive
def test_every_test_has_one_tier(collected: dict[str, list[str]]) -> None:
    tiers = {node_id: TIERS.keys() & markers for node_id, markers in collected.items()}
    assert {node_id: found for node_id, found in tiers.items() if len(found) != 1} == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("targets", "tiers"),
    [
        (("test-all", "test-nightly", "e2e", "e2e-nightly"), [*TIERS]),
        (("test-native",), ["native"]),
        (("test-infra",), ["infra"]),
    ],
)
def test_make_selects_each_test_of_its_tiers_once(
    collected: dict[str, list[str]], targets: tuple[str, ...], tiers: list[str]
) -> None:
    runs = pytest_arguments(*targets)
    wrong = {}
    for node_id, markers in collected.items():
        times = sum(selects(arguments, node_id, markers) for arguments in runs)
        if times != any(tier in markers for tier in tiers):
            wrong[node_id] = times
    assert wrong == {}


def test_closest_marker_wins(tmp_path: Path) -> None:
    for folder in ("unit", "slurm"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / "test_bare.py").write_text("def test_of_folder(): ...")
    (tmp_path / "tests/slurm/test_marked.py").write_text(MARKED)
    hooks = "from tests.conftest import pytest_collection_modifyitems, pytest_configure"
    (tmp_path / "conftest.py").write_text(hooks)
    found = {
        node_id.removeprefix("tests/"): [name for name in markers if name in TIERS]
        for node_id, markers in collect(tmp_path).items()
    }
    assert found == {
        "unit/test_bare.py::test_of_folder": ["default"],
        "slurm/test_bare.py::test_of_folder": ["exhaustive"],
        "slurm/test_marked.py::test_of_file": ["nightly"],
        "slurm/test_marked.py::test_of_function": ["e2e"],
        "slurm/test_marked.py::test_of_parameter[1]": ["default"],
        "slurm/test_marked.py::test_of_parameter[2]": ["native"],
    }
