"""Devices that run the engine's kernels, by name: "cpu", "cuda", "cuda:1", "auto".

"host" is the host executor, for tests: it runs the kernels of GPUs on the CPU, thread by thread,
and is slow. "auto" becomes the CPU or the first GPU when a circuit is compiled (device_choice.py),
"auto:1" the CPU or the second GPU. A device library is loaded when a device other than the CPU is
asked for.

`python -m qfleet.engine.devices NAME` describes a device, without a use of it by the caller.
"""

import functools
import os
import re
import sys
import warnings
from ctypes import byref
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qfleet.argument_checks import shown
from qfleet.engine import library, memory
from qfleet.engine.library import DeviceInfo
from qfleet.errors import ArgumentError, DeviceError, LibraryError, MemoryLimitError
from qfleet.native.libraries import core_is_packaged, cuda_path, host_path

VARIABLE = "QFLEET_DEVICE"
_GPU = re.compile(r"(cuda|auto)(?::([0-9]{1,3}))?")

FEW_UNITS = 4
"""A GPU with a larger ratio of the rates of float and double is meant for graphics."""


@dataclass(frozen=True)
class Device:
    """The CPU, a GPU, the host executor, or the choice between the CPU and a GPU.

    Attributes:
        kind: "cpu", "cuda", "host" or "auto".
        number: Of the GPU, from 0.
    """

    kind: Literal["cpu", "cuda", "host", "auto"]
    number: int = 0

    def __str__(self) -> str:
        is_numbered = self.kind == "cuda" or self.number > 0
        return f"{self.kind}:{self.number}" if is_numbered else self.kind


CPU = Device("cpu")

FORMS = "GPUs evolve state vectors, and density matrices from |0...0> only"
"""The programs that have a form for GPUs, as a part of a sentence."""

UNTRIED = {
    "states": "Hessian-vector products, samples, states in clusters of thread blocks, and the"
    " recordings of repeated calls",
    "initial states": "all calls of a program with a state per example",
    "density matrices": "density matrices",
}
"""Calls that were not run on a GPU, by the kind of a program; docs/gpu.md lists them."""


def resolve(name: str | None) -> Device:
    """Return the device of a name.

    Args:
        name: "cpu", "cuda", "cuda:N", "auto", "auto:N" or "host"; the environment variable
            QFLEET_DEVICE, or else "cpu", for None.

    Raises:
        ArgumentError: There is no device of this name.
    """
    source = "device"
    if name is None:
        source, name = VARIABLE, os.environ.get(VARIABLE) or "cpu"
    text = name if isinstance(name, str) else ""
    if text == "cpu":
        return CPU
    if text == "host":
        return Device("host")
    gpu = _GPU.fullmatch(text)
    if gpu is None:
        raise ArgumentError(
            f"{source} is {shown(name)}: choose auto, cpu, cuda or cuda:N, where N is the number of"
            " a GPU"
        )
    return Device("cuda" if gpu[1] == "cuda" else "auto", int(gpu[2] or 0))


def library_path_of(device: Device) -> Path:
    """Return the path of the built device library.

    Args:
        device: Not the CPU.

    Raises:
        DeviceError: It is not built.
    """
    is_host = device.kind == "host"
    path = host_path() if is_host else cuda_path()
    if not path.is_file():
        if core_is_packaged() and not is_host:
            raise DeviceError(
                f"the library of the device {device} is not installed: `pip install 'qfleet[cuda]'`"
                " installs it, for Linux on x86_64"
            )
        build = "python -m qfleet.native.cuda" + (" --host" if is_host else "")
        compiler = "g++" if is_host else "nvcc of CUDA 12 or later"
        raise DeviceError(
            f"the library {path.name} of the device {device} does not exist: run `{build}` in a"
            f" checkout, with {compiler}"
        )
    return path


def info_of(device: Device) -> DeviceInfo:
    """Return the name and the memory of a device.

    Args:
        device: Not the CPU.

    Raises:
        DeviceError: The device is missing or fails, or its library is not built.
    """
    info = DeviceInfo()
    path = bytes(library_path_of(device))
    library.check(library.core().qfleet_device_describe(path, device.number, byref(info)))
    return info


def require_device(device: Device, real_bytes: int) -> None:
    """Check that a device works; see `info_of` and `warn_of_few_units`.

    Args:
        device: Not the CPU.
        real_bytes: Bytes of a real number of the states, 4 or 8.
    """
    info_of(device)
    warn_of_few_units(device, real_bytes)


@functools.cache
def warn_of_few_units(device: Device, real_bytes: int) -> None:
    """Warn once if a device computes complex128 much more slowly than complex64; see `info_of`.

    Args:
        device: Not the CPU.
        real_bytes: Bytes of a real number of the states, 4 or 8.
    """
    if real_bytes == 8 and (ratio := info_of(device).double_ratio) > FEW_UNITS:
        warnings.warn(
            f"{title(device)}, has 1 unit for complex128 per {ratio} for complex64: choose the"
            " dtype complex64, or the device cpu",
            stacklevel=2,
        )


def require_memory(device: Device, qubits: int, amplitude_bytes: int) -> None:
    """Check that a state fits into the free memory of a device.

    Args:
        device: Any.
        qubits: Qubits of the state.
        amplitude_bytes: Bytes per amplitude, 8 or 16.

    Raises:
        MemoryLimitError: The message states the needed and the free bytes and the largest width
            that fits.
        DeviceError: As for `info_of`.
    """
    if device == CPU:
        memory.require_memory(qubits, amplitude_bytes, 1)
        return
    needed = memory.state_bytes(qubits, amplitude_bytes)
    if needed > memory.UNCHECKED_BYTES and needed > (free := info_of(device).free_bytes):
        fits = qubits
        while fits and memory.state_bytes(fits, amplitude_bytes) > free:
            fits -= 1
        raise MemoryLimitError(
            f"simulating {qubits} qubits takes {needed:,} bytes for 1 state, but {free:,} bytes of"
            f" {device} are free: use at most {fits} qubits, or another device"
        )


def title(device: Device) -> str:
    """Return the name of a device with that of its model; see `info_of`."""
    if device == CPU:
        return str(device)
    return f"{device}, {info_of(device).name.decode(errors='replace')}"


def describe(device: Device) -> str:
    """Return a line with the name and the memory of a device; see `info_of`."""
    info = info_of(device)
    free, total = info.free_bytes / 2**30, info.total_bytes / 2**30
    return f"device: {title(device)} ({free:.0f} of {total:.0f} GiB free)"


def line_of_untried(device: Device, kind: str) -> str:
    """Return a line about the calls of a program that were not run on a GPU.

    Args:
        device: Any; the line is empty for others than GPUs.
        kind: Of the program, as in UNTRIED.
    """
    if device.kind != "cuda":
        return ""
    return f"compiled and tested on a host executor, not run on a GPU: {UNTRIED[kind]}\n"


@functools.cache
def warn_once(what: str, device: Device) -> None:
    """Warn that something runs on the CPU, if another device was asked for.

    Args:
        what: Such as the name of a method.
        device: The wanted device.
    """
    if device.kind in ("cpu", "auto"):
        return
    warnings.warn(
        f"{what} runs on the CPU, not on {device}: {FORMS}",
        stacklevel=6,  # the caller of `compile_circuit`, which is decorated
    )


def main() -> None:
    """Print the description of the device that the argument names, or end with its error."""
    try:
        print(describe(resolve(sys.argv[1])))
    except LibraryError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
