"""PyTorch: circuits as modules and as differentiable functions of tensors.

    Expectation    module: expectation values of a circuit with trained angles
    State          module: its state vector
    Samples        module: measured bit strings
    QuantumConvolution             module: circuits on all patches of images
    expectation, state, sample     the same as functions of a compiled circuit (qfleet.compile)

They work under torch.compile, DistributedDataParallel and Lightning. Tensors may be on a GPU: they
are copied to the host's memory, and results back. The engine has threads of its own:
qfleet.set_num_threads, OMP_NUM_THREADS or QFLEET_NUM_THREADS.
"""

from qfleet.torch.convolution import QuantumConvolution
from qfleet.torch.functional import expectation, sample, state
from qfleet.torch.modules import CircuitModule, Expectation, Samples, State

__all__ = [
    "CircuitModule",
    "Expectation",
    "QuantumConvolution",
    "Samples",
    "State",
    "expectation",
    "sample",
    "state",
]
