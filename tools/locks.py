"""Pinned versions in the lock files, requirements/*.txt."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True, order=True)
class Pin:
    """A pinned version in a lock.

    Attributes:
        lock: The lock file's name.
        line: Its line, from 1.
        package: The package, in lower case with dashes.
        version: The version.
        hashes: SHA-256 (hex) of its files.
    """

    lock: str
    line: int
    package: str
    version: str
    hashes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.lock}:{self.line}: {self.package}=={self.version}"


def read_lock(lock: Path) -> Iterator[Pin]:
    """Yield the pins of a lock."""
    pin = None
    for number, text in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        if found := _PIN.match(text):
            if pin is not None:
                yield pin
            name = re.sub(r"[-_.]+", "-", found["name"]).lower()
            pin = Pin(lock.name, number, name, found["version"])
        if pin is not None and (digests := _HASH.findall(text)):
            pin = replace(pin, hashes=(*pin.hashes, *digests))
    if pin is not None:
        yield pin


def read_locks(folder: Path) -> list[Pin]:
    """Return the pins of all locks in a folder."""
    return [pin for lock in sorted(folder.glob("*.txt")) for pin in read_lock(lock)]
