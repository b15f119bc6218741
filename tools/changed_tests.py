"""Test files that a change can affect, by the import graph: `python -m tools.changed_tests [BASE]`.

Prints one test file per line. A Python module affects every test that reaches it by imports, also
those inside functions, or starts it by name as in `python -m training`. Any other file affects
the tests whose text mentions its name. A change of FUNDAMENTAL affects all tests.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FUNDAMENTAL = ("pyproject.toml", "tests/conftest.py", "requirements/", "setup.sh")


def changed_files(base: str) -> set[str]:
    """Return the files that differ from the merge base with a branch, untracked ones included."""
    start = _git("merge-base", "HEAD", base).strip()
    return {
        *_git("diff", "--name-only", start).splitlines(),
        *_git("ls-files", "--others", "--exclude-standard").splitlines(),
    }


def affected_tests(changed: Iterable[str]) -> list[str]:
    """Return the test files, relative to the root, that a change of files can affect."""
    changed = set(changed)
    tests = [name for name in modules() if _is_test(name) and ".test_" in name]
    if any(name.startswith(FUNDAMENTAL) for name in changed):
        found = set(tests)
    else:
        found = {test for test in tests if _is_affected(test, changed)}
    paths = (modules()[name] for name in found)
    return sorted(path for path in paths if not path.startswith("tests/e2e/"))


def _is_affected(test: str, changed: set[str]) -> bool:
    reached = {modules()[name] for name in reachable(test)}
    if reached & changed:
        return True
    others = [Path(name) for name in changed if not name.endswith(".py")]
    if not others:
        return False
    texts = [_text(name) for name in reachable(test) if _is_test(name)]
    folders = {path.rpartition("/")[0] for path in reached}
    return any(
        _folder(other) in folders or any(other.name in text for text in texts) for other in others
    )


def _folder(path: Path) -> str | None:
    """Return the closest folder of a file that has Python modules."""
    known = {module.rpartition("/")[0] for module in modules().values()}
    return next((str(folder) for folder in path.parents if str(folder) in known), None)


@cache
def modules() -> dict[str, str]:
    """Return the paths of all Python modules, relative to the root, by dotted name."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py").splitlines()
    return {_dotted(path): path for path in listed if (ROOT / path).is_file()}


@cache
def _text(name: str) -> str:
    return (ROOT / modules()[name]).read_text(encoding="utf-8")


@cache
def dependencies(name: str) -> frozenset[str]:
    """Return the modules that a module imports or names as a string."""
    known = modules()
    found = {name.rpartition(".")[0]}
    text = _text(name)
    starts_programs = '"-m"' in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
            if starts_programs:
                found.add(f"{node.value}.__main__")
    return frozenset(found & known.keys())


@cache
def reachable(name: str) -> frozenset[str]:
    """Return a module and all modules that it depends on, directly or not."""
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        here = ahead.pop()
        if here not in seen:
            seen.add(here)
            ahead.extend(dependencies(here))
    return frozenset(seen)


def _is_test(name: str) -> bool:
    return name.startswith("tests.")


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _git(*args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def main() -> int:
    """Print the affected test files; the argument is the branch to compare with."""
    base = sys.argv[1] if len(sys.argv) > 1 else "main"
    print("\n".join(affected_tests(changed_files(base))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
