"""Checks of arguments."""

import pytest

from qfleet.argument_checks import TEXT, checked
from qfleet.errors import ArgumentError


def test_first_wrong_argument_is_named() -> None:
    @checked(d=TEXT, b=TEXT, a=TEXT, f=TEXT, c=TEXT, e=TEXT)
    def join(a: str, b: str, c: str, d: str, e: str, f: str) -> str:
        return a + b + c + d + e + f

    assert join(*"abcdef") == "abcdef"
    with pytest.raises(ArgumentError, match=r"^b is 2"):
        join("a", 2, 3, f=6, e=5, d=4)  # type: ignore[arg-type]
