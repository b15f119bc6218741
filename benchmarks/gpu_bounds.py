"""Bounds of a step on a GPU: its work, the rates of the device, and their shares.

The work is that of the blocks that the engine hands to the device, counted by device_passes.cc:
operations of the products with blocks, and bytes of states that are read and written. Matrices,
sums and the host's part of a step are not counted, so that a share is a lower bound.
"""

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Mapping
from ctypes import byref, c_double, c_int, c_int64
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.circuit_models import BenchmarkModel
from qfleet.compiler.state.program import compile_program
from qfleet.engine import library
from qfleet.engine.devices import Device
from qfleet.native.cuda.__main__ import host_toolchain

_SOURCE = Path(__file__).with_name("device_passes.cc")
_REAL_BYTES, _AMPLITUDE_BYTES = 4, 8
_BANKS_BYTES = 128
"""Read or written by a multiprocessor's shared memory in a cycle: 32 banks of 4 bytes."""
_CLOCK_KHZ, _MULTIPROCESSORS = 13, 16
"""Attributes of a device in CUDA's driver interface."""


@dataclass(frozen=True)
class DeviceWork:
    """The work of a step, per example, in complex64. The rates of a device have the same names.

    Attributes:
        flops: Floating-point operations; a multiply-add is two.
        shared_bytes: Bytes of states that are read or written in shared memory.
        device_bytes: The same in the device's memory.
    """

    flops: float
    shared_bytes: float
    device_bytes: float


def device_work(definition: BenchmarkModel) -> DeviceWork:
    """Count the work of values and of the gradient by the parameters, on a GPU with clusters.

    Args:
        definition: The model.
    """
    path, counted = counter()
    program = compile_program(
        *(definition.circuit, definition.inputs),
        *(definition.parameters, definition.observables),
    )
    written = program.serialized("complex64").serialized
    handle, core = c_int64(), library.core()
    library.check(
        core.qfleet_program_create_on(written, len(written), _REAL_BYTES, path, 0, byref(handle))
    )
    library.check(core.qfleet_program_destroy(handle))
    numbers = (c_double * 3)()
    qubits = len(program.qubits)
    counted.counted_work(numbers)
    operations, shared, device = (number * 2.0**qubits for number in numbers)
    return DeviceWork(operations, shared * _AMPLITUDE_BYTES, device * _AMPLITUDE_BYTES)


def shares(
    work: DeviceWork, examples_per_second: float, peaks: Mapping[str, float]
) -> dict[str, float]:
    """Return the share of each known rate that a step reaches.

    Args:
        work: Of an example.
        examples_per_second: Of the step.
        peaks: Rates of the device, by the names of the work.
    """
    amounts = asdict(work)
    return {name: amounts[name] * examples_per_second / peaks[name] for name in peaks}


def shared_rate(device: Device, driver: str = "libcuda.so.1") -> float | None:
    """Return the bytes per second of the shared memory of a GPU, by its clock; None without one.

    It is not measured: a multiprocessor has 32 banks of 4 bytes, and the driver reports the highest
    clock and the number of multiprocessors.

    Args:
        device: The device; its number is that of CUDA.
        driver: The library of CUDA's driver.
    """
    if device.kind != "cuda":
        return None
    try:
        cuda = ctypes.CDLL(driver)
    except OSError:
        return None
    number, found = c_int(), []
    failed = cuda.cuInit(0) or cuda.cuDeviceGet(byref(number), device.number)
    for attribute in (_CLOCK_KHZ, _MULTIPROCESSORS):
        value = c_int()
        failed = failed or cuda.cuDeviceGetAttribute(byref(value), attribute, number)
        found.append(value.value)
    return None if failed else found[0] * 1e3 * found[1] * _BANKS_BYTES


@functools.cache
def counter() -> tuple[bytes, ctypes.CDLL]:
    """Build and load the library that counts; return its path, too, by which the core knows it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "device_passes.so"
        command = [*host_toolchain().compile, str(_SOURCE), "-shared", "-o", str(path)]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(path))
        loaded.counted_work.argtypes = (ctypes.POINTER(c_double),)
        loaded.counted_work.restype = None
    return bytes(path), loaded  # the core finds a loaded library by its path, without the file
