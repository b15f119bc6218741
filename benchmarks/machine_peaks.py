"""The peak rates of this machine, measured next to the times that they bound.

The multiply-adds are independent chains in registers, with the vectors of the engine's instruction
set. The bytes are those of an array much larger than the caches, which all threads change in place,
and those of small arrays, one per thread, which stay in a cache.
"""

import ctypes
import functools
import math
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.processes import cpu_count
from qfleet.engine import library
from qfleet.native.__main__ import compiler

_SOURCE = Path(__file__).with_name("machine_peaks.cc")
_FLAGS = {
    "avx512": ("-march=x86-64-v4", "-mprefer-vector-width=512", "-DQFLEET_BYTES=64"),
    "avx2": ("-march=x86-64-v3", "-DQFLEET_BYTES=32"),
    "baseline": ("-DQFLEET_BYTES=16",),
}
_SECONDS = 0.05  # of each measurement
_ARRAY_BYTES = 256 << 20
_ALIGNMENT = 64


@dataclass(frozen=True)
class MachinePeaks:
    """Rates of all cores together.

    Attributes:
        operations: Floating-point operations per second, float32; a multiply-add is two.
        bytes: Bytes read and bytes written per second, in memory.
        cached_bytes: The same for small arrays, which stay in a cache; infinite if not measured.
    """

    operations: float
    bytes: float
    cached_bytes: float = math.inf

    def bounds(self, operations: float, moved: float, cached: float) -> dict[str, float]:
        """Return the seconds that each rate allows.

        Args:
            operations: Floating-point operations.
            moved: Bytes that are read or written in memory.
            cached: Bytes that are read or written in a cache.
        """
        return {
            "multiply-adds": operations / self.operations,
            "memory": moved / self.bytes,
            "caches": cached / self.cached_bytes,
        }


def measure_peaks(cached_bytes: int = 0) -> MachinePeaks:
    """Measure the rates, in about 0.1 s.

    Args:
        cached_bytes: Bytes of the small array of each thread; its rate is not measured for 0.
    """
    rates, threads = _library(), cpu_count()
    array = _array()

    def moved(reals: int) -> float:
        return float(rates.update_rate(threads, _SECONDS, array.ctypes.data, reals))

    operations = rates.multiply_add_rate(threads, _SECONDS)
    cached = moved(threads * cached_bytes // 4) if cached_bytes else math.inf
    return MachinePeaks(operations, moved(array.size), cached)


@functools.cache
def _array() -> np.ndarray:
    """Return an aligned array whose pages exist."""
    data = np.ones(_ARRAY_BYTES // 4 + _ALIGNMENT // 4, np.float32)
    start = -data.ctypes.data % _ALIGNMENT // 4
    return data[start : start + _ARRAY_BYTES // 4]


@functools.cache
def _library() -> ctypes.CDLL:
    """Build and load the library of the loops."""
    made = compiler()
    assert made is not None, "requires a C++ compiler"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine_peaks.so"
        flags = ["-std=c++17", "-O3", "-shared", "-fPIC", "-pthread"]
        command = [made, *flags, *_FLAGS[library.instruction_set()], _SOURCE, "-o", path]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(path))
    loaded.multiply_add_rate.argtypes = (ctypes.c_int, ctypes.c_double)
    loaded.update_rate.argtypes = (
        *(ctypes.c_int, ctypes.c_double),
        *(ctypes.c_void_p, ctypes.c_int64),
    )
    loaded.multiply_add_rate.restype = loaded.update_rate.restype = ctypes.c_double
    return loaded
