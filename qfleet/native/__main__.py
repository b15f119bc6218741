"""Builds the native kernel with g++, in half a minute; where it is built already, at once.

Prints where the library is, or nothing where there is none.
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
    """Build; 0 also where it can't be built, since plain TensorFlow then serves."""
    target = native.library_path()
    if not target.is_file():
        attempt(target)
    if target.is_file():
        print(target)
    return 0


def attempt(target: Path) -> None:
    """Build, or say in a sentence why there will be no kernel."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None or platform.machine() not in native.INSTRUCTION_SETS:
        why = "there is no g++" if compiler is None else f"it is not for {platform.machine()}"
        print(
            f"qfleet: no native kernel, since {why}: plain TensorFlow simulates, many times"
            " slower (apt-get install g++ on Debian and Ubuntu, then say the same again).",
            file=sys.stderr,
        )
        return
    print("Building the native kernel: up to a minute, this first time only.", file=sys.stderr)
    try:
        build(compiler, target)
    except subprocess.CalledProcessError as error:
        print(error.stderr[-4000:], file=sys.stderr)
        print(
            f"qfleet: {compiler} could not build the native kernel (its last lines are above):"
            " plain TensorFlow simulates, many times slower.",
            file=sys.stderr,
        )


def build(compiler: str, target: Path) -> None:
    """Compile and link; the library appears whole or not at all.

    Raises:
        subprocess.CalledProcessError: The compiler failed; its `stderr` says why.
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
                    chosen = (f"-DQFLEET_SET={label}", f"-DQFLEET_BYTES={size}", *flags)
                    commands.append([*COMMON, *chosen, "-c", name, "-o", str(objects[-1])])
                continue
            objects.append(Path(folder, f"{name}.o"))
            # TensorFlow's headers are slow to compile, and full of warnings that are not ours.
            extra = (*headers, "-O1", "-w") if name.startswith("tf_") else ()
            commands.append([*COMMON, *extra, "-c", name, "-o", str(objects[-1])])
        # The longest first.
        commands.sort(key=lambda command: not command[-3].startswith("tf_"))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda command: run(compiler, command), commands):
                pass
        # Those of other sources, TensorFlows or processors are of no use any more.
        for old in target.parent.glob("*.so"):
            old.unlink()
        made = Path(folder, "library.so")
        run(
            compiler,
            ["-shared", *map(str, objects), "-o", str(made), *tf.sysconfig.get_link_flags()],
        )
        target.parent.mkdir(exist_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}")
        shutil.copy(made, unfinished)
        unfinished.replace(target)


def run(compiler: str, arguments: list[str]) -> None:
    subprocess.run(
        [compiler, *arguments], cwd=native.SOURCE_DIR, check=True, capture_output=True, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
