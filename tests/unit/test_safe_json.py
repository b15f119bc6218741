"""JSON of other people's files: limits, and types of fields."""

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from common import safe_json, storage
from common.errors import StorageError
from common.text import printable


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[NaN]", "contains NaN"),
        (b"[-Infinity]", "contains -Infinity"),
        (b"[1e999]", "contains 1e999"),
        (b"[" + b"9" * 30 + b"]", "64 bits"),
        (b"[9223372036854775808]", "64 bits"),
        (b"[" * 65 + b"]" * 65, "nested"),
        (b"[" * 900_000, "nested"),
        (b'{"a":' * 300_000 + b"0" + b"}" * 300_000, "nested"),
        (b'["\\udfff"]', "not Unicode"),
        (b'{"\\uD800": 1}', "not Unicode"),
    ],
)
def test_parse_refuses_what_qfleet_never_writes(content: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        safe_json.parse(content)


def test_parse_returns_what_json_has() -> None:
    value = {"a": [1, -2.5, None, True, "ü\U0001f600\n"], "b": {"c": []}}
    assert safe_json.parse(json.dumps(value)) == value
    assert safe_json.parse(b"[" * 64 + b"]" * 64)
    assert safe_json.parse('["\\ud83d\\ude00"]') == ["\U0001f600"]


def test_check_names_the_first_wrong_field() -> None:
    kind = TypeAdapter(dict[str, dict[str, int]])
    safe_json.check({"a": {"b": 1}}, kind)
    for value, words in (({"a": {"b": "1"}}, "a.b is not"), ({"a": 3}, "a is not"), (3, "it is")):
        with pytest.raises(ValueError, match=words):
            safe_json.check(value, kind)


def test_read_json_of_a_huge_file_reads_nothing(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(50 * 2**30)
    with pytest.raises(ValueError, match="more than 64 MiB"):
        storage.read_json(tmp_path / "huge.json")


def test_read_bytes_limit_in_the_cloud(gs: str) -> None:
    path = storage.path(gs) / "file"
    storage.write_atomic(path, b"x" * 1000)
    assert storage.read_bytes(path, 1000) == b"x" * 1000
    with pytest.raises(storage.FileTooLarge):
        storage.read_bytes(path, 999)
    assert storage.read_bytes(path) == b"x" * 1000


def test_read_bytes_of_a_fifo_does_not_wait(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), Path("/dev/stdin")):
        with pytest.raises(StorageError, match=r"not a file but a FIFO|can't be read"):
            storage.read_bytes(path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 \U0001f600", "plain ü 漢 \U0001f600"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb\x07\x9b", "a\\rb\\x07\\x9b"),
        ("\u202eevil\u2028", "\\u202eevil\\u2028"),
        ("\ud800", "\\ud800"),
        ("tab\tline\n", "tab\\tline\\n"),
    ],
)
def test_printable_shows_control_characters(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(printable(text)) == shown
    printable(text).encode()


def test_printable_keeps_what_it_is_told_to() -> None:
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"
