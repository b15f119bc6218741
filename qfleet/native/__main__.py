"""Builds the native libraries that are missing, by CMakeLists.txt, in half a minute.

A checkout needs the core, the guards of worker processes, with TensorFlow its ops, and with JAX the
XLA handlers; a wheel contains the core and the handlers. Prints the paths of the libraries, or
nothing if they cannot be built.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from qfleet.native import libraries


def main() -> int:
    """Build the libraries; return 0 also if that fails, because plain TensorFlow replaces them."""
    wanted = [libraries.core_path()]
    if libraries.tensorflow_version() is not None:
        wanted.append(libraries.tensorflow_path())
    if not libraries.core_is_packaged():
        wanted.append(libraries.process_path())
    if libraries.jax_version() is not None:
        wanted.append(libraries.jax_path())
    if not all(path.is_file() for path in wanted):
        reason = unsupported_reason() or build()
        if reason is not None:
            print(f"qfleet: the native engine cannot be built: {reason}", file=sys.stderr)
            return 0
    print(*wanted, sep="\n")
    return 0


def unsupported_reason() -> str | None:
    """Return why this machine cannot build the libraries; None if it can."""
    if platform.machine() not in libraries.PROCESSORS:
        return f"{platform.machine()} CPUs are not supported"
    if compiler() is None:
        return "there is no g++ (on Debian and Ubuntu: apt-get install g++)"
    if program("cmake") is None or program("ninja") is None:
        return "cmake or ninja is missing (pip install cmake ninja)"
    return None


def compiler() -> str | None:
    """Return the C++ compiler: $CXX, else g++, else clang++."""
    return os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")


def program(name: str) -> str | None:
    """Return the path of a program of this Python's environment, or else of the machine."""
    return shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)


def build() -> str | None:
    """Build the libraries and move them into place atomically; return the reason of a failure."""
    print("Building the native engine: up to a minute, once.", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_cmake(Path(folder))
            install(Path(folder))
        except subprocess.CalledProcessError as error:
            print(error.output[-4000:], file=sys.stderr)
            return f"{compiler()} failed, with the output above"
        except OSError as error:
            return str(error)
    return None


def run_cmake(folder: Path) -> None:
    """Configure and build in a folder.

    Raises:
        subprocess.CalledProcessError: CMake or the compiler failed; `output` has their output.
    """
    options = {
        "QFLEET_CORE_NAME": libraries.core_path().stem.removeprefix("lib"),
        "QFLEET_PYTHON": sys.executable,
    }
    if libraries.core_path().is_file():  # of the wheel, or built in another environment
        options["QFLEET_CORE"] = str(libraries.core_path())
    if not libraries.core_is_packaged() and not libraries.process_path().is_file():
        options["QFLEET_PROCESS"] = "ON"
        options["QFLEET_PROCESS_NAME"] = libraries.process_path().stem.removeprefix("lib")
    if libraries.tensorflow_version() is not None and not libraries.tensorflow_path().is_file():
        options["QFLEET_TENSORFLOW"] = "ON"
        options["QFLEET_TENSORFLOW_NAME"] = libraries.tensorflow_path().stem.removeprefix("lib")
    if libraries.jax_version() is not None and not libraries.jax_path().is_file():
        options["QFLEET_JAX"] = "ON"
        options["QFLEET_JAX_NAME"] = libraries.jax_path().stem.removeprefix("lib")
    cmake = str(program("cmake"))
    configure = [cmake, "-S", str(libraries.SOURCE_DIR), "-B", str(folder), "-G", "Ninja"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={program('ninja')}"]
    configure += [f"-D{name}={value}" for name, value in options.items()]
    for command in (configure, [cmake, "--build", str(folder)]):
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "CXX": str(compiler())},
        )


def install(folder: Path) -> None:
    """Replace the libraries of other sources; those of other TensorFlow versions stay."""
    libraries.BUILT.mkdir(exist_ok=True)
    for library in folder.glob("*.so"):
        prefix = library.stem.rpartition("-")[0]
        for old in libraries.BUILT.glob(f"{prefix}-{'[0-9a-f]' * 16}.so"):
            old.unlink()
        unfinished = libraries.BUILT / f"{library.stem}.{os.getpid()}"
        shutil.copy(library, unfinished)
        unfinished.replace(libraries.BUILT / library.name)


if __name__ == "__main__":
    sys.exit(main())
