"""Extract prose (documentation, docstrings, comments, messages) from the files of the repository.

Every extractor keeps offsets: a `Passage` has the same length as the source it was cut from, and
characters that are not prose (quotes, comment markers, code) are replaced by blanks or fillers.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILLER = "…"  # stands for an f-string expression or a shell variable
CODE_FILLER = "_"  # stands for code in backquotes; a word character, so that no phrase matches it

_BACKQUOTED = re.compile(r"(`+)(?:(?!\1)[^\n]|\n(?!\s*\n))+?\1")
_WORDS = re.compile(rf"[A-Za-z]{{2,}}[,;:]? +[A-Za-z{FILLER}]|{FILLER} +[A-Za-z]{{2,}}")
_ESCAPE = re.compile(r"\\[nrt]")
_HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#+!?[^\n]*", re.M)
_SHELL_TOKEN = re.compile(
    r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:^|(?<=[\s;]))#[^\n]*", re.M | re.DOTALL
)
_SHELL_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+")
_CXX_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL
)
_PREFIX = re.compile(r"[A-Za-z]*(\"\"\"|'''|\"|')")


@dataclass(frozen=True)
class Passage:
    """A continuous piece of prose.

    Attributes:
        text: The prose; the same length as the source that it covers.
        start: Offset of `text` in the file.
        kind: "docs", "docstring", "comment" or "message".
    """

    text: str
    start: int
    kind: str


def _blank(text: str, filler: str = " ") -> str:
    """Replace every character except newlines."""
    return re.sub(r"[^\n]", filler, text)


def _mask(pattern: re.Pattern[str], text: str, filler: str = " ") -> str:
    return pattern.sub(lambda match: _blank(match[0], filler), text)


def _mask_code(text: str) -> str:
    return _mask(_BACKQUOTED, text, CODE_FILLER) if "`" in text else text


def is_message(text: str) -> bool:
    """Return True if a string literal reads like prose: at least two words in a row."""
    return _WORDS.search(text) is not None


def markdown(source: str) -> list[Passage]:
    """Return the whole file as one passage, with code blocks and link targets blanked."""
    lines, fence = [], ""
    for line in source.splitlines(keepends=True):
        marker = re.match(r"\s*(?:>\s*)?(```+|~~~+)", line)
        if fence:
            if marker and marker[1].startswith(fence):
                fence = ""
            lines.append(_blank(line))
        elif marker:
            fence = marker[1]
            lines.append(_blank(line))
        else:
            lines.append(line)
    text = _mask_code("".join(lines))
    text = _mask(re.compile(r"<!--.*?-->", re.DOTALL), text)
    text = _mask(re.compile(r"(?<=\])\([^)\s]*\)|<[^<>\n]+>|https?://\S+"), text)
    return [Passage(text, 0, "docs")]


def python(source: str) -> list[Passage]:
    """Return docstrings, comments and message-like strings of a Python module."""
    offsets = line_offsets(source)
    docstrings = {offsets[node.lineno - 1] for node in bare_strings(ast.parse(source))}
    strings: list[tuple[int, int]] = []
    comments: list[tuple[int, int]] = []
    passages: list[Passage] = []
    depth = 0  # of nested f-strings, Python 3.12 and later
    nested_start = 0

    def end_strings() -> None:
        if strings:
            start, end = strings[0][0], strings[-1][1]
            text = _literal_text(source, strings)
            # A docstring starts its line; only indentation precedes it.
            line_start = source.rfind("\n", 0, start) + 1
            kind = "docstring" if line_start in docstrings else "message"
            if kind == "docstring" or is_message(text):
                passages.append(Passage(_mask_code(text), start, kind))
            assert len(text) == end - start
            strings.clear()

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        start = offsets[token.start[0] - 1] + token.start[1]
        end = offsets[token.end[0] - 1] + token.end[1]
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            nested_start = nested_start if depth else start
            depth += 1
        elif name == "FSTRING_END":
            depth -= 1
            if not depth:
                strings.append((nested_start, end))
        elif depth:
            continue
        elif name == "STRING":
            strings.append((start, end))
        elif name == "COMMENT":
            if strings:  # inside an implicit concatenation, or behind a literal
                passages.append(_comment(source, start, end))
            else:
                comments.append((start, end))
        elif name not in ("NL", "INDENT", "DEDENT"):
            end_strings()
    end_strings()
    passages.extend(_merged_comments(source, comments))
    return passages


def bare_strings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield statements that are only a string: docstrings of modules, classes, fields."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node


def line_offsets(source: str) -> list[int]:
    """Return the offset at which each line starts, with one more for the end of the file."""
    offsets = [0]
    for line in source.split("\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets


def _literal_text(source: str, literals: list[tuple[int, int]]) -> str:
    """Return the source of concatenated literals with quotes, escapes and expressions masked."""
    parts, previous = [], literals[0][0]
    for start, end in literals:
        parts.append(_blank(source[previous:start]))
        raw = source[start:end]
        opening = _PREFIX.match(raw)
        assert opening is not None
        quote = opening[1]
        body = raw[opening.end() : len(raw) - len(quote)]
        prefix = raw[: opening.start(1)].lower()
        if "r" not in prefix:
            body = _mask(_ESCAPE, body)
        if "f" in prefix:
            body = _mask_expressions(body)
        parts += [" " * opening.end(), body, " " * len(quote)]
        previous = end
    return "".join(parts)


def _mask_expressions(body: str) -> str:
    """Replace the expressions in braces of an f-string."""
    masked, depth, index = [], 0, 0
    while index < len(body):
        char = body[index]
        if not depth and body[index : index + 2] in ("{{", "}}"):
            masked.append("  ")
            index += 2
            continue
        depth += char == "{"
        masked.append(FILLER if depth and char != "\n" else char)
        depth -= char == "}" and depth > 0
        index += 1
    return "".join(masked)


def _comment(source: str, start: int, end: int) -> Passage:
    text = re.sub(r"(^|\n)([ \t]*)#+", lambda m: _blank(m[0]), source[start:end])
    return Passage(_mask_code(text), start, "comment")


def _merged_comments(source: str, comments: list[tuple[int, int]]) -> Iterator[Passage]:
    """Join comments on consecutive lines, so that a phrase may cross the line break."""
    group: list[tuple[int, int]] = []
    for start, end in comments:
        if group and source[group[-1][1] : start].strip(" \t") != "\n":
            yield _comment(source, group[0][0], group[-1][1])
            group = []
        group.append((start, end))
    if group:
        yield _comment(source, group[0][0], group[-1][1])


def cxx(source: str) -> list[Passage]:
    """Return comments and message-like strings of C++ source."""
    passages = []
    for match in _CXX_TOKEN.finditer(source):
        text = match[0]
        if text.startswith("/"):
            text = re.sub(r"//+|/\*+|\*+/|\n[ \t]*\*", lambda m: _blank(m[0]), text)
            passages.append(Passage(_mask_code(text), match.start(), "comment"))
        elif text.startswith('"') and is_message(text):
            passages.append(
                Passage(" " + _mask(_ESCAPE, text[1:-1]) + " ", match.start(), "message")
            )
    return passages


def shell(source: str) -> list[Passage]:
    """Return comments and message-like quoted strings of a shell script."""
    passages, comments = [], []
    for match in _SHELL_TOKEN.finditer(source):
        if match[0].startswith("#"):
            comments.append(match.span())
        elif match[0][0] in "'\"" and is_message(match[0]):
            text = _mask(_ESCAPE, " " + match[0][1:-1] + " ")
            passages.append(Passage(_mask(_SHELL_VARIABLE, text, FILLER), match.start(), "message"))
    passages.extend(_merged_comments(source, comments))
    return passages


def hash_comments(source: str) -> list[Passage]:
    """Return the comments of YAML, TOML, Dockerfiles and requirements."""
    return list(_merged_comments(source, [m.span() for m in _HASH_COMMENT.finditer(source)]))


def makefile(source: str) -> list[Passage]:
    """Return comments, `## help` texts and quoted strings of recipe lines."""
    passages = hash_comments(source)
    for match in re.finditer(r"^\t(?![@-]?#)[^\n]*", source, re.M):
        for part in shell(match[0]):
            if part.kind == "message":
                passages.append(Passage(part.text, match.start() + part.start, "message"))
    return passages


_BY_SUFFIX = {
    ".md": markdown,
    ".py": python,
    ".cc": cxx,
    ".cpp": cxx,
    ".h": cxx,
    ".hpp": cxx,
    ".sh": shell,
    ".yaml": hash_comments,
    ".yml": hash_comments,
    ".toml": hash_comments,
    ".in": hash_comments,
}
_BY_NAME = {"Makefile": makefile, "Dockerfile": hash_comments, ".editorconfig": hash_comments}


def is_checked(path: Path) -> bool:
    """Return True if the file has a format that the lint reads."""
    return path.name in _BY_NAME or path.suffix in _BY_SUFFIX or path.parts[0] == ".ci"


def extract(path: Path, source: str) -> list[Passage]:
    """Return the prose of one file.

    Args:
        path: Decides the format; relative to the repository's root.
        source: The content of the file.

    Raises:
        SyntaxError: If a Python file cannot be parsed.
    """
    extractor = _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix, shell)
    return extractor(source)
