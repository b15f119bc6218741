"""The library for GPUs, compiled by nvcc of the environment .venv-wheel. It is not run here."""

import ctypes
import os
import subprocess
import sys
from ctypes import byref
from pathlib import Path

import pytest

import qfleet
from qfleet.engine import library
from qfleet.native.cuda.__main__ import RELEASED, build, checked_sources, cuda_toolchain
from qfleet.native.libraries import SOURCE_DIR
from tests.support.installed import ROOT, WHEEL_ENVIRONMENT

SOURCES = ("float_program", "dual_double_program", "density_program", "library")
"""The other sources differ from the first two in the type of numbers."""

KERNELS = ("EvolveDensity", "DrawShots")
"""Kernels that were added after the last run on a GPU."""


@pytest.fixture(scope="module")
def nvcc() -> Path:
    """The compiler."""
    subprocess.run(["./setup.sh", "", WHEEL_ENVIRONMENT.name, "wheel"], cwd=ROOT, check=True)
    (found,) = WHEEL_ENVIRONMENT.glob("lib/python*/site-packages/nvidia/cu*/bin/nvcc")
    return found


@pytest.fixture(scope="module")
def built(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library for all architectures."""
    path = tmp_path_factory.mktemp("cuda") / "libqfleet_cuda.so"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NVCC", str(nvcc))
        build(path, checked_sources(), cuda_toolchain(None))
    return path


def has_driver() -> bool:
    """Return True if this machine has the driver of a GPU."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def exported_names(path: Path) -> list[str]:
    """Return the names that a library exports, but for those of C++'s own library."""
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    return [name for name in names if not name.startswith("_Z") or "qfleet" in name]


# No source depends on the architecture, and the whole build takes minutes: this one is without
# optimization, and without the assembler.
@pytest.mark.parametrize("name", SOURCES)
def test_nvcc_compiles_each_kind_of_program(name: str, nvcc: Path, tmp_path: Path) -> None:
    (source,) = (one for one in checked_sources() if one.stem == name)
    code = tmp_path / f"{name}.ptx"
    options = ("-std=c++17", "-ptx", "-arch=compute_80", "-Xcicc", "-O0")
    subprocess.run([nvcc, f"-I{SOURCE_DIR}", *options, source, "-o", code], check=True)
    assert (".entry" in code.read_text()) == (name != "library")


# The other tests build these sources with g++, for the host executor, and run them.
@pytest.mark.nightly
def test_library_of_nvcc_exports_one_function(built: Path) -> None:
    assert built.stat().st_size < 40 << 20
    assert exported_names(built) == ["qfleet_device_interface"]
    content = built.read_bytes()
    for name in RELEASED[:-1]:
        assert f"-arch {name} ".encode() in content
    for name in (f".target {RELEASED[-1].replace('compute', 'sm')}", *KERNELS):
        assert name.encode() in content
    if has_driver():
        return
    with pytest.raises(qfleet.DeviceError, match="no NVIDIA driver"):
        library.check(
            library.core().qfleet_device_describe(bytes(built), 0, byref(library.DeviceInfo()))
        )


SENTENCES = (
    (12040, 0, "DeviceError", "supports CUDA 12.4, but the device library was built with CUDA 13."),
    (13000, 100, "DeviceError", "no usable NVIDIA GPU"),
    (13000, 46, "DeviceError", "used by a process that does not share it"),
    (13000, 2, "MemoryLimitError", "end other processes on it"),
    (13000, 209, "DeviceError", "no code for this GPU: build it on this machine"),
)
"""Version of a driver, its error, and the exception and a part of its sentence."""

DESCRIBE = """
import sys
import qfleet
from qfleet.engine import devices
devices.cuda_path = lambda: devices.Path(sys.argv[1])
try:
    devices.info_of(devices.Device("cuda"))
except qfleet.LibraryError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.nightly
def test_driver_that_cannot_be_used_is_one_sentence(built: Path, tmp_path: Path) -> None:
    source, driver = Path(__file__).with_name("driver.cc"), tmp_path / "libcuda.so.1"
    options = ("-shared", "-fPIC", f"-Wl,-soname,{driver.name}", "-o")
    subprocess.run(["g++", *options, driver, source, "-ldl"], check=True)
    for version, error, kind, part in SENTENCES:
        state = {"DRIVER_VERSION": str(version), "DRIVER_ERROR": str(error)}
        done = subprocess.run(
            [sys.executable, "-c", DESCRIBE, built],
            cwd=ROOT,
            env={**os.environ, **state, "LD_LIBRARY_PATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert done.stdout.startswith(f"{kind} ")
        assert part in done.stdout
        assert done.stdout.count("\n") == 1
