"""The core library: found, loaded with ctypes, and its statuses as exceptions.

A wheel has the library in `qfleet/native/lib/`. A checkout has one in `qfleet/native/built/`, which
`python -m qfleet.native` builds. `qfleet/native/qfleet.h` documents the functions.
"""

import ctypes
import functools
import os
from collections.abc import Callable
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from qfleet.argument_checks import shown
from qfleet.errors import (
    ArgumentError,
    DeviceError,
    DeviceLostError,
    LibraryError,
    MemoryLimitError,
)
from qfleet.native.libraries import core_path

THREADS_VARIABLE = "QFLEET_NUM_THREADS"
ABI_VERSION = 7  # QFLEET_ABI_VERSION in native/qfleet.h
STATUSES: dict[int, type[LibraryError]] = {
    1: ArgumentError,
    2: MemoryLimitError,
    3: LibraryError,
    4: DeviceError,
    5: DeviceLostError,
}
"""The exception of each failure in qfleet_status of native/qfleet.h."""
_view: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


class Batch(Structure):
    """qfleet_batch: the examples of one call."""

    _fields_ = (
        ("shared", c_void_p),
        ("shared_count", c_int64),
        ("per_example", c_void_p),
        ("per_example_count", c_int64),
        ("size", c_int64),
        ("memory_limit", c_int64),
        ("allow_subspace", c_int32),
        ("check_finite", c_int32),
        ("executor", c_void_p),
        ("fixed_layout", c_int32),
        ("zeros_are_absent", c_int32),
        ("initial_states", c_void_p),
        ("initial_state_count", c_int64),
        ("initial_order", c_void_p),
        ("initial_order_count", c_int64),
        ("initial_gradients", c_void_p),
        ("initial_gradient_count", c_int64),
    )


class BatchPlan(Structure):
    """qfleet_plan: the method that is used for a batch.

    Attributes:
        subspace_states: Basis states of the subspace; 0 for one evolution per example.
        kept_reals: Real numbers that a forward pass keeps for the gradient.
        workspace_bytes: Approximate memory of both passes, without what is kept.
    """

    _fields_ = (
        ("subspace_states", c_int64),
        ("kept_reals", c_int64),
        ("workspace_bytes", c_int64),
    )


class ProgramInfo(Structure):
    """qfleet_program_info: the sizes of a program."""

    _fields_ = (
        ("qubits", c_int64),
        ("shared", c_int64),
        ("per_example", c_int64),
        ("readouts", c_int64),
        ("real_bytes", c_int64),
        ("takes_states", c_int64),
        ("records", c_int64),
    )


class PulseSteps(Structure):
    """qfleet_pulse: the steps of a pulse."""

    _fields_ = (
        ("dimension", c_int64),
        ("operators", c_int64),
        ("examples", c_int64),
        ("steps", c_int64),
        ("segments", c_int64),
        ("matrices", c_void_p),
        ("matrix_count", c_int64),
        ("coefficients", c_void_p),
        ("coefficient_count", c_int64),
        ("unitary", c_int32),
    )


class SplitMatrices(Structure):
    """qfleet_split_operation: matrices on some qubits."""

    _fields_ = (
        ("qubits", c_void_p),
        ("qubit_count", c_int64),
        ("matrices", c_void_p),
        ("matrix_count", c_int64),
        ("turn", c_double),
        ("seeds", c_void_p),
        ("seed_count", c_int64),
    )


class Split(Structure):
    """qfleet_split: the steps of a state."""

    _fields_ = (
        ("levels", c_void_p),
        ("qubit_count", c_int64),
        ("operations", POINTER(SplitMatrices)),
        ("operation_count", c_int64),
        ("steps", c_int64),
    )


class DeviceInfo(Structure):
    """qfleet_device_info: a GPU, or the host executor."""

    _fields_ = (
        ("name", c_char * 128),
        ("total_bytes", c_int64),
        ("free_bytes", c_int64),
        ("multiprocessors", c_int32),
        ("is_host_executor", c_int32),
        ("double_ratio", c_int32),
        ("reserved", c_int32),
    )


_BATCH, _BUFFER = POINTER(Batch), (c_void_p, c_int64)
# Functions that return a status, with the types of their arguments.
_STATUS_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "qfleet_set_thread_count": (c_int32,),
    "qfleet_program_create": (c_char_p, c_int64, c_int32, POINTER(c_int64)),
    "qfleet_program_create_on": (
        *(c_char_p, c_int64, c_int32, c_char_p, c_int32, POINTER(c_int64)),
    ),
    "qfleet_program_destroy": (c_int64,),
    "qfleet_program_describe": (c_int64, POINTER(ProgramInfo)),
    "qfleet_device_describe": (c_char_p, c_int32, POINTER(DeviceInfo)),
    "qfleet_plan_batch": (c_int64, _BATCH, POINTER(BatchPlan)),
    "qfleet_expectation": (c_int64, _BATCH, *_BUFFER, *_BUFFER),
    "qfleet_expectation_gradient": (
        *(c_int64, _BATCH, *_BUFFER, *_BUFFER, c_int32, *_BUFFER, *_BUFFER),
    ),
    "qfleet_value_and_gradient": (c_int64, _BATCH, *(4 * _BUFFER)),
    "qfleet_expectation_hvp": (c_int64, _BATCH, *(6 * _BUFFER)),
    "qfleet_state": (c_int64, _BATCH, *_BUFFER, *_BUFFER),
    "qfleet_state_gradient": (c_int64, _BATCH, *(5 * _BUFFER)),
    "qfleet_sample": (c_int64, _BATCH, *_BUFFER, c_int64, c_uint64, *_BUFFER),
    "qfleet_measure": (c_int64, _BATCH, *_BUFFER, c_int64, c_uint64, *(3 * _BUFFER)),
    "qfleet_pulse_products": (POINTER(PulseSteps), *_BUFFER),
    "qfleet_pulse_gradient": (POINTER(PulseSteps), *_BUFFER, *_BUFFER),
    "qfleet_split_forward": (POINTER(Split), *_BUFFER),
    "qfleet_split_backward": (POINTER(Split), *_BUFFER),
    "qfleet_tile_layout": (c_int32, c_int32, c_int64, c_int64, POINTER(c_int64), c_int64),
}


