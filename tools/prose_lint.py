"""Check the language of documentation, docstrings, comments and messages.

Usage:
    python -m tools.prose_lint [--statistics] [PATH ...]

Rules: phrase (tools/prose_phrases.txt), sentence (length, Markdown only), docstring (opening word),
plural, module (name), class (public name used twice), test (length of the name), unit (of a
constant). A comment with `prose: ok` waives its line and the statement, literal or comment on the
next line; `prose: ok file` in the first five lines waives a whole file.
Exit status: 0 without findings, 1 with findings, 2 on wrong usage.
"""

import argparse
import ast
import bisect
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tools import prose_sources
from tools.prose_phrases import Phrases

ROOT = Path(__file__).resolve().parents[1]
PHRASES_FILE = Path(__file__).with_name("prose_phrases.txt")
PACKAGES = (
    "qfleet", "common", "training", "inference", "launch", "planning", "studies", "benchmarks",
)  # fmt: skip
# Each framework has its own Expectation, State or Simulator: users import one of them.
ADAPTERS = tuple(
    Path("qfleet", name) for name in ("tensorflow", "torch", "jax", "pennylane", "cirq")
)
MAX_SENTENCE_WORDS = 30
MAX_TEST_NAME = 60

# Participles and finite verbs: they do not name what a module contains. prose: ok
_MODULE_NAMES = """
    answering asked begun born chosen describing described drawn foretold given going held kept
    known left lost made making measured moved planned reached remembered remembering renewed
    said saving seen shown stood taken told undone waited wanted watched weaving written
"""
MODULE_NAMES = frozenset(_MODULE_NAMES.split())

_OPENING = re.compile(r"\s*(Whether|What|How|Where|Which|Who|Whom|Whose|When)\b")
_UNITLESS = re.compile(r"_?(?:[A-Z0-9_]+_)?(?:TIMEOUT|INTERVAL|GRACE|EVERY|PATIENCE)$")
_TEST = re.compile(r"^[ \t]*(?:async )?def (test_\w+)", re.M)
_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.M)
_BLOCK = re.compile(r"\n[ \t>]*\n|\n(?=[ \t>]*(?:[-*+|#]|\d+[.)])\s)|\n(?=[ \t]*\|)")
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)[.!?][\"')*_\]]*(?=\s)")
_WAIVER = "prose: ok"
_WAIVED_FILE = "prose: ok file"


@dataclass(frozen=True, order=True)
class Finding:
    """One violation. `line` and `column` count from 1."""

    path: str
    line: int
    column: int
    rule: str
    text: str
    hint: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}"
        return f"{place}: {self.rule}: {self.text} -> {self.hint}"


