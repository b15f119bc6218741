# prose: ok file
"""The prose lint and the check of commit messages: what they reject and accept."""

import subprocess
from pathlib import Path

import pytest

from tools import commit_titles, prose_lint


def found(path: str, source: str) -> list[tuple[int, str]]:
    """Return line and text of each finding."""
    findings = prose_lint.check(Path(path), source)
    return [(source[:offset].count("\n") + 1, text) for offset, text, _ in findings]


@pytest.mark.parametrize(
    ("path", "source", "line"),
    [
        ("a.md", "# Title\n\nIt starts anew.\n", 3),
        ("a.md", "| it | anew |\n", 1),
        ("a.md", "The run goes\non.\n", 1),
        ("a.html", "<p>It\n{{ goes }} on, and starts anew.</p>\n", 2),
        ("a.py", 'def f():\n    """Start.\n\n    Then anew.\n    """\n', 4),
        ("a.py", "x = 1  # start anew\n", 1),
        ("a.py", "# it goes\n# on\n", 1),
        ("a.py", 'x = 1\nraise ValueError(f"{x} starts anew")\n', 2),
        ("a.py", 'print("the run goes "\n      f"on with {1}")\n', 1),
        ("a.py", 'print(f"{rate} steps a second")\n', 1),
        ("a.py", "# removed for good\nx = 1\n", 1),
        ("a.cc", "int x;  // start anew\n", 1),
        ("a.cc", "// it goes\n// on\n", 1),
        ("a.h", "/* start\n * anew */\n", 2),
        ("a.cc", 'Fail("start it anew");\n', 1),
        ("a.sh", 'echo "start it anew"\n', 1),
        ("a.yaml", "key: 1 # start anew\n", 1),
        ("Makefile", "x: ## start anew\n", 1),
        ("Makefile", "x:\n\t@echo 'start it anew'\n", 2),
        (".ci/run", "# start anew\n", 1),
    ],
)
def test_phrase_in_prose_is_found(path: str, source: str, line: int) -> None:
    assert [place for place, _ in found(path, source)] == [line]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.md", "```\nanew\n```\n\nUse `anew`.\n<!-- anew -->\n[x](anew.md)\n"),
        ("a.py", 'anew = "anew"\nx = f"{anew} is the value"\n'),
        ("a.py", '"""Call `anew`, which has\n\n`anew` twice."""\n'),
        ("a.py", 'print("it goes", "on and", "on")\n'),
        ("a.cc", 'int anew = Find("anew");\n'),
        ("a.sh", "anew=1\n"),
        ("a.yaml", "anew: 'x#anew'\n"),
        ("a.md", "12 examples per second. It is no longer needed. RUN=mine, for good measure.\n"),
        ("a.md", "gang-scheduled pods and the stand-alone server\n"),
    ],
)
def test_code_and_plain_english_are_accepted(path: str, source: str) -> None:
    assert found(path, source) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("word " * 31 + ".\n", [1]),
        ("word " * 30 + ".\n", []),
        ("word " * 20 + "end.\n" + "word " * 20 + "end.\n", []),
        ("word " * 20 + "e.g. " + "word " * 20 + "end.\n", [1]),
        ("- item " + "word " * 20 + "\n- " + "word " * 20 + "\n", []),
        ("# Title\n| " + "word " * 40 + "|\n```\n" + "word " * 40 + "\n```\n", []),
        ("Short.\n\n" + "word " * 31 + "\n", [3]),
    ],
)
def test_long_sentence_of_page_is_found(source: str, lines: list[int]) -> None:
    assert [line for line, _ in found("a.md", source)] == lines


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('def f():\n    """Whether it is."""\n', 1),
        ('def f():\n    """However long."""\n', 0),
        ("x = f\"{'s' * (n > 1)} {'' if n == 1 else 's'}\"\n", 2),
        ("x = plural(n, 'worker') + 's' + str(3 * n)\n", 0),
        ("POLL_INTERVAL = 0.5\nclass A:\n    _GRACE: float = 2 * 60\n", 2),
        ("POLL_INTERVAL_SECONDS = 0.5\nPOLL_INTERVAL = 'auto'\ntimeout = 3\n", 0),
        (f"def test_{'x' * 56}() -> None: ...\ndef test_{'x' * 55}() -> None: ...\n", 1),
    ],
)
def test_python_rule_finds_its_violations(source: str, count: int) -> None:
    assert len(found("a/a.py", source)) == count


def test_module_name_participle_fails() -> None:
    assert found("planning/written.py", "") == [(1, "/written.py")]
    assert found("planning/plan_file.py", "") == []


@pytest.mark.parametrize(
    ("paths", "count"),
    [
        (("qfleet/torch/a.py", "qfleet/jax/a.py", "qfleet/cirq/b.py"), 0),
        (("qfleet/torch/a.py", "qfleet/torch/b.py"), 1),
        (("qfleet/torch/a.py", "common/b.py"), 1),
        (("launch/a.py", "common/b.py"), 1),
    ],
)
def test_class_names_are_equal_across_adapters_only(paths: tuple[str, ...], count: int) -> None:
    sources = {Path(path): "class State: ...\nclass _Case: ...\n" for path in paths}
    assert len(list(prose_lint.equal_class_names(sources))) == count


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("It starts anew.\n")
    (tmp_path / "a.py").write_text('# prose: ok file\n"""Anew."""\n')
    return tmp_path


def test_lint_prints_place_of_selected_files(repository: Path) -> None:
    assert list(prose_lint.lint(repository)) == ["docs/a.md:1:11: 'anew' -> again, re-"]
    assert list(prose_lint.lint(repository, ["a.py"])) == []


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("Add a lint\n\nIt finds long titles.\n", ""),
        (f"{'x' * 72}\n\nSigned-off-by: A <a@b>\n\nWhy.", ""),
        (f"{'x' * 73}\n\nWhy.\n", "73"),
        ("Add a lint\nof two lines\n", "body"),
        ("Add a lint\n\nSigned-off-by: A <a@b>\n", "body"),
        ("", "body"),
    ],
)
def test_commit_message_needs_short_title_and_body(message: str, word: str) -> None:
    assert word in commit_titles.check(message)
    assert bool(word) == bool(commit_titles.check(message))


def test_commit_messages_are_those_since_the_tag(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_titles, "BEGIN", "2000-01-01T00:00Z")

    def git(*arguments: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", repository, *names, *arguments], check=True)

    commit = ("commit", "--quiet", "--allow-empty", "--message")
    git(*commit, "One")
    assert list(commit_titles.new_messages(repository)) == ["One\n"]
    git("tag", "v1")
    assert list(commit_titles.new_messages(repository)) == []
    git("checkout", "--quiet", "-b", "side")
    git(*commit, "Two\n\nWhy.")
    git("checkout", "--quiet", "-")
    git("merge", "--quiet", "--no-ff", "--no-edit", "side")
    assert list(commit_titles.new_messages(repository)) == ["Two\n\nWhy.\n"]
    shallow = tmp_path / "shallow"
    git("clone", "--quiet", "--depth=1", f"file://{repository}", str(shallow))
    assert list(commit_titles.new_messages(shallow)) == []


def test_commit_hook_ignores_comments_and_diff(tmp_path: Path) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    for text, status in (("Add it\n\nWhy.\n# note\n", 0), ("Add it\n# a\n\n# ----- >8\nb\n", 1)):
        file.write_text(text.replace("-----", "-" * 24))
        assert commit_titles.main([str(file)]) == status