@functools.cache
def core() -> ctypes.CDLL:
    """Return the core library with typed functions; it is loaded once.

    Raises:
        LibraryError: It is not built, cannot be loaded or has another interface; or the environment
            variable QFLEET_NUM_THREADS is not a number of threads.
    """
    threads = os.environ.get(THREADS_VARIABLE, "")
    if threads and not (threads.isascii() and threads.isdecimal() and int(threads)):
        raise ArgumentError(
            f"{THREADS_VARIABLE} is {shown(threads)}: pass the number of threads, 1 or more, or"
            f" unset {THREADS_VARIABLE}"
        )
    path = core_path()
    if not path.is_file():
        raise LibraryError(
            f"the core library {path} does not exist: install a wheel of qfleet for this platform,"
            " or run `python -m qfleet.native` in a checkout"
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"the core library {path} cannot be loaded: {error}") from error
    version = library.qfleet_abi_version()
    if version != ABI_VERSION:
        raise LibraryError(
            f"the core library {path} has the interface version {version}, but this qfleet needs"
            f" {ABI_VERSION}: reinstall qfleet, or run `python -m qfleet.native` in a checkout"
        )
    library.qfleet_last_error.restype = c_char_p
    library.qfleet_instruction_set.restype = c_char_p
    library.qfleet_simd_lanes.argtypes = (c_int32,)
    for name, types in _STATUS_FUNCTIONS.items():
        getattr(library, name).argtypes = types
    return library


def check(status: int) -> None:
    """Raise the exception of a status, with the sentence of the core."""
    if status:
        _fail(status)


def _fail(status: int) -> NoReturn:
    raise STATUSES[status](core().qfleet_last_error().decode())


def address(array: np.ndarray) -> int:
    """Return the address of a contiguous array, which must live as long as it is used."""
    try:
        return ctypes.addressof(_view(array))  # a fifth of the time of array.ctypes
    except (TypeError, ValueError):  # read-only, or empty
        return array.ctypes.data


def num_threads() -> int:
    """Return the number of threads that the engine uses.

    It is QFLEET_NUM_THREADS, else OMP_NUM_THREADS, else the number of CPUs that this process may
    use, unless `set_num_threads` was called.
    """
    return int(core().qfleet_thread_count())


def set_num_threads(count: int) -> None:
    """Set the number of threads that the engine uses in this process.

    Batches are divided among the threads, so values and gradients differ in rounding between
    numbers of threads: about 2e-6 in complex64. With one number, their bits are equal in each run.

    Args:
        count: At least 1.

    Raises:
        ArgumentError: `count` is not a positive integer.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count < 1 << 31:
        raise ArgumentError(f"count is {count!r}: pass the number of threads, 1 or more")
    check(core().qfleet_set_thread_count(count))


def instruction_set() -> str:
    """Return the name of the instruction set that is used on this machine."""
    return str(core().qfleet_instruction_set().decode())


def simd_lanes(real_bytes: int) -> int:
    """Return the number of reals of 4 or 8 bytes in a SIMD vector of this machine."""
    return int(core().qfleet_simd_lanes(real_bytes))


@dataclass(frozen=True)
class TileLayout:
    """The memory layout of a batch.

    Attributes:
        lane_qubits: Number of lowest qubits that lie across a vector's lanes.
        samples: Examples per tile, over the other lanes.
        tiles: Number of tiles of the batch.
        groups: Vectors of real parts in a tile's state, and of imaginary parts.
        tile_reals: Real numbers in a tile's state.
        shared_tile: True if all threads work on one tile, False if each works on its own.
    """

    lane_qubits: int
    samples: int
    tiles: int
    groups: int
    tile_reals: int
    shared_tile: bool


def tile_layout(qubits: int, real_bytes: int, batch: int, threads: int) -> TileLayout:
    """Return the core's memory layout of a batch.

    Args:
        qubits: Qubits per state.
        real_bytes: Bytes per real number, 4 or 8.
        batch: Number of examples.
        threads: Number of threads.

    Raises:
        ArgumentError: An argument is out of range.
    """
    fields = (c_int64 * 6)()
    check(core().qfleet_tile_layout(qubits, real_bytes, batch, threads, fields, len(fields)))
    across, samples, tiles, groups, reals, shared = map(int, fields)
    return TileLayout(across, samples, tiles, groups, reals, bool(shared))
