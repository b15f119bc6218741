"""Builds the device library for Nvidia GPUs, or the one for the host executor.

It needs nvcc of CUDA 12 or later: that of NVCC, PATH, /usr/local/cuda or the package
nvidia-cuda-nvcc, and g++. Prints the path of the library.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from qfleet.native import libraries
from qfleet.native.__main__ import compiler, install

_ARCHITECTURES = ("sm_80", "sm_89", "sm_90", "sm_100")
_PTX = "compute_90"  # which drivers compile for newer GPUs
RELEASED = (*_ARCHITECTURES, _PTX)
"""Architectures of a library for GPUs of other machines."""
_COMMON = (f"-I{libraries.SOURCE_DIR}", "-std=c++17")
_HOST_FLAGS = (
    *("-O2", "-fPIC", "-fvisibility=hidden", "-pthread"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"),
)
_CUDA_FLAGS = ("-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-cudart", "static")


class BuildError(Exception):
    """The library cannot be built; the message is the reason."""


@dataclass(frozen=True)
class Toolchain:
    """Commands that build a library.

    Attributes:
        compile: Compiles a source; the source, -c, -o and the object are appended.
        link: Links objects; these, -o and the library are appended.
    """

    compile: tuple[str, ...]
    link: tuple[str, ...]


def main() -> int:
    """Build a library unless it exists; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m qfleet.native.cuda", description=__doc__)
    parser.add_argument("--host", action="store_true", help="for the host executor, with g++")
    parser.add_argument(
        "--arch",
        nargs="+",
        metavar="ARCH",
        help="architectures of GPUs, such as sm_90, or native; those of this machine's GPUs, or"
        f" else {' '.join(_ARCHITECTURES)}, unless given; builds the library again",
    )
    options = parser.parse_args()
    path = libraries.host_path() if options.host else libraries.cuda_path()
    if options.arch or not path.is_file():
        try:
            sources = checked_sources()
            tools = host_toolchain() if options.host else cuda_toolchain(options.arch)
            print(f"Building {path.name}: some minutes, once.", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                build(Path(folder) / path.name, sources, tools)
                install(Path(folder))
        except (BuildError, OSError) as error:
            print(f"qfleet: {path.name} cannot be built: {error}", file=sys.stderr)
            return 1
    print(path)
    return 0


def checked_sources() -> list[Path]:
    """Return the sources of a library.

    Raises:
        BuildError: This is a wheel, which has none.
    """
    sources = libraries.cuda_sources()
    if not sources:
        raise BuildError("its sources are missing: run this in a checkout")
    return sources


def build(path: Path, sources: Sequence[Path], tools: Toolchain) -> None:
    """Build a library.

    Args:
        path: The library; its folder exists.
        sources: Its sources.
        tools: The commands.

    Raises:
        BuildError: The compiler fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        objects = [f"{folder}/{source.stem}.o" for source in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            done = [
                pool.submit(_run, [*tools.compile, str(source), "-c", "-o", made])
                for source, made in zip(sources, objects, strict=True)
            ]
            for one in done:
                one.result()
        _run([*tools.link, *objects, "-o", str(path)])


def host_toolchain() -> Toolchain:
    """Return the commands for the host executor.

    Raises:
        BuildError: There is no C++ compiler.
    """
    program = compiler()
    if program is None:
        raise BuildError("there is no g++ (on Debian and Ubuntu: apt-get install g++)")
    command = (program, *_COMMON, *_HOST_FLAGS)
    return Toolchain((*command, "-x", "c++"), (*command, "-shared"))


def cuda_toolchain(architectures: Sequence[str] | None) -> Toolchain:
    """Return the commands for GPUs.

    Args:
        architectures: "native", or names such as "sm_90"; the default for None.

    Raises:
        BuildError: There is no nvcc.
    """
    nvcc = find_nvcc()
    command = (str(nvcc), *_COMMON, *_CUDA_FLAGS, *_architecture_flags(nvcc, architectures))
    # The package has the static runtime where nvcc does not look for it.
    folder = nvcc.parents[1] / "lib"
    runtime = (f"-L{folder}",) if (folder / "libcudart_static.a").is_file() else ()
    link = (*command, "-shared", *runtime, "-Xlinker", "--exclude-libs=ALL")
    return Toolchain(command, link)


def find_nvcc() -> Path:
    """Return nvcc: $NVCC, or that of PATH, of /usr/local/cuda or of the Python package.

    Raises:
        BuildError: There is none.
    """
    if named := os.environ.get("NVCC"):
        if chosen := shutil.which(named):
            return Path(chosen)
        raise BuildError(f"NVCC is {named}, which is not a program: set it to the path of nvcc")
    packages = Path(sysconfig.get_path("purelib")) / "nvidia"
    folders = [Path("/usr/local/cuda/bin"), *sorted(packages.glob("cu*/bin"), reverse=True)]
    places = [None, *map(str, folders)]  # None: PATH
    found = next(filter(None, (shutil.which("nvcc", path=place) for place in places)), None)
    if found is None:
        raise BuildError(
            "there is no nvcc: install CUDA 12 or later, or the Python package nvidia-cuda-nvcc, or"
            " set NVCC to the path of nvcc"
        )
    return Path(found)


def _architecture_flags(nvcc: Path, architectures: Sequence[str] | None) -> list[str]:
    if architectures is None:
        known = _run([str(nvcc), "--list-gpu-code"]).split()
        default = [*(name for name in _ARCHITECTURES if name in known), _PTX]
        architectures = ["native"] if _has_gpu() else default
    if "native" in architectures:
        return ["-arch=native"]
    virtual = [name.replace("sm_", "compute_") for name in architectures]
    pairs = zip(virtual, architectures, strict=True)
    return [word for arch, code in pairs for word in ("-gencode", f"arch={arch},code={code}")]


def _has_gpu() -> bool:
    """Return True if this machine has a GPU and its driver works."""
    found = shutil.which("nvidia-smi")
    return found is not None and not subprocess.run([found, "-L"], capture_output=True).returncode


def _run(command: Sequence[str]) -> str:
    """Run a command and return its output.

    Raises:
        BuildError: It fails; its output is printed.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        raise BuildError(f"{command[0]} failed, with the output above")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
