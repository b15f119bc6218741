"""Damaged and hostile files of a run: each mutation changes one file of a copy, from a seed."""

import copy
import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

DEEP = 200_000
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 3, 2**31, 2**63 - 1, 10**30, 0.5, -1e308, 1e308, "", "x", "1",
    "zzzz", "9999-12-31T23:59:59Z", "\x1b]0;owned\x07\x1b[2J", "a\u202eb", "\x00", "../../outside",
    "/etc/passwd", "/dev/zero", "<script>alert(1)</script>", "$(touch outside)", "A" * 5000,
    [], {}, [1], [[]], {"a": {"b": []}}, ["x"] * 3, [None], {"mse": "low"}, "os:system",
    "runpy:run_path",
    {"cirq_type": "sympy.Not", "args": ["open('outside', 'w')"]},
)  # fmt: skip


class Mutation(NamedTuple):
    """One change.

    Attributes:
        name: What is changed, and how.
        apply: Changes a copy of the run's folder; the second argument is a folder outside of it.
    """

    name: str
    apply: Callable[[Path, Path], None]


def nested(depth: int) -> bytes:
    """Return JSON of lists in lists."""
    return b"[" * depth + b"]" * depth


def _raw() -> dict[str, Callable[[bytes, random.Random], bytes]]:
    def flipped(content: bytes, source: random.Random) -> bytes:
        changed = bytearray(content or b"x")
        for _ in range(source.choice((1, 3, 30))):
            changed[source.randrange(len(changed))] = source.randrange(256)
        return bytes(changed)

    def cut(content: bytes, source: random.Random) -> bytes:
        return content[: source.randrange(len(content) + 1)]

    return {
        "empty": lambda content, source: b"",
        "cut": cut,
        "flipped": flipped,
        "nested": lambda content, source: nested(DEEP),
        "nested objects": lambda content, source: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        "NaN": lambda content, source: b'{"format": NaN}',
        "invalid UTF-8": lambda content, source: b'{"format": "\xff\xfe"}',
        "half a character": lambda content, source: b'{"format": "\\ud800"}',
        "huge number": lambda content, source: b'{"format": 1' + b"0" * 5000 + b"}",
        "list": lambda content, source: b"[]",
        "text": lambda content, source: b'"text"',
        "twice": lambda content, source: content + content,
    }


def _replace_by(make: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def apply(path: Path, outside: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        make(path, outside)

    return apply


def _bind_socket(path: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_RDONLY)  # the name of a socket has at most 107 bytes
        try:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def _sparse(path: Path, outside: Path) -> None:
    with path.open("wb") as file:
        file.truncate(20 * 2**30)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "a FIFO": _replace_by(lambda path, outside: os.mkfifo(path)),
    "a socket": _replace_by(_bind_socket),
    "a link to a device": _replace_by(lambda path, outside: path.symlink_to("/dev/zero")),
    "a link to a file": _replace_by(lambda path, outside: path.symlink_to(outside / "secret")),
    "a link to itself": _replace_by(lambda path, outside: path.symlink_to(path.name)),
    "a dangling link": _replace_by(lambda path, outside: path.symlink_to(outside / "none")),
    "a folder": _replace_by(lambda path, outside: path.mkdir()),
    "missing": _replace_by(lambda path, outside: None),
    "20 GiB": _replace_by(_sparse),
}
FOLDER_KINDS: dict[str, Callable[[Path, Path], None]] = {
    "a link to a folder": _replace_by(lambda path, outside: path.symlink_to(outside)),
    "a file": _replace_by(lambda path, outside: path.write_bytes(b"x") and None),
}


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each field in JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*place, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*place, key))


def _changed(content: Any, place: tuple[Any, ...], value: Any, *, delete: bool) -> Any:
    changed = copy.deepcopy(content)
    parent = changed
    for key in place[:-1]:
        parent = parent[key]
    if delete:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return changed


def mutations(run: Path, seed: int, fields: int) -> Iterator[Mutation]:
    """Yield mutations of all files and folders of a run.

    Args:
        run: A finished run.
        seed: Seed of the mutations.
        fields: Changed fields per JSON file.
    """
    source = random.Random(seed)
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run)
        for kind, make in (FOLDER_KINDS if path.is_dir() else KINDS).items():
            yield Mutation(f"{name} is {kind}", _in_run(name, make))
        if path.is_dir():
            continue
        content = path.read_bytes()
        for kind, change in _raw().items():
            yield Mutation(f"{name} {kind}", _writing(name, change(content, source)))
        if path.suffix not in (".json", ".jsonl"):
            continue
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        known = json.loads(lines[0])
        places = list(_places(known))
        for _ in range(fields):
            place, value = source.choice(places), source.choice(VALUES)
            delete = source.random() < 0.1
            changed = _changed(known, place, value, delete=delete)
            new = b"\n".join([json.dumps(changed).encode(), *lines[1:]])
            what = "deleted" if delete else f"= {value!r:.40}"
            yield Mutation(f"{name} {'.'.join(map(str, place))} {what}", _writing(name, new))


def _in_run(name: Path, make: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    return lambda run, outside: make(run / name, outside)


def _writing(name: Path, content: bytes) -> Callable[[Path, Path], None]:
    return lambda run, outside: (run / name).write_bytes(content) and None
