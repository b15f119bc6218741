"""The tiers together contain every test, and every entry of the table is in use."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """Node IDs of all tests below tests/, e2e included."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "tests"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    counts = (line.rpartition(": ") for line in found.stdout.splitlines())
    return [name for name, _, count in counts if count.isdigit()]


def test_collection_finds_every_test_file(collected: list[str]) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert files == set(collected)


@pytest.mark.parametrize("entry", tiers.ASSIGNED)
def test_entry_names_an_existing_test(entry: str) -> None:
    path, _, function = entry.partition("::")
    assert (ROOT / path).exists()
    assert f"def {function}(" in (ROOT / path).read_text() if function else True


def test_make_targets_select_each_tier_once() -> None:
    makefile = (ROOT / "Makefile").read_text()
    default = " and ".join(f"not {name}" for name in tiers.MARKERS)
    assert f"-m '{default}'" in makefile
    assert "-m native" in makefile
    assert "-m infra" in makefile
    assert "-m 'native or infra or exhaustive'" in makefile


@pytest.mark.parametrize(
    ("node_id", "tier"),
    [
        ("tests/unit/test_text.py::test_plural[1]", tiers.DEFAULT),
        ("tests/native/test_x.py::test_y", tiers.NATIVE),
        ("tests/e2e/test_faults.py::test_y", tiers.E2E),
    ],
)
def test_tier_of_folder_entries(node_id: str, tier: str) -> None:
    assert tiers.tier_of(node_id) == tier


def test_covers_matches_whole_names_only() -> None:
    assert tiers.covers("tests/a.py::test_b", "tests/a.py::test_b[1]")
    assert tiers.covers("tests/a.py", "tests/a.py::test_b")
    assert not tiers.covers("tests/a.py::test_b", "tests/a.py::test_bc")
