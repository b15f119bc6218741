"""Batched, exact and differentiable simulation of quantum circuits.

    import qfleet

    compiled = qfleet.compile(circuit, inputs=["x"], observables=[cirq.Z(qubit)])
    values, gradients = compiled.value_and_gradient(inputs, parameters)

Public names, which are imported when they are first used:
    compile, CompiledCircuit, Gradients, Residuals     NumPy interface (engine)
    compile_batch, CircuitBatch, CircuitGroup          the same for different circuits in one call
    MitigatedCircuit                                   zero-noise extrapolation
    NoisyForward, SampledForward                       noisy values, noiseless gradients
    num_threads, set_num_threads                       threads of the engine
    LibraryError, ArgumentError, CircuitError, DeviceError, DeviceLostError,
    MemoryLimitError, ShardingError                    exceptions
    __version__

Subpackages:
    circuits     QCNN blocks, encoders, initial states, JSON and TensorFlow Quantum conversion
    devices      calibrations, mapping to a device, its noise
    compiler     circuit -> program: lowering, gate fusion, cache blocking, observables
    native       the C++ engine
    engine       the NumPy interface, memory limits and CPUs
    kernels      quantum kernels, also for scikit-learn
    pulses       gates from the controls of transmons and neutral atoms
    search       ansatz search: circuits of low energy and few CNOTs
    distributed  states that are sharded over processes: global qubits, stages
    tensorflow   simulators as TensorFlow functions, and layers of legacy Keras
    keras        layers of Keras 3, on TensorFlow, JAX and PyTorch
    torch        PyTorch: modules and differentiable functions
    jax          JAX: differentiable functions, without host callbacks but for pulses
    pennylane    PennyLane: the device qfleet.qubit
    cirq         Cirq: a simulator with Cirq's interfaces and adjoint gradients
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qfleet.engine.batch_compiler import compile_batch
    from qfleet.engine.circuit_batch import CircuitBatch, CircuitGroup
    from qfleet.engine.compiled_circuit import CompiledCircuit
    from qfleet.engine.compiled_circuit import compile_circuit as compile
    from qfleet.engine.gradients import Gradients, Residuals
    from qfleet.engine.library import num_threads, set_num_threads
    from qfleet.engine.noisy_forward import NoisyForward
    from qfleet.engine.sampled_forward import SampledForward
    from qfleet.engine.version import __version__
    from qfleet.errors import (
        ArgumentError,
        CircuitError,
        DeviceError,
        DeviceLostError,
        LibraryError,
        MemoryLimitError,
        ShardingError,
    )
    from qfleet.mitigation import MitigatedCircuit

# Public name -> module and name there. Cirq and sympy take seconds to import.
_LAZY_NAMES = {
    "ArgumentError": ("qfleet.errors", "ArgumentError"),
    "CircuitBatch": ("qfleet.engine.circuit_batch", "CircuitBatch"),
    "CircuitError": ("qfleet.errors", "CircuitError"),
    "CircuitGroup": ("qfleet.engine.circuit_batch", "CircuitGroup"),
    "CompiledCircuit": ("qfleet.engine.compiled_circuit", "CompiledCircuit"),
    "DeviceError": ("qfleet.errors", "DeviceError"),
    "DeviceLostError": ("qfleet.errors", "DeviceLostError"),
    "Gradients": ("qfleet.engine.gradients", "Gradients"),
    "LibraryError": ("qfleet.errors", "LibraryError"),
    "MemoryLimitError": ("qfleet.errors", "MemoryLimitError"),
    "MitigatedCircuit": ("qfleet.mitigation", "MitigatedCircuit"),
    "NoisyForward": ("qfleet.engine.noisy_forward", "NoisyForward"),
    "Residuals": ("qfleet.engine.gradients", "Residuals"),
    "SampledForward": ("qfleet.engine.sampled_forward", "SampledForward"),
    "ShardingError": ("qfleet.errors", "ShardingError"),
    "__version__": ("qfleet.engine.version", "__version__"),
    "compile": ("qfleet.engine.compiled_circuit", "compile_circuit"),
    "compile_batch": ("qfleet.engine.batch_compiler", "compile_batch"),
    "num_threads": ("qfleet.engine.library", "num_threads"),
    "set_num_threads": ("qfleet.engine.library", "set_num_threads"),
}

__all__ = [
    "ArgumentError",
    "CircuitBatch",
    "CircuitError",
    "CircuitGroup",
    "CompiledCircuit",
    "DeviceError",
    "DeviceLostError",
    "Gradients",
    "LibraryError",
    "MemoryLimitError",
    "MitigatedCircuit",
    "NoisyForward",
    "Residuals",
    "SampledForward",
    "ShardingError",
    "__version__",
    "compile",
    "compile_batch",
    "num_threads",
    "set_num_threads",
]


def __getattr__(name: str) -> object:
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module 'qfleet' has no attribute {name!r}")
    module, attribute = _LAZY_NAMES[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_NAMES})
