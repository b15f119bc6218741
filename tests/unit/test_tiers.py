"""The tiers together contain every test, and every entry of the table is in use."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import tiers
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """Node IDs of all tests below tests/, e2e included."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests"],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds(300),
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    return [line for line in found.stdout.splitlines() if line.startswith("tests/")]


def test_collection_finds_every_test_file(collected: list[str]) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    separate = ("tests/adapters/", "tests/mitiq/")
    files = {name for name in files if not name.startswith(separate)}
    assert files == {node_id.partition("::")[0] for node_id in collected}


def test_tfq_tests_lie_in_the_paths_of_their_command(collected: list[str]) -> None:
    found = [one for one in collected if tiers.tier_of(one) in (tiers.TFQ, tiers.TFQ_EXHAUSTIVE)]
    assert len(found) > 50
    assert [one for one in found if not one.startswith(tiers.TFQ_PATHS)] == []
    paths = " ".join(path.rstrip("/") for path in tiers.TFQ_PATHS)
    assert paths in (ROOT / "Makefile").read_text()


def exists(entry: str, collected: set[str]) -> bool:
    """Return True if an entry names a folder, a file, a function or a collected parameter."""
    path, _, test = entry.partition("::")
    if "[" in test:
        return entry in collected
    return (ROOT / path).exists() and (not test or f"def {test}(" in (ROOT / path).read_text())


def test_entry_names_an_existing_test(collected: list[str]) -> None:
    found = set(collected)
    assert [entry for entry in tiers.ASSIGNED if not exists(entry, found)] == []


def test_make_targets_select_each_tier_once() -> None:
    makefile = (ROOT / "Makefile").read_text()
    default = " and ".join(f"not {name}" for name in tiers.MARKERS)
    assert f"-m '{default}'" in makefile
    assert "-m native" in makefile
    assert "-m infra" in makefile
    assert "-m 'infra or exhaustive'" in makefile
    assert "$(pytest) -m nightly" in makefile
    assert "tests/e2e -m nightly" in makefile
    assert "-m 'not alone and not nightly'" in makefile
    assert "-m 'alone and not nightly'" in makefile
    assert "$(pytest_tfq) -m tfq " in makefile
    assert "tests/tfq -m tfq_exhaustive " in makefile


@pytest.mark.parametrize(
    ("node_id", "tier"),
    [
        ("tests/unit/test_text.py::test_plural[1]", tiers.DEFAULT),
        ("tests/native/test_x.py::test_y", tiers.NATIVE),
        ("tests/e2e/test_faults.py::test_y", tiers.E2E),
        ("tests/tfq/test_x.py::test_y", tiers.TFQ),
        ("tests/unit/qfleet/test_x.py::test_y[tfq]", tiers.TFQ),
        ("tests/unit/qfleet/test_x.py::test_y[4-tfq-None]", tiers.TFQ),
        ("tests/unit/qfleet/test_x.py::test_tfq[tfqs]", tiers.DEFAULT),
    ],
)
def test_tier_of_folder_entries(node_id: str, tier: str) -> None:
    assert tiers.tier_of(node_id) == tier


def test_paths_of_tiers_cover_their_entries_once() -> None:
    paths = tiers.paths_of(tiers.NATIVE, tiers.EXHAUSTIVE)
    assert "tests/native/" in paths
    for entry, tier in tiers.ASSIGNED.items():
        found = [path for path in paths if entry.startswith(path)]
        assert len(found) <= 1
        assert found or tier not in (tiers.NATIVE, tiers.EXHAUSTIVE)


def test_covers_matches_whole_names_only() -> None:
    assert tiers.covers("tests/a.py::test_b", "tests/a.py::test_b[1]")
    assert tiers.covers("tests/a.py", "tests/a.py::test_b")
    assert not tiers.covers("tests/a.py::test_b", "tests/a.py::test_bc")


def test_folders_of_tiers_are_collected_by_default() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    paths = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    # They have commands of their own.
    separate = {"tests/adapters", "tests/e2e", "tests/mitiq", "tests/tfq"}
    folders = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/test_*.py")}
    assert set(paths) == folders - separate
