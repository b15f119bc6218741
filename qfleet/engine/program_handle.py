"""A program in the core library: its handle, its sizes, and calls with NumPy arrays."""

import weakref
from collections.abc import Callable
from ctypes import byref, c_int64
from dataclasses import dataclass

import numpy as np

from qfleet.engine import devices, library
from qfleet.engine.devices import CPU, Device
from qfleet.engine.library import Batch, BatchPlan, ProgramInfo, address

_ALIGNMENT_BYTES, _TRAILER_REALS = 64, 4  # as in native/capi/evaluation.cc


class ProgramHandle:
    """The core's copy of a program, freed with this object.

    NumPy's global interpreter lock is released while the core computes.

    Args:
        serialized: Bytes of qfleet.compiler.state.program_writer.
        real_bytes: Bytes of a real number of the states, 4 or 8.
        device: Computes values, gradients and states.

    Attributes:
        handle: The program's number in the C interface.
        info: The program's sizes.
        library: The core library.

    Raises:
        ArgumentError: The bytes are not a program.
        MemoryLimitError: There is not enough memory.
        LibraryError: The core library is not available.
        DeviceError: The device is missing or fails, or its library is not built.
    """

    def __init__(self, serialized: bytes, real_bytes: int, device: Device = CPU) -> None:
        self.library = library.core()
        handle, self.info = c_int64(), ProgramInfo()
        program = serialized, len(serialized), real_bytes
        if device == CPU:
            status = self.library.qfleet_program_create(*program, byref(handle))
        else:
            path = bytes(devices.library_path_of(device))
            status = self.library.qfleet_program_create_on(
                *program, path, device.number, byref(handle)
            )
        library.check(status)
        self.handle = handle.value
        self._release = weakref.finalize(self, self.library.qfleet_program_destroy, self.handle)
        self._release.atexit = False  # the process frees all memory
        library.check(self.library.qfleet_program_describe(self.handle, byref(self.info)))
        if device != CPU:
            devices.warn_of_few_units(device, real_bytes)

    def plan(self, batch: Batch) -> BatchPlan:
        """Return the method and the memory of a batch."""
        plan = BatchPlan()
        library.check(self.library.qfleet_plan_batch(self.handle, byref(batch), byref(plan)))
        return plan

    def call(
        self, function: Callable[..., int], batch: Batch, *operands: np.ndarray | int | None
    ) -> None:
        """Call a function of the core for a batch.

        Args:
            function: Of `library`.
            batch: The examples.
            operands: Further arguments. An array is passed as its address and its number of
                reals, None as no array.

        Raises:
            ArgumentError: An array has the wrong size, or a value is not finite.
            MemoryLimitError: There is not enough memory.
        """
        fields: list[int | None] = []
        for operand in operands:
            if isinstance(operand, int):
                fields.append(operand)
            else:
                fields += _buffer(operand)
        library.check(function(self.handle, byref(batch), *fields))

    def gradients(
        self,
        function: Callable[..., int],
        batch: Batch,
        *operands: np.ndarray | int | None,
        per_example: bool = True,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Call a function of the core whose last arguments are gradients by the exponents.

        Args:
            function: As for `call`.
            batch: As for `call`.
            operands: The arguments before the gradients.
            per_example: False if gradients by per-example exponents are not wanted.

        Returns:
            [E] and [B, F] float64; the second is None if it is not wanted.

        Raises:
            ArgumentError: As for `call`.
            MemoryLimitError: As for `call`.
        """
        by_shared = np.empty(self.info.shared)
        by_example = np.empty((batch.size, self.info.per_example)) if per_example else None
        self.call(function, batch, *operands, by_shared, by_example)
        return by_shared, by_example


@dataclass(frozen=True)
class InitialStates:
    """The states at which the examples of a call start.

    Attributes:
        states: [B, 2**N] of the program's complex dtype, contiguous, of norm 1; or density matrices
            [B, 2**N, 2**N] for a program that evolves these.
        gradients: A similar array that receives dL/dRe + i dL/dIm; None if it is not wanted.
    """

    states: np.ndarray
    gradients: np.ndarray | None = None

    @classmethod
    def of(cls, states: np.ndarray | None, *, gradients: bool) -> "InitialStates | None":
        """Return states with an array for gradients by them, if wanted; None without states."""
        if states is None:
            return None
        return cls(states, np.empty_like(states) if gradients else None)


def make_batch(
    shared: np.ndarray,
    per_example: np.ndarray,
    memory_limit: int,
    allow_subspace: bool,
    initial: InitialStates | None = None,
    bit_order: np.ndarray | None = None,
) -> Batch:
    """Return the examples of a call.

    Args:
        shared: [E] exponents.
        per_example: [B, F] exponents.
        memory_limit: Most bytes of kept states.
        allow_subspace: As for `ExponentProgram.expectation`.
        initial: Of a program that takes states.
        bit_order: [N] int64: the bit in the index of `initial` for each bit of the program's.
    """
    shared = np.ascontiguousarray(shared, np.float64)
    per_example = np.ascontiguousarray(per_example, np.float64)
    batch = Batch(
        *_buffer(shared),
        *_buffer(per_example),
        len(per_example),
        memory_limit,
        allow_subspace,
        True,  # check_finite
    )
    if initial is not None:
        batch.initial_states, batch.initial_state_count = _buffer(initial.states)
        batch.initial_order, batch.initial_order_count = _buffer(bit_order)
        batch.initial_gradients, batch.initial_gradient_count = _buffer(initial.gradients)
    batch.arrays = (shared, per_example, initial)  # they live as long as the batch
    return batch


def kept_states_array(size: int, dtype: np.dtype) -> np.ndarray:
    """Return an array for kept states, at an aligned address.

    The core writes all of it but the gap for the alignment, which is then before the last numbers.
    It is zeroed, so that equal states are equal bytes.

    Args:
        size: Number of reals.
        dtype: Of the reals.
    """
    gap = _ALIGNMENT_BYTES // dtype.itemsize
    array = np.empty(size + gap, dtype)
    start = -address(array) % _ALIGNMENT_BYTES // dtype.itemsize
    kept = array[start : start + size]
    kept[-gap - _TRAILER_REALS :] = 0
    return kept


def _buffer(array: np.ndarray | None) -> tuple[int | None, int]:
    """Return the address and the number of reals of a contiguous array; null and 0 for None."""
    if array is None:
        return None, 0
    return address(array), array.size * (2 if array.dtype.kind == "c" else 1)
