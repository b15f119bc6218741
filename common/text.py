"""Text for people: counts with their nouns, and text of other people's files."""

import difflib
import unicodedata
from collections.abc import Iterable

_LINE_SEPARATORS = ("\u2028", "\u2029")


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Format a count with its noun in the right number.

    Args:
        count: The count; it gets thousands separators.
        noun: The noun in the singular.
        plural_noun: The plural, where the regular English one is wrong.

    Returns:
        For example "1 worker", "3 workers", "0 entries" or "1,024 batches".
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {plural_noun or _regular_plural(noun)}"


def did_you_mean(given: str, choices: Iterable[str]) -> str:
    """Return the end of a message about a wrong word, such as ": did you mean hybrid?".

    Args:
        given: The wrong word, in any case.
        choices: The right words.

    Returns:
        Empty if no choice is similar.
    """
    by_case = {one.casefold(): one for one in choices}
    initials = {"".join(word[:1] for word in one.split("_")): one for one in by_case}
    near = difflib.get_close_matches(given.casefold(), by_case, n=1)
    near = near or [one for short, one in initials.items() if short == given.casefold()]
    return f": did you mean {by_case[near[0]]}?" if near else ""


def _regular_plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")) and not noun.endswith("epoch"):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in set("aeiou"):
        return noun[:-1] + "ies"
    return noun + "s"


def printable(text: str, keep: str = "") -> str:
    """Return text whose control characters are visible escapes, such as \\x1b.

    A terminal would obey them; also those that only change the order of the characters.

    Args:
        text: Any text, such as a value that another user recorded.
        keep: Control characters to leave as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep or not _is_control(c) else _escaped(c) for c in text)


def _is_control(character: str) -> bool:
    return unicodedata.category(character)[0] == "C" or character in _LINE_SEPARATORS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
