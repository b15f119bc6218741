"""The device `auto`: the GPU where a step is predicted to be faster on it, else the CPU.

The choice depends on the machine, the circuit and the size of a batch alone. On a machine without
GPUs it reads the names of a folder, and neither loads a library nor asks a driver.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator
from dataclasses import dataclass

from qfleet.compiler.any_program import AnyProgram
from qfleet.engine import devices, gpus, library
from qfleet.engine.device_times import cpu_seconds, gpu_seconds
from qfleet.engine.devices import CPU, Device
from qfleet.errors import DeviceError, MemoryLimitError

AUTO_BATCH = 32
"""Examples that `auto` assumes of a circuit whose batches are not known."""

_BYTES = {"complex64": 8, "complex128": 16}


@dataclass(frozen=True)
class ExpectedStep:
    """A step of a circuit, as far as `auto` knows it.

    Attributes:
        examples: Examples of a process in one step.
        sharing: Processes that share a GPU, which computes for one after another.
    """

    examples: int = AUTO_BATCH
    sharing: int = 1


_step: contextvars.ContextVar[ExpectedStep | None] = contextvars.ContextVar("step", default=None)


@contextlib.contextmanager
def use_batch(examples: int, processes: int = 1) -> Iterator[None]:
    """Decide by this number of examples for circuits that are compiled meanwhile.

    Args:
        examples: Examples of a process in one step.
        processes: Processes on this machine that share its GPUs.
    """
    sharing = math.ceil(processes / max(1, gpus.gpu_count()))
    token = _step.set(ExpectedStep(examples, sharing))
    try:
        yield
    finally:
        _step.reset(token)


def choose(wanted: Device, program: AnyProgram, dtype: str, threads: int | None = None) -> Device:
    """Return the device of a program, and warn if it is the CPU because of the program's kind.

    Args:
        wanted: Returned as it is, unless it is `auto`.
        program: The compiled circuit.
        dtype: Of the states, "complex64" or "complex128".
        threads: Threads that would compute on the CPU; those of the library unless given.

    Returns:
        The wanted device; for `auto`, a GPU that works and has room for a state, if it is faster.
        Only programs of state vectors without states of the caller are predicted.
    """
    if not program.has_kernels or (program.takes_states and not program.has_states):
        states = " with initial states" * program.takes_states
        devices.warn_once(f"the method {program.method}{states}", wanted)
        return CPU
    if wanted.kind != "auto":
        return wanted
    is_predicted = gpus.may_use_gpu() and not program.takes_states
    operations = program.step_operations(dtype) if is_predicted else None
    if operations is None:
        return CPU
    step = _step.get() or ExpectedStep()
    return choose_by(wanted, len(program.qubits), operations, step, dtype, threads)


def choose_by(
    wanted: Device,
    qubits: int,
    operations: float,
    step: ExpectedStep,
    dtype: str = "complex64",
    threads: int | None = None,
) -> Device:
    """Return the device of a step; see `choose`.

    Args:
        wanted: As for `choose`.
        qubits: Width of the states.
        operations: Floating-point operations of an example, of both passes.
        step: Its examples, and the processes that share a GPU.
        dtype: As for `choose`.
        threads: As for `choose`.
    """
    if wanted.kind != "auto":
        return wanted
    if not gpus.may_use_gpu():
        return CPU
    size = _BYTES[dtype]
    on_cpu = cpu_seconds(operations, step.examples, threads or library.num_threads(), size)
    if step.sharing * gpu_seconds(qubits, operations, step.examples, size) >= on_cpu:
        return CPU
    gpu = Device("cuda", wanted.number)
    try:
        devices.require_memory(gpu, qubits, size)
        info = devices.info_of(gpu)
    except (DeviceError, MemoryLimitError):  # without a driver, or in use by another program
        return CPU
    return CPU if size == _BYTES["complex128"] and info.double_ratio > devices.FEW_UNITS else gpu
