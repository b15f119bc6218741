"""The library for GPUs, compiled by nvcc of the environment .venv-wheel. It is not run here."""

import ctypes
import subprocess
from ctypes import byref
from pathlib import Path

import pytest

import qfleet
from qfleet.engine import library
from qfleet.native.cuda.__main__ import build, checked_sources, cuda_toolchain
from tests.support.installed import ROOT, WHEEL_ENVIRONMENT


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library for all architectures."""
    subprocess.run(["./setup.sh", "", WHEEL_ENVIRONMENT.name, "wheel"], cwd=ROOT, check=True)
    (nvcc,) = WHEEL_ENVIRONMENT.glob("lib/python*/site-packages/nvidia/cu*/bin/nvcc")
    monkeypatch.setenv("NVCC", str(nvcc))
    path = tmp_path / "libqfleet_cuda.so"
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


# The other tests build these sources with g++, for the host executor, and run them.
@pytest.mark.nightly
def test_library_of_nvcc_exports_one_function(built: Path) -> None:
    assert built.stat().st_size < 40 << 20
    assert exported_names(built) == ["qfleet_device_interface"]
    if has_driver():
        return
    with pytest.raises(qfleet.DeviceError, match="no NVIDIA driver"):
        library.check(
            library.core().qfleet_device_describe(bytes(built), 0, byref(library.DeviceInfo()))
        )
