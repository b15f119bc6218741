"""Check the language of documentation, comments, docstrings and messages.

Usage: python -m tools.prose_lint [PATH ...]

tools/prose_phrases.txt lists what is rejected. In addition, sentences of pages are short, and
public classes have names of their own. `prose: ok file` in the first lines waives a file.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PHRASES = Path(__file__).with_name("prose_phrases.txt")
MAX_WORDS = 30
PROGRAMS = "tests", "chaos", "k8s", "tools"  # whose classes are used there only
# Each framework has its own Expectation, State or Simulator: users import one of them.
_NAMES = ("tensorflow", "torch", "jax", "pennylane", "cirq", "keras")
ADAPTERS = [Path("qfleet", name) for name in _NAMES]

_HASH = r"(?:^|(?<=[\s;]))#[^\n]*"
_STRING = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
# The comments and strings of a format. All else is code.
_TOKENS = {
    ".py": rf'#[^\n]*|[rbfRBF]{{0,2}}(?:"""(?:\\.|[^\\])*?"""|{_STRING})',
    ".sh": rf"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|{_HASH}""",
    "Makefile": rf"{_HASH}|{_STRING}",
    **dict.fromkeys((".cc", ".cu", ".h"), rf"//[^\n]*|/\*.*?\*/|{_STRING}"),
    **dict.fromkeys((".yaml", ".yml", ".toml", "Dockerfile", ".editorconfig"), _HASH),
}
_MARKS = re.compile(
    r"""^[rbfRBF]*(?:["']{3}|["'])|(?:["']{3}|["'])$|^[ \t]*(?:#+!?|/?[/*]+)|\*/$""", re.M
)
_MESSAGE = re.compile(r"[A-Za-z]{2,}[,;:]? +[A-Za-z…]|… +[A-Za-z]{2,}")
_VALUE = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}|\$\{[^}]*\}|\$\([^)]*\)|\$\w+")
_QUOTED_CODE = re.compile(r"(`+)(?:(?!\1)[^\n]|\n(?!\s*\n))+?\1")
_MARKDOWN_CODE = re.compile(
    r"^[ >]*(```+|~~~+).*?^[ >]*\1|<!--.*?-->|\{[{%].*?[%}]\}"
    r"|(?<=\])\([^)\s]*\)|<[^<>\n]+>|https?://\S+",
    re.M | re.DOTALL,
)
_TABLE_OR_HEADING = re.compile(r"^[ >]*[|#][^\n]*", re.M)
_SENTENCE_END = re.compile(
    r"\n[ >]*(?=\n)|\n(?=[ >]*(?:[-*+]|\d+[.)])\s)"
    r"|(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?][\"')*_\]]*(?=\s)"
)

Finding = tuple[int, str, str]  # offset in the file, text and hint


def _fill(pattern: re.Pattern[str], text: str, filler: str = " ") -> str:
    """Replace all characters of the matches but line breaks."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", filler, match[0]), text)


def prose(path: Path, source: str) -> str:
    """Return a text of the same length that has only the prose of a file.

    Code is replaced by NUL, values in messages by "…", and code in backquotes by "_".
    """
    if path.suffix in (".md", ".html"):
        return _fill(_QUOTED_CODE, _fill(_MARKDOWN_CODE, source), "_")
    parts, end = [], 0
    tokens = _TOKENS.get(path.name) or _TOKENS.get(path.suffix, _TOKENS[".sh"])
    for token in re.finditer(tokens, source, re.M | re.DOTALL):
        parts += [re.sub(r"\S", "\0", source[end : token.start()]), _words(token[0])]
        end = token.end()
    return "".join([*parts, re.sub(r"\S", "\0", source[end:])])


def _words(token: str) -> str:
    text = _fill(_MARKS, token)
    if token[0] not in "#/":
        text = _fill(_VALUE, re.sub(r"\\[nrt]", "  ", text), "…")
        if not _MESSAGE.search(text):
            return re.sub(r"\S", "\0", token)
    return _fill(_QUOTED_CODE, text, "_")


def read_rules(text: str) -> list[tuple[str, re.Pattern[str], str]]:
    """Return section, expression and hint of each line of a list."""
    rules, section = [], ""
    for line in text.splitlines():
        expression, tab, hint = line.partition("\t")
        if line.startswith("[") and not tab:
            section = line.strip("[]")
        elif tab and not line.startswith("#"):
            if section == "prose":
                expression = "(?i)" + re.sub(r" (?![*+?])", r"\\s+", expression)
            rules.append((section, re.compile(expression, re.M), hint))
    return rules


RULES = read_rules(PHRASES.read_text(encoding="utf-8"))


def check(path: Path, source: str) -> Iterator[Finding]:
    """Yield the findings in a file, by its path relative to the root."""
    text = prose(path, source)
    without_code = re.sub(r"[\0\s]*\0\s*", "\0", text)  # a quarter of all, so searched first
    places = {"prose": text, "python": source * (path.suffix == ".py"), "path": path.as_posix()}
    for section, pattern, hint in RULES:
        if section != "prose" or pattern.search(without_code):
            for match in pattern.finditer(places[section]):
                yield match.start() * (section != "path"), " ".join(match[0].split()), hint
    if path.suffix == ".md":
        text, start = _fill(_TABLE_OR_HEADING, text), 0
        for end in (*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)):
            words = list(re.finditer(r"\S*\w\S*", text[start:end]))
            if len(words) > MAX_WORDS:
                yield start + words[0].start(), f"{len(words)} words", f"at most {MAX_WORDS}"
            start = end


def equal_class_names(sources: Mapping[Path, str]) -> Iterator[tuple[Path, Finding]]:
    """Yield public classes that share their name, unless they are of different adapters."""
    seen: dict[str, list[tuple[Path, Path | None]]] = {}
    for path, source in sources.items():
        adapter = next((folder for folder in ADAPTERS if path.is_relative_to(folder)), None)
        for match in re.finditer(r"^class ([A-Za-z]\w*)", source, re.M):
            for other, its_adapter in seen.setdefault(match[1], []):
                if adapter == its_adapter or not (adapter and its_adapter):
                    yield path, (match.start(1), match[1], f"also in {other}: rename one")
            seen[match[1]].append((path, adapter))


def lint(root: Path, selected: Sequence[str] = ()) -> Iterator[str]:
    """Yield the findings in what git tracks or would add, or in selected files and folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    sources = {}
    for path in map(Path, sorted({*listed.split("\0")} - {""})):
        checked = {path.name, path.suffix} & {*_TOKENS, ".md", ".html"} or path.parts[0] == ".ci"
        if checked and (root / path).is_file():
            source = (root / path).read_text(encoding="utf-8")
            if "prose: ok file" not in source[:200]:
                sources[path] = source
    findings = {(path, found) for path, source in sources.items() for found in check(path, source)}
    public = {p: s for p, s in sources.items() if p.suffix == ".py" and p.parts[0] not in PROGRAMS}
    for path, (offset, text, hint) in sorted(findings.union(equal_class_names(public))):
        if not selected or any(path.is_relative_to(choice) for choice in selected):
            lines = sources[path][:offset].split("\n")
            yield f"{path}:{len(lines)}:{len(lines[-1]) + 1}: {text!r} -> {hint}"


if __name__ == "__main__":
    found = list(lint(ROOT, sys.argv[1:]))
    print("\n".join([*found, f"prose lint: {len(found)} finding(s)"]))
    sys.exit(bool(found))
