"""Counts with their nouns."""

import pytest

from common.text import plural


@pytest.mark.parametrize(
    ("count", "noun", "expected"),
    [
        (0, "worker", "0 workers"),
        (1, "worker", "1 worker"),
        (2, "worker", "2 workers"),
        (-1, "step", "-1 steps"),
        (1024, "example", "1,024 examples"),
        (2, "batch", "2 batches"),
        (2, "epoch", "2 epochs"),
        (3, "process", "3 processes"),
        (2, "retry", "2 retries"),
        (2, "day", "2 days"),
        (2, "partial state", "2 partial states"),
    ],
)
def test_plural_regular_noun_matches_count(count: int, noun: str, expected: str) -> None:
    assert plural(count, noun) == expected


def test_plural_irregular_noun_uses_the_given_form() -> None:
    assert plural(1, "index", "indices") == "1 index"
    assert plural(2, "index", "indices") == "2 indices"
