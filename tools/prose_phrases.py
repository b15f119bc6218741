"""The list of phrases that the prose lint rejects."""

import re
from collections.abc import Iterator


class Phrases:
    """The forbidden phrases: regular expressions with hints.

    A blank in an expression matches any white space, so that a phrase may cross a line break.
    """

    def __init__(self, text: str) -> None:
        """Parse a phrase list.

        Args:
            text: One expression per line, a tab, the hint. Empty lines and lines that start with
                `#` are skipped.

        Raises:
            ValueError: If a line has no hint or its expression does not compile.
        """
        self._phrases: list[tuple[re.Pattern[str], str]] = []
        sources = []
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            expression, tab, hint = line.partition("\t")
            if not tab or not hint.strip():
                raise ValueError(f"line {number}: no tab with a hint follows {expression!r}")
            expression = re.sub(r" (?![*+?])", r"\\s+", expression)
            try:
                self._phrases.append((re.compile(expression, re.I), hint.strip()))
            except re.error as error:
                raise ValueError(f"line {number}: {expression!r}: {error}") from error
            sources.append(f"(?:{expression})")
        self._any = re.compile("|".join(sources), re.I) if sources else None

    def find(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield offset, matched text and hint of every phrase in the text."""
        if self._any is None or not self._any.search(text):
            return
        covered: set[int] = set()
        for pattern, hint in self._phrases:
            for match in pattern.finditer(text):
                if match.start() not in covered:
                    covered.update(range(*match.span()))
                    yield match.start(), " ".join(match[0].split()), hint
