"""Text for people: counts with their nouns."""


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


def _regular_plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2:-1] not in set("aeiou"):
        return noun[:-1] + "ies"
    return noun + "s"
