"""Predicted times of a step on a GPU and on the CPU: those that the device `auto` compares.

A step is the values of a batch and their gradients by the parameters. Each time is a fixed cost of
the call, a cost of each example on the host, and operations divided by a rate:

    GPU    call + call_qubit * N + batch * (input * N + operations / rate)
    CPU    call + batch * (example + operations / (rate * threads ** 0.7))

The constants of the GPU are fitted to benchmarks/gpu_h100.json: one NVIDIA H100, complex64. All
measured steps are within a factor of 1.5. Steps of the CPU are within a factor of 2 on two cores of
an AMD EPYC, and of 3 on 2 and 16 threads of the GPU's machine. The rate in complex128 is half of
that in complex64, by the widths of both processors; it was not measured.
"""

import math

GPU_CALL_SECONDS, GPU_CALL_SECONDS_PER_QUBIT = 70e-6, 13e-6
GPU_INPUT_SECONDS = 12e-9
"""Of one example and qubit: its exponents are computed and copied by the host."""
GPU_SHARED_RATE, GPU_GLOBAL_RATE = 16e12, 8.5e12
"""Operations per second where states stay in shared memory, and where they do not."""
SHARED_QUBITS = {8: 13, 16: 12}
"""Bytes per amplitude -> width of the largest state in shared memory."""

CPU_CALL_SECONDS, CPU_EXAMPLE_SECONDS = 60e-6, 1.5e-6
CPU_RATE, CPU_SCALING = 60e9, 0.7
"""Operations per second of one thread, and the exponent by which threads multiply it."""

_SINGLE_BYTES = 8


def gpu_seconds(qubits: int, operations: float, batch: int, amplitude_bytes: int = 8) -> float:
    """Predict the time of a step on a GPU, in seconds.

    Args:
        qubits: Width of the states.
        operations: Floating-point operations of an example, of both passes, as
            `qfleet.compiler.state.cost.pass_costs` counts them.
        batch: Examples.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
    """
    shared = qubits <= SHARED_QUBITS[amplitude_bytes]
    rate = (GPU_SHARED_RATE if shared else GPU_GLOBAL_RATE) * _SINGLE_BYTES / amplitude_bytes
    example = GPU_INPUT_SECONDS * qubits + operations / rate
    return GPU_CALL_SECONDS + GPU_CALL_SECONDS_PER_QUBIT * qubits + batch * example


def batch_for_speedup(
    qubits: int,
    operations: float,
    devices: int,
    speedup: float,
    *,
    undivided: float,
    exchange: float,
) -> int:
    """Return the smallest batch whose step is faster by a factor on several GPUs than on one.

    A step of one GPU takes `undivided` + call + batch * example. On several GPUs, the last term is
    divided by their number, and the all-reduce is added.

    Args:
        qubits: As for `gpu_seconds`.
        operations: As for `gpu_seconds`.
        devices: Number of GPUs.
        speedup: The factor, at least 1 and less than `devices`.
        undivided: Seconds of a step that do not depend on the batch, without the call.
        exchange: Seconds of an all-reduce.
    """
    call = gpu_seconds(qubits, operations, 0)
    example = gpu_seconds(qubits, operations, 1) - call
    constant = (speedup - 1) * (undivided + call) + speedup * exchange
    return math.ceil(constant / (example * (1 - speedup / devices)))


def cpu_seconds(operations: float, batch: int, threads: int, amplitude_bytes: int = 8) -> float:
    """Predict the time of a step on the CPU, in seconds.

    Args:
        operations: As for `gpu_seconds`.
        batch: Examples.
        threads: Threads of the engine.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
    """
    rate = CPU_RATE * math.pow(threads, CPU_SCALING) * _SINGLE_BYTES / amplitude_bytes
    return CPU_CALL_SECONDS + batch * (CPU_EXAMPLE_SECONDS + operations / rate)
