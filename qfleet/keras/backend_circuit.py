"""Compiled circuits as functions of the tensors of Keras's backend."""

import abc
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import cirq
import keras

from qfleet.compiler.choose_method import Method, compile_circuit_by
from qfleet.compiler.circuit.sampling import Sampling
from qfleet.engine import devices
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError, LibraryError

if TYPE_CHECKING:
    from qfleet.tensorflow.simulator import Simulator

Tensor = Any
"""A tensor of Keras's backend."""

BACKENDS = ("tensorflow", "jax", "torch")
Dtype = Literal["complex64", "complex128"]


class CircuitSource(NamedTuple):
    """A circuit with its symbols, and how it is computed.

    Attributes:
        circuit: The circuit.
        inputs: Names of the symbols with a value per example.
        parameters: Names of the symbols with a value per batch.
        observables: Observables; none for the state.
        dtype: Of the state.
        method: As for `qfleet.compile`.
        sampling: Trajectories and shots.
        initial_states: True for a state per example.
    """

    circuit: cirq.AbstractCircuit
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    observables: Sequence[cirq.PauliSum]
    dtype: Dtype
    method: Method
    sampling: Sampling
    initial_states: bool


class BackendCircuit(abc.ABC):
    """A compiled circuit, as functions of tensors [B, inputs] and [parameters]. Abstract.

    Further tensors are initial states [B, 2**N], or density matrices [B, 2**N, 2**N].
    """

    @abc.abstractmethod
    def expectation(self, inputs: Tensor, parameters: Tensor, *states: Tensor) -> Tensor:
        """Return expectation values [B, K], differentiable by all tensors."""

    @abc.abstractmethod
    def state(self, inputs: Tensor, parameters: Tensor, *states: Tensor) -> Tensor:
        """Return amplitudes [B, 2**N], differentiable by all tensors."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Describe the compiled circuit as text."""


def build_circuit(source: CircuitSource) -> BackendCircuit:
    """Compile a circuit for Keras's backend.

    Args:
        source: The circuit.

    Raises:
        LibraryError: Keras has another backend than TensorFlow, JAX and PyTorch.
        ArgumentError: JAX computes in 32 bits, and the circuit in 64.
        CircuitError: The circuit, its symbols or the observables are not supported.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _TensorFlowCircuit(source)
    if backend == "jax":
        from qfleet import jax

        _require_precision(source.dtype)
        return _AdapterCircuit(source, jax)
    if backend == "torch":
        from qfleet import torch

        return _TorchCircuit(source, torch)
    raise LibraryError(
        f"Keras has the backend {backend}, which has no circuits: set KERAS_BACKEND to"
        f" {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]} before Keras is imported"
    )


def _require_precision(dtype: Dtype) -> None:
    from jax import config

    if dtype == "complex128" and not config.jax_enable_x64:
        raise ArgumentError(
            "dtype is float64, but JAX computes in 32 bits: use float32, or set"
            ' jax.config.update("jax_enable_x64", True) before the model is made'
        )


@final
class _TensorFlowCircuit(BackendCircuit):
    """The simulator of qfleet.tensorflow, without the layers of legacy Keras."""

    def __init__(self, source: CircuitSource) -> None:
        from qfleet.tensorflow.backends import build_simulator

        self.simulator: Simulator = build_simulator(
            *source[:4],
            dtype=source.dtype,
            method=source.method,
            sampling=source.sampling,
            initial_states=source.initial_states,
        )

    def expectation(self, inputs: Tensor, parameters: Tensor, *states: Tensor) -> Tensor:
        return self.simulator.expectation(inputs, keras.ops.convert_to_tensor(parameters), *states)

    def state(self, inputs: Tensor, parameters: Tensor, *states: Tensor) -> Tensor:
        return self.simulator.state(inputs, keras.ops.convert_to_tensor(parameters), *states)

    def describe(self) -> str:
        return self.simulator.describe()


class _AdapterCircuit(BackendCircuit):
    """A compiled circuit, and the functions of qfleet.jax or qfleet.torch."""

    def __init__(self, source: CircuitSource, adapter: ModuleType) -> None:
        program = compile_circuit_by(
            source.method,
            *source[:4],
            takes_states=source.initial_states,
            sampling=source.sampling,
        )
        self.compiled = CompiledCircuit(program, source.dtype, str(devices.resolve(None)))
        self._adapter = adapter

    def expectation(self, inputs: Tensor, parameters: Tensor, *states: Tensor) -> Tensor:
        return self._call("expectation", inputs, parameters, states)

    def state(self, inputs: Tensor, parameters: Tensor, *states: Tensor) -> Tensor:
        return self._call("state", inputs, parameters, states)

    def _call(
        self, function: str, inputs: Tensor, parameters: Tensor, states: Sequence[Tensor]
    ) -> Tensor:
        start = states[0] if states else None
        call = getattr(self._adapter, function)
        return call(self.compiled, inputs, parameters, initial_states=start)

    def describe(self) -> str:
        return self.compiled.describe()


@final
class _TorchCircuit(_AdapterCircuit):
    """A circuit that gives shapes to Keras, and refuses torch.export.

    Programs are numbers, valid in one process.
    """

    def _call(
        self, function: str, inputs: Tensor, parameters: Tensor, states: Sequence[Tensor]
    ) -> Tensor:
        from torch.compiler import is_exporting

        if inputs.is_meta:  # of `fit`, whose tensors of ones are no states
            size, dtype = self.compiled.readouts, inputs.dtype
            if function == "state":
                size, dtype = 1 << len(self.compiled.qubits), dtype.to_complex()
            return inputs.new_empty((len(inputs), size), dtype=dtype)
        if is_exporting():
            raise LibraryError(
                "circuits can't be exported from PyTorch: save the model as a .keras file, and"
                " export it with KERAS_BACKEND=tensorflow"
            )
        return super()._call(function, inputs, parameters, states)