class _File:
    """A source file, with the findings in it."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source = path, source
        self.offsets = prose_sources.line_offsets(source)
        self.lines = source.split("\n")
        self.findings: list[Finding] = []

    @property
    def waived(self) -> bool:
        return any(_WAIVED_FILE in line for line in self.lines[:5])

    def report(
        self, offset: int, rule: str, text: str, hint: str, start: int | None = None
    ) -> None:
        """Add a finding unless it is waived.

        Args:
            offset: Location of the finding.
            rule: Name of the rule.
            text: What violates it.
            hint: What to write instead.
            start: Start of the literal or comment around it; a waiver may precede that as well.
        """
        line = bisect.bisect_right(self.offsets, offset)
        first = line if start is None else bisect.bisect_right(self.offsets, start)
        nearby = [*self.lines[max(0, line - 2) : line], *self.lines[max(0, first - 2) : first]]
        if any(_WAIVER in candidate for candidate in nearby):
            return
        column = offset - self.offsets[line - 1] + 1
        self.findings.append(Finding(self.path.as_posix(), line, column, rule, text, hint))

    def report_node(self, node: ast.stmt | ast.expr, rule: str, text: str, hint: str) -> None:
        offset = self.offsets[node.lineno - 1] + node.col_offset
        self.report(min(offset, self.offsets[node.lineno] - 1), rule, text, hint)


def check_source(path: Path, source: str, phrases: Phrases) -> list[Finding]:
    """Check one file, without the rules that compare files.

    Args:
        path: Path relative to the repository's root; decides the format and the rules.
        source: The content of the file.
        phrases: The forbidden phrases.

    Raises:
        SyntaxError: If a Python file cannot be parsed.
    """
    file = _File(path, source)
    if file.waived:
        return []
    for passage in prose_sources.extract(path, source):
        for offset, text, hint in phrases.find(passage.text):
            start = passage.start if passage.kind != "docs" else None
            file.report(passage.start + offset, "phrase", repr(text), hint, start)
        if passage.kind == "docs":
            _check_sentences(file, passage.text)
        if passage.kind == "docstring":
            _check_opening(file, passage)
    if path.suffix == ".py":
        tree = ast.parse(source)
        _check_plurals(file, tree)
        _check_constants(file, tree)
        _check_module_name(file)
        if path.parts[0] == "tests":
            _check_test_names(file)
    return sorted(set(file.findings))


def _check_sentences(file: _File, text: str) -> None:
    start = 0
    for boundary in [*_BLOCK.finditer(text), None]:
        end = boundary.start() if boundary else len(text)
        block = text[start:end]
        if not block.lstrip(" \t>\n").startswith(("|", "#")):
            _check_block(file, start, block)
        start = boundary.end() if boundary else end


def _check_block(file: _File, start: int, block: str) -> None:
    begin = 0
    for boundary in [*_SENTENCE_END.finditer(block), None]:
        end = boundary.end() if boundary else len(block)
        words = [word for word in block[begin:end].split() if re.search(r"\w", word)]
        if len(words) > MAX_SENTENCE_WORDS:
            offset = begin + len(block[begin:end]) - len(block[begin:end].lstrip())
            limit = f"at most {MAX_SENTENCE_WORDS}, better 25: split it"
            file.report(start + offset, "sentence", f"{len(words)} words", limit)
        begin = end


def _check_opening(file: _File, passage: prose_sources.Passage) -> None:
    opening = _OPENING.match(passage.text)
    if opening:
        hint = "start with a verb in the imperative or a noun phrase"
        file.report(passage.start + opening.start(1), "docstring", opening[1], hint)


def _check_plurals(file: _File, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        hack = False
        if not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            hack = _is_ending(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            hack = _is_ending(node.left) or _is_ending(node.right)
        elif isinstance(node, ast.IfExp):
            ends = (node.body, node.orelse)
            hack = any(map(_is_ending, ends)) and any(_is_empty(end) for end in ends)
        if hack:
            file.report_node(node, "plural", ast.unparse(node), 'use plural(n, "worker")')


def _is_ending(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("s", "es", "ies")


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("", "y")


def _check_constants(file: _File, tree: ast.Module) -> None:
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and _UNITLESS.match(target.id) and _is_number(value):
                hint = "name the unit: ..._SECONDS, ..._STEPS"
                file.report_node(statement, "unit", target.id, hint)


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) or _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _check_module_name(file: _File) -> None:
    if file.path.stem in MODULE_NAMES and file.path.parts[0] in PACKAGES:
        file.report(0, "module", file.path.stem, "name the module by a noun: what it contains")


def _check_test_names(file: _File) -> None:
    for match in _TEST.finditer(file.source):
        if len(match[1]) > MAX_TEST_NAME:
            hint = f"{len(match[1])} characters, at most {MAX_TEST_NAME}"
            file.report(match.start(1), "test", match[1], hint)


def check_class_names(sources: dict[Path, str]) -> list[Finding]:
    """Report public classes of the packages that share their name.

    Different adapters may use the same name, but not twice in one adapter or elsewhere.

    Args:
        sources: The content of every Python file, by path relative to the repository's root.
    """
    seen: dict[str, list[tuple[_File, int]]] = {}
    for path, source in sorted(sources.items()):
        if path.parts[0] in PACKAGES and path.suffix == ".py":
            file = _File(path, source)
            for match in _CLASS.finditer(source):
                seen.setdefault(match[1], []).append((file, match.start(1)))
    findings: list[Finding] = []
    for name, places in seen.items():
        adapters = [_adapter_of(file.path) for file, _ in places]
        if None not in adapters and len(set(adapters)) == len(adapters):
            continue
        for file, offset in places if len(places) > 1 else ():
            file.findings.clear()
            others = ", ".join(sorted({str(other.path) for other, _ in places} - {str(file.path)}))
            file.report(offset, "class", name, f"also in {others or 'this file'}: rename one")
            findings += file.findings
    return findings


def _adapter_of(path: Path) -> Path | None:
    """Return the folder of the adapter that a file belongs to."""
    return next((folder for folder in ADAPTERS if path.is_relative_to(folder)), None)


def tracked_files(root: Path) -> list[Path]:
    """Return the files that git tracks or would add, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    paths = (Path(name) for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if prose_sources.is_checked(path) and (root / path).is_file()]


def lint(root: Path, selected: list[Path]) -> list[Finding]:
    """Check the repository.

    Args:
        root: Root of the repository.
        selected: Files and folders, relative to the root, to report on; empty for all.

    Raises:
        SyntaxError: If a Python file cannot be parsed.
    """
    phrases = Phrases(PHRASES_FILE.read_text(encoding="utf-8"))
    sources = {path: (root / path).read_text(encoding="utf-8") for path in tracked_files(root)}
    chosen = {
        path: source
        for path, source in sources.items()
        if not selected or any(path.is_relative_to(choice) for choice in selected)
    }
    findings = [
        found for path, source in chosen.items() for found in check_source(path, source, phrases)
    ]
    names = {str(path) for path in chosen}
    findings += [found for found in check_class_names(sources) if found.path in names]
    return sorted(findings)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="prose_lint", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the repository")
    parser.add_argument("--statistics", action="store_true", help="print counts only")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    missing = [path for path in options.paths if not Path(path).exists()]
    if missing:
        parser.error(f"no such file or folder: {', '.join(missing)}")
    try:
        selected = [Path(path).resolve().relative_to(root) for path in options.paths]
        findings = lint(root, selected)
    except (ValueError, SyntaxError) as error:
        parser.error(str(error))
    if options.statistics:
        print_statistics(findings)
    else:
        for finding in findings:
            print(finding)
    print(f"prose lint: {len(findings)} finding(s)", file=sys.stderr)
    return 1 if findings else 0


def print_statistics(findings: list[Finding]) -> None:
    """Print the number of findings by top-level folder and rule, and the most frequent texts."""
    folders = Counter((finding.path.partition("/")[0], finding.rule) for finding in findings)
    for (folder, rule), count in sorted(folders.items()):
        print(f"{count:6} {folder:16} {rule}")
    texts = Counter(finding.text.lower() for finding in findings if finding.rule == "phrase")
    for text, count in texts.most_common(40):
        print(f"{count:6} {text}")


if __name__ == "__main__":
    sys.exit(main())
