# prose: ok file
"""The prose lint: what each rule rejects and accepts."""

import subprocess
from pathlib import Path

import pytest

from tools import prose_lint

PHRASES = prose_lint.Phrases("\\banew\\b\tagain\n\\bgoes on\\b\tcontinues\n")
REPOSITORY = prose_lint.Phrases(prose_lint.PHRASES_FILE.read_text(encoding="utf-8"))


def rules(path: str, source: str) -> list[tuple[int, str]]:
    found = prose_lint.check_source(Path(path), source, PHRASES)
    return [(finding.line, finding.rule) for finding in found]


@pytest.mark.parametrize(
    ("path", "source", "line"),
    [
        ("a.md", "# Title\n\nIt starts anew.\n", 3),
        ("a.md", "| it | anew |\n", 1),
        ("a.md", "The run goes\non.\n", 1),
        ("a.py", '"""Start anew."""\n', 1),
        ("a.py", 'def f():\n    """Start.\n\n    Then anew.\n    """\n', 4),
        ("a.py", "x = 1  # start anew\n", 1),
        ("a.py", "# it goes\n# on\n", 1),
        ("a.py", 'x = 1\nraise ValueError(f"{x} starts anew")\n', 2),
        ("a.py", 'print("the run goes "\n      f"on at {1}")\n', 1),
        ("a.cc", "int x;  // start anew\n", 1),
        ("a.cc", "// it goes\n// on\n", 1),
        ("a.h", "/* start\n * anew */\n", 2),
        ("a.cc", 'Fail("start it anew");\n', 1),
        ("a.sh", "# start anew\n", 1),
        ("a.sh", 'echo "start it anew"\n', 1),
        ("a.yaml", "key: 1 # start anew\n", 1),
        ("Makefile", "x: ## start anew\n", 1),
        ("Makefile", "x:\n\t@echo 'start it anew'\n", 2),
        (".ci/run", "# start anew\n", 1),
    ],
)
def test_phrase_in_prose_is_found(path: str, source: str, line: int) -> None:
    assert rules(path, source) == [(line, "phrase")]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.md", "```\nanew\n```\n\nUse `anew`.\n<!-- anew -->\n[x](anew.md)\n"),
        ("a.py", 'anew = "anew"\nx = f"{anew} is the value"\n'),
        ("a.py", '"""Call `anew`."""\n'),
        ("a.cc", 'int anew = Find("anew");\n'),
        ("a.sh", "anew=1\n"),
        ("a.yaml", "anew: 'x#anew'\n"),
    ],
)
def test_phrase_in_code_is_ignored(path: str, source: str) -> None:
    assert rules(path, source) == []


def test_nested_fstring_is_read_once() -> None:
    source = "x = f\"starts {f'{1} anew'} and {'goes'} anew\"\n"
    assert rules("a.py", source) == [(1, "phrase")]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.py", "x = 1  # anew  prose: ok\n"),
        ("a.py", "# prose: ok\nx = 1  # anew\n"),
        ("a.py", "x = (\n    # prose: ok\n    'start'\n    ' it anew'\n)\n"),
        ("a.md", "<!-- prose: ok -->\nStart anew.\n"),
        ("a.py", '# prose: ok file\n"""Anew.\n\n\n\n\n\nAnew."""\n'),
    ],
)
def test_waiver_hides_finding(path: str, source: str) -> None:
    assert rules(path, source) == []


def test_waiver_ends_after_next_line() -> None:
    assert rules("a.py", "# prose: ok\nx = 1\ny = 1  # anew\n") == [(3, "phrase")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("word " * 31 + ".\n", [(1, "sentence")]),
        ("word " * 30 + ".\n", []),
        ("word " * 20 + "end.\n" + "word " * 20 + "end.\n", []),
        ("word " * 20 + "e.g. " + "word " * 20 + "end.\n", [(1, "sentence")]),
        ("- item " * 1 + "word " * 20 + "\n- " + "word " * 20 + "\n", []),
        ("| " + "word " * 40 + "|\n", []),
        ("```\n" + "word " * 40 + "\n```\n", []),
        ("Short.\n\n" + "word " * 31 + "\n", [(3, "sentence")]),
    ],
)
def test_sentence_length_in_docs(source: str, expected: list[tuple[int, str]]) -> None:
    assert rules("a.md", source) == expected


@pytest.mark.parametrize("word", ["Whether", "What", "How", "Where", "Which", "Who", "When"])
def test_docstring_opening_with_question_word_fails(word: str) -> None:
    assert rules("a.py", f'def f():\n    """{word} it is."""\n') == [(2, "docstring")]


@pytest.mark.parametrize("summary", ["Return the number.", "However long.", "Whole numbers."])
def test_docstring_opening_with_other_word_passes(summary: str) -> None:
    assert rules("a.py", f'def f():\n    """{summary}"""\n') == []


@pytest.mark.parametrize(
    "expression",
    ["'s'[: n > 1]", "'s' * (n > 1)", "(n > 1) * 'es'", "'s' if n > 1 else ''"],
)
def test_plural_hack_fails(expression: str) -> None:
    assert rules("a.py", f'x = f"{{{expression}}}"\n') == [(1, "plural")]


