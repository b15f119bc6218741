"""Paths and whole writes until common/storage.py gives them."""

import os
from pathlib import Path


def path(text: str) -> Path:
    """The path that a text names."""
    return Path(text)


def write_whole(target: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target)
