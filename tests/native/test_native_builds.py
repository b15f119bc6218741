"""C++ tests of the native engine: under sanitizers, and cross-compiled for aarch64."""

import concurrent.futures
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from qfleet import native

TESTS = native.SOURCE_DIR / "tests"
# Sources that need no TensorFlow; kernels.cc is compiled once per instruction set.
ENGINE = [name for name in native.SOURCES if name != "kernels.cc" and not name.startswith("tf_")]
# The reference that the kernel is compared with: optimized, and without sanitizers.
REFERENCE = ("random_gate.cc", "random_circuit.cc", "serialize.cc", "reference_simulator.cc")


def build_tests(
    folder: Path,
    *,
    machine: str = platform.machine(),
    compiler: str = "g++",
    sanitizers: Sequence[str] = (),
    unsanitized: Sequence[str] = (),
    link: Sequence[str] = (),
) -> Path:
    """Build the C++ tests, which need no TensorFlow.

    Args:
        folder: Build folder.
        machine: Processor, one of native.INSTRUCTION_SETS.
        compiler: C++ compiler.
        sanitizers: Compiler flags of the sanitizers.
        unsanitized: Sources that are compiled without these flags.
        link: Linker flags.

    Returns:
        The executable.
    """
    commands = []
    for name, size, flags in native.INSTRUCTION_SETS[machine]:
        chosen = [f"-DQFLEET_SET={name}", f"-DQFLEET_BYTES={size}", *flags]
        commands.append(["kernels.cc", "-o", f"{name}.o", "-O1", *sanitizers, *chosen])
    for name in ENGINE:
        commands.append(
            [name, "-o", f"{name}.o", "-O1", *(() if name in unsanitized else sanitizers)]
        )
    for source in sorted(TESTS.glob("*.cc")):
        flags = ("-O2",) if source.name in REFERENCE else ("-O0", *sanitizers)
        commands.append([str(source), "-o", f"tests_{source.name}.o", *flags])
    target = folder / "kernel_tests"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda one: compiled(compiler, one, folder), commands):
            assert result.returncode == 0, result.stderr
    objects = sorted(folder.glob("*.o"))
    subprocess.run(
        [compiler, *sanitizers, *link, *map(str, objects), "-o", str(target), "-pthread"],
        check=True,
    )
    return target


def compiled(compiler: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    source, *options = command
    every = ["-std=c++17", "-c", str(native.SOURCE_DIR / source)]
    return subprocess.run(
        [compiler, *every, *options], cwd=folder, capture_output=True, text=True, check=False
    )


def run(*command: str | Path) -> None:
    """Run a command, print its output and assert that it succeeds."""
    done = subprocess.run(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, f"{command[0]} exited with {done.returncode}"


def without_address_randomization() -> list[str]:
    """Command prefix for GCC's sanitizers, which can fail with randomized addresses."""
    found = shutil.which("setarch")
    if found and subprocess.run([found, "-R", "true"], check=False).returncode == 0:
        return [found, "-R"]
    return []


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="requires g++")


@needs_compiler
@pytest.mark.timeout(900)
def test_cpp_tests_under_address_sanitizer_pass(tmp_path: Path) -> None:
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    run(*without_address_randomization(), build_tests(tmp_path, sanitizers=sanitizers))


@needs_compiler
@pytest.mark.timeout(900)
def test_cpp_tests_under_thread_sanitizer_pass(tmp_path: Path) -> None:
    # matrix_batch.cc selects its code at load time, before this sanitizer is initialized.
    made = build_tests(
        tmp_path, sanitizers=("-fsanitize=thread",), unsanitized=("matrix_batch.cc",)
    )
    run(*without_address_randomization(), made, "--light", "wide", "subspace", "concurrent")


@pytest.mark.timeout(900)
def test_cpp_tests_on_aarch64_pass(tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("requires g++-aarch64-linux-gnu and qemu-user")
    made = build_tests(tmp_path, machine="aarch64", compiler=compiler, link=("-static",))
    run(emulator, made, "--light")
