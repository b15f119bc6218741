"""`tests/run.sh`: tests that failed run a second time in CI, and fail if they fail again."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "run.sh"
TESTS = """
from pathlib import Path

def test_passes_from_its_second_run_on():
    mark = Path("mark")
    ran_before = mark.exists()
    mark.touch()
    assert ran_before

def test_passes():
    pass
"""


def run(folder: Path, environment: dict[str, str], tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a folder by the script, as make does."""
    (folder / "test_some.py").write_text(tests)
    return subprocess.run(
        [SCRIPT, sys.executable, f"--rootdir={folder}", "--numprocesses=0", "test_some.py"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("environment", "tests", "code"),
    [
        ({}, TESTS, 1),
        ({"RERUN_FAILED_AFTER": "0"}, TESTS, 0),
        ({"RERUN_FAILED_AFTER": "0"}, TESTS.replace("mark.touch()", "pass"), 1),
        ({"RERUN_FAILED_AFTER": "0"}, "no Python", 2),
    ],
    ids=["once", "again", "fails twice", "not collected"],
)
def test_failed_tests_run_again_in_ci_only(
    tmp_path: Path, environment: dict[str, str], tests: str, code: int
) -> None:
    done = run(tmp_path, environment, tests)
    assert done.returncode == code, done.stdout
    assert "1 failed, 1 passed" in done.stdout or code == 2
    assert ("once more" in done.stdout) == (bool(environment) and code != 2)
