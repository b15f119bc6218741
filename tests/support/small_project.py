"""A checkout with the real Makefile and setup.sh, small locks, and stand-ins for programs."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
VERSION = "{}.{}".format(*sys.version_info)
PYTHON = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
PROGRAM = "import json, os, sys; print(json.dumps([sys.argv[2:], dict(os.environ)]))\n"
"""Prints the settings after the command, and its environment."""

KERNEL = """
from pathlib import Path
library = Path(__file__).with_name("kernel.so")
library.write_text(library.read_text() + "built " if library.exists() else "built ")
print(library)
"""
"""Replaces the build of the native library: prints its path and counts its builds."""


def make_project(folder: Path) -> Path:
    """Write the checkout. Its lock `worker` contains the empty wheel `tiny`, the others nothing."""
    for name in ("Makefile", "setup.sh"):
        shutil.copy(ROOT / name, folder)
    kernel = folder / "qfleet/native"
    kernel.mkdir(parents=True)
    (folder / "qfleet/__main__.py").write_text(PROGRAM)
    (kernel / "__main__.py").write_text(KERNEL)
    for name in ("engine.cc", "engine.h"):
        (kernel / name).write_text("")
    wheel = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        info = "tiny-1.0.dist-info"
        file.writestr("tiny.py", "")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    locks = folder / "requirements"
    locks.mkdir()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (locks / "worker.txt").write_text(f"./{wheel.name} --hash=sha256:{digest}\n")
    (locks / "dev.txt").write_text("# nothing\n")
    (locks / "tfq.txt").write_text("# nothing, too\n")
    (locks / "launch.txt").write_text("# nothing\n")
    (locks / "tensorboard.txt").write_text("# nothing\n")
    (locks / "studies.txt").write_text("# nothing here\n")
    shutil.copy(ROOT / "requirements/installer.txt", locks)
    (folder / ".uv").symlink_to(ROOT / ".uv")
    return folder


def pretend_installed(folder: Path) -> Path:
    """Give a checkout an environment for `worker` that is only a link to this Python."""
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(PYTHON)
    lock = "requirements/worker.txt"
    digest = hashlib.sha256((folder / lock).read_bytes()).hexdigest()
    (folder / ".venv/installed.sha256").write_text(f"{digest}  {lock}\n")
    return folder


def make(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `make WORDS` without the variables of an outer make, pip, uv or qfleet."""
    outer = {n: v for n, v in os.environ.items() if not re.match("MAKE|MFLAGS|PIP_|UV_|QFLEET_", n)}
    return subprocess.run(
        ["make", *words],
        cwd=folder,
        env={**outer, **environment},
        capture_output=True,
        text=True,
        timeout=seconds(120),
        check=False,
    )


def arguments(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the arguments of the program that make started."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of an error, which make's own last line follows."""
    assert done.returncode == 2
    error, last = done.stderr.splitlines()
    assert re.fullmatch(r"make: \*\*\* \[.*\] Error 2", last)
    assert error.startswith("qfleet: ")
    return error


def write_script(path: Path, text: str) -> Path:
    """Write an executable bash script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def on_platform(folder: Path, system: str, machine: str) -> dict[str, str]:
    """Return an environment in which `uname` prints another platform."""
    write_script(folder / "bin/uname", f"[[ $1 == -s ]] && echo {system} || echo {machine}")
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
