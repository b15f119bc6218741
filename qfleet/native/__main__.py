"""Builds the native engine with g++ in half a minute, unless it is built already.

Prints the path of the library, or nothing if it cannot be built.
"""

import concurrent.futures
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from qfleet import native

COMMON = ("-std=c++17", "-fPIC", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden")


def main() -> int:
    """Build the library; return 0 also if that fails, because plain TensorFlow replaces it."""
    target = native.library_path()
    if not target.is_file():
        try_build(target)
    if target.is_file():
        print(target)
    return 0


def try_build(target: Path) -> None:
    """Build the library, or print the reason why it cannot be built."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None or platform.machine() not in native.INSTRUCTION_SETS:
        if compiler is None:
            reason = "there is no g++ (on Debian and Ubuntu: apt-get install g++)"
        else:
            reason = f"{platform.machine()} CPUs are not supported"
        print(
            f"qfleet: the native engine cannot be built: {reason}; using plain TensorFlow, which is"
            " many times slower",
            file=sys.stderr,
        )
        return
    print("Building the native engine: up to a minute, once.", file=sys.stderr)
    try:
        build(compiler, target)
    except subprocess.CalledProcessError as error:
        print(error.stderr[-4000:], file=sys.stderr)
        print(
            f"qfleet: {compiler} could not build the native engine (its output is above); using"
            " plain TensorFlow, which is many times slower",
            file=sys.stderr,
        )


def build(compiler: str, target: Path) -> None:
    """Compile and link the library, and move it into place atomically.

    Args:
        compiler: The C++ compiler.
        target: Path of the library.

    Raises:
        subprocess.CalledProcessError: The compiler failed; `stderr` has its output.
    """
    from qfleet.tensorflow.runtime import tf

    headers = tuple(tf.sysconfig.get_compile_flags())
    with tempfile.TemporaryDirectory() as folder:
        objects: list[Path] = []
        commands: list[list[str]] = []
        for name in native.SOURCES:
            if name == "kernels.cc":
                for label, size, flags in native.INSTRUCTION_SETS[platform.machine()]:
                    objects.append(Path(folder, f"{label}.o"))
                    defines = (f"-DQFLEET_SET={label}", f"-DQFLEET_BYTES={size}", *flags)
                    commands.append([*COMMON, *defines, "-c", name, "-o", str(objects[-1])])
                continue
            objects.append(Path(folder, f"{name}.o"))
            # TensorFlow's headers compile slowly and with many warnings.
            extra = (*headers, "-O1", "-w") if name.startswith("tf_") else ()
            commands.append([*COMMON, *extra, "-c", name, "-o", str(objects[-1])])
        # The slowest first.
        commands.sort(key=lambda command: not command[-3].startswith("tf_"))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda command: run(compiler, command), commands):
                pass
        # Remove libraries of other sources, TensorFlow versions and CPUs.
        for old in target.parent.glob("*.so"):
            old.unlink()
        library = Path(folder, "library.so")
        run(
            compiler,
            ["-shared", *map(str, objects), "-o", str(library), *tf.sysconfig.get_link_flags()],
        )
        target.parent.mkdir(exist_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}")
        shutil.copy(library, unfinished)
        unfinished.replace(target)


def run(compiler: str, arguments: list[str]) -> None:
    """Run the compiler in the folder of the sources.

    Raises:
        subprocess.CalledProcessError: The compiler failed; `stderr` has its output.
    """
    subprocess.run(
        [compiler, *arguments], cwd=native.SOURCE_DIR, check=True, capture_output=True, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
