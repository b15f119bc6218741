"""Wheels as files: their content, their tag, and the C library that they need."""

import re
import subprocess
import sys
from pathlib import Path


def pack(tree: Path, folder: Path) -> Path:
    """Pack an unpacked wheel into a folder that has no other, and return its path."""
    _run("wheel", "pack", "--dest-dir", folder, tree)
    (found,) = folder.glob("*.whl")
    return found


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into a folder of its name and version."""
    _run("wheel", "unpack", "--dest", folder, wheel)


def retagged(wheel: Path, tag: str) -> Path:
    """Give a wheel another platform tag, and return its new path in the same folder."""
    _run("wheel", "tags", "--remove", f"--platform-tag={tag}", wheel)
    (found,) = wheel.parent.glob("*.whl")
    return found


def manylinux(wheel: Path) -> str:
    """Return the oldest tag of Linux that suits a wheel, such as manylinux_2_28_x86_64.

    Raises:
        RuntimeError: None does.
    """
    report = _run("auditwheel", "show", wheel)
    found = re.search(r'"(manylinux_2_\d+_\w+)"', report)
    if found is None:
        raise RuntimeError(f"the wheel suits no Linux: {report}")
    return found[1]


def _run(module: str, *words: str | Path) -> str:
    """Return the output of a module of this environment."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
