"""C++ tests of the native engine: sanitizers, Clang, and cross-compiled for aarch64."""

import shutil
import subprocess
from pathlib import Path

import pytest

from qfleet.native import libraries

# Tests whose calls share data between threads.
RACES = (
    "wide",
    "subspace",
    "heisenberg",
    "concurrent",
    "hvp-wide",
    "hvp-concurrent",
    "density",
    "trajectories",
    "capi",
)


def build_tests(folder: Path, **options: str) -> Path:
    """Build the C++ tests, which need no framework; return the executable.

    Args:
        folder: Build folder.
        options: CMake variables.
    """
    build_target("core_tests", folder, QFLEET_TESTS="ON", **options)
    return folder / "core_tests"


def build_target(target: str, folder: Path, **options: str) -> None:
    """Build a target of CMake; see `build_tests`."""
    options = {"CMAKE_BUILD_TYPE": "None", "CMAKE_CXX_FLAGS": "-Og"} | options
    settings = [f"-D{name}={value}" for name, value in options.items()]
    run("cmake", "-S", libraries.SOURCE_DIR, "-B", folder, "-G", "Ninja", *settings)
    run("cmake", "--build", folder, "--target", target)


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
@pytest.mark.parametrize(
    ("widest", "options"),
    [("baseline", ["--light"]), pytest.param("avx512", [], marks=pytest.mark.nightly)],
    ids=["light", "all"],
)
def test_cpp_tests_under_address_sanitizer_pass(
    tmp_path: Path, widest: str, options: list[str]
) -> None:
    sanitizers = {"QFLEET_SANITIZE": "address,undefined", "QFLEET_WIDEST": widest}
    made = build_tests(tmp_path, CMAKE_CXX_COMPILER="g++", **sanitizers)
    run(*without_address_randomization(), made, *options)


@pytest.mark.nightly
@needs_compiler
@pytest.mark.timeout(900)
def test_cpp_tests_under_thread_sanitizer_pass(tmp_path: Path) -> None:
    # Kernels use one thread each, so those of one instruction set suffice.
    sanitizers = {"QFLEET_SANITIZE": "thread", "QFLEET_WIDEST": "baseline"}
    made = build_tests(tmp_path, CMAKE_CXX_COMPILER="g++", **sanitizers)
    run(*without_address_randomization(), made, "--light", *RACES)


# The test of the wheel builds the library with a Clang too.
@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("clang++") is None, reason="requires clang")
@pytest.mark.timeout(900)
def test_cpp_tests_built_by_clang_pass(tmp_path: Path) -> None:
    run(build_tests(tmp_path, CMAKE_CXX_COMPILER="clang++"), "--light")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_cpp_tests_on_aarch64_pass(tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("requires g++-aarch64-linux-gnu and qemu-user")
    made = build_tests(
        tmp_path,
        CMAKE_CXX_COMPILER=compiler,
        CMAKE_SYSTEM_NAME="Linux",
        CMAKE_SYSTEM_PROCESSOR="aarch64",
        CMAKE_EXE_LINKER_FLAGS="-static",
    )
    run(emulator, made, "--light")
