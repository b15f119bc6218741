"""Builds the wheel qfleet-cuda: the device library for Nvidia GPUs, of the extra `qfleet[cuda]`.

It puts one file into the installed package qfleet. nvcc links the C library of this machine, so the
wheel's tag names an own version of it.
"""

import tempfile
from pathlib import Path

from qfleet.native.cuda.__main__ import RELEASED, build, checked_sources, cuda_toolchain
from tools import wheel_files

ROOT = Path(__file__).parents[1]
FILE = Path("qfleet/native/lib/libqfleet_cuda.so")

METADATA = """Metadata-Version: 2.4
Name: qfleet-cuda
Version: {version}
Summary: The device library of qfleet for NVIDIA GPUs
License-Expression: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: qfleet=={version}
Description-Content-Type: text/markdown

The device library of [qfleet](https://pypi.org/project/qfleet/) for NVIDIA GPUs.
`pip install 'qfleet[cuda]'` installs it.
"""
WHEEL = (
    "Wheel-Version: 1.0\nGenerator: qfleet\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
)


def build_wheel(out: Path) -> Path:
    """Compile the library for all architectures of a release, and pack it.

    Args:
        out: Folder that receives the wheel.

    Returns:
        The path of the wheel, some 5 MB.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / FILE.name
        build(library, checked_sources(), cuda_toolchain(RELEASED))
        return pack(library, out)


def pack(library: Path, out: Path) -> Path:
    """Pack a built library into a wheel.

    Args:
        library: The library for GPUs.
        out: Folder that receives the wheel.

    Returns:
        The path of the wheel.
    """
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    with tempfile.TemporaryDirectory() as folder:
        tree, packed = Path(folder) / "tree", Path(folder) / "packed"
        info = tree / f"qfleet_cuda-{version}.dist-info"
        for place in (info, tree / FILE.parent, packed):
            place.mkdir(parents=True)
        (tree / FILE).write_bytes(library.read_bytes())
        (info / "METADATA").write_text(METADATA.format(version=version), encoding="utf-8")
        (info / "WHEEL").write_text(WHEEL, encoding="utf-8")
        wheel = wheel_files.pack(tree, packed)
        wheel = wheel_files.retagged(wheel, wheel_files.manylinux(wheel))
        out.mkdir(exist_ok=True)
        target = out / wheel.name
        target.write_bytes(wheel.read_bytes())  # it may be on another disk
        return target