def test_plural_function_passes() -> None:
    assert rules("a.py", "x = plural(n, 'worker') + 's' + str(3 * n)\n") == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("planning/written.py", [(1, "module")]),
        ("planning/plan_file.py", []),
        ("tests/unit/written.py", []),
    ],
)
def test_module_name_participle_fails(path: str, expected: list[tuple[int, str]]) -> None:
    assert rules(path, "x = 1\n") == expected


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("POLL_INTERVAL = 0.5\n", True),
        ("_GRACE: float = 2 * 60\n", True),
        ("class A:\n    SAVE_EVERY = 3\n", True),
        ("POLL_INTERVAL_S = 0.5\n", False),
        ("POLL_INTERVAL_SECONDS = 0.5\n", False),
        ("POLL_INTERVAL = 'auto'\n", False),
        ("timeout = 3\n", False),
    ],
)
def test_constant_without_unit_fails(source: str, found: bool) -> None:
    assert [rule for _, rule in rules("a.py", source)] == ["unit"] * found


def test_long_test_name_fails() -> None:
    name = "test_" + "x" * 56
    assert rules("tests/unit/test_a.py", f"def {name}() -> None: ...\n") == [(1, "test")]
    assert rules("tests/unit/test_a.py", f"def {name[:-1]}() -> None: ...\n") == []


def test_public_classes_of_one_name_fail() -> None:
    sources = {
        Path("common/a.py"): "class Plan: ...\nclass _Case: ...\n",
        Path("qfleet/b.py"): "\nclass Plan:\n    class Inner: ...\n",
        Path("launch/c.py"): "class Other: ...\nclass _Case: ...\n",
        Path("tests/d.py"): "class Other: ...\n",
    }
    found = prose_lint.check_class_names(sources)
    places = [(finding.path, finding.line, finding.text) for finding in found]
    assert places == [("common/a.py", 1, "Plan"), ("qfleet/b.py", 2, "Plan")]


@pytest.mark.parametrize(
    ("paths", "count"),
    [
        (("qfleet/torch/a.py", "qfleet/jax/a.py", "qfleet/cirq/b.py"), 0),
        (("qfleet/torch/a.py", "qfleet/torch/b.py"), 2),
        (("qfleet/torch/a.py", "qfleet/jax/a.py", "qfleet/engine/b.py"), 3),
        (("qfleet/torch/a.py", "common/b.py"), 2),
    ],
)
def test_class_names_may_be_equal_across_adapters(paths: tuple[str, ...], count: int) -> None:
    found = prose_lint.check_class_names({Path(path): "class State: ...\n" for path in paths})
    assert len(found) == count


@pytest.mark.parametrize(
    "text",
    [
        "the worker says where it listens",
        "12 examples a second",
        "it took 3.4 ms a step",
        "… steps a second",
        "the gang starts",
        "it is no number",
        "the slopes of a batch",
        "the run goes on",
        "removed for good.",
    ],
)
def test_phrase_list_rejects(text: str) -> None:
    assert list(REPOSITORY.find(text))


@pytest.mark.parametrize(
    "text",
    [
        "12 examples per second",
        "The trainer takes a step and gives a worker its shard.",
        "Workers meet in a rendezvous.",
        "An altered one is skipped.",
        "Rounding alone does not explain it.",
        "RUN=mine",
        "gang scheduling",
        "gang-scheduled pods",
        "There is no checkpoint.",
        "It is no longer needed.",
        "for good measure",
        "The stand-alone server handles pod affinity.",
        "All-reduce the gradients; each of them is summed.",
        "The server stores the value that the user passes.",
        "See the table below, which is shown for 8 workers.",
    ],
)
def test_phrase_list_accepts(text: str) -> None:
    assert list(REPOSITORY.find(text)) == []


@pytest.mark.parametrize("text", ["no hint", "no hint\t ", "(\thint"])
def test_phrase_list_malformed_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        prose_lint.Phrases(text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("It starts anew.\n")
    (tmp_path / "README.md").write_text("A good text.\n")
    return tmp_path


def test_main_prints_location_and_fails(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prose_lint.main(["--root", str(repository)]) == 1
    assert capsys.readouterr().out == "docs/a.md:1:11: phrase: 'anew' -> again, re-\n"


def test_main_selected_path_limits_report(repository: Path) -> None:
    assert prose_lint.main(["--root", str(repository), str(repository / "README.md")]) == 0
    assert prose_lint.main(["--root", str(repository), str(repository / "docs")]) == 1


def test_main_statistics_counts_by_folder(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prose_lint.main(["--root", str(repository), "--statistics"]) == 1
    assert capsys.readouterr().out.split() == ["1", "docs", "phrase", "1", "'anew'"]


def test_main_missing_path_is_usage_error(repository: Path) -> None:
    with pytest.raises(SystemExit) as error:
        prose_lint.main(["--root", str(repository), str(repository / "none")])
    assert error.value.code == 2


def test_main_invalid_python_is_usage_error(repository: Path) -> None:
    (repository / "bad.py").write_text("def (:\n")
    with pytest.raises(SystemExit) as error:
        prose_lint.main(["--root", str(repository)])
    assert error.value.code == 2
