"""The answers that every kind of program gives to the engine, the layers and the planner.

A kind of program is a subclass of `AnyProgram`, and an entry of `methods.METHODS` that makes it.
"""

import abc
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.sampling import EXACT, Sampling

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

Item = Factor | NoiseChannel


@dataclass(frozen=True)
class Source:
    """A circuit to compile: a product of factors and channels.

    Attributes:
        items: First applied first.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.
        readouts: Observables with real coefficients; none for the state.
        qubits: All qubits, in order.
        initial_state: State before the first item; |0...0> if None.
        takes_states: If the caller passes a state for each example instead.
        sampling: Trajectories, shots and their seed.
    """

    items: Sequence[Item]
    inputs: Sequence[str]
    parameters: Sequence[str]
    readouts: Sequence[cirq.PauliSum]
    qubits: Sequence[cirq.Qid]
    initial_state: np.ndarray | None = None
    takes_states: bool = False
    sampling: Sampling = EXACT

    @property
    def factors(self) -> list[Factor]:
        """The items that are no channels."""
        return [item for item in self.items if isinstance(item, Factor)]

    @property
    def has_noise(self) -> bool:
        """True if an item is a channel."""
        return any(isinstance(item, NoiseChannel) for item in self.items)

    @property
    def from_zero(self) -> bool:
        """True if the state before the first item is |0...0>."""
        return self.initial_state is None and not self.takes_states


@dataclass(frozen=True)
class SerializedProgram:
    """A program in the form that the engine takes.

    Attributes:
        serialized: The bytes that the engine reads.
        shared: E expressions of trained symbols only: exponents that the batch shares.
        per_example: F expressions that contain a data symbol: exponents of each example.
        bit_order: [N] bit i of the engine's index of a state is this bit of Cirq's index, where the
            first qubit is the highest bit; () for programs that neither take nor return states.
    """

    serialized: bytes
    shared: tuple[sympy.Expr, ...]
    per_example: tuple[sympy.Expr, ...]
    bit_order: tuple[int, ...]


@dataclass(frozen=True)
class ProgramCost:
    """Work and memory of an example, for plans.

    Attributes:
        forward: Floating-point operations of a forward pass.
        backward: Floating-point operations of its gradient.
        state_bytes: Bytes of what an example needs in memory in complex64.
        batch_work: Returns, for a number of threads, the work of 1, 2, ... examples in units of one
            example on one thread, until all threads and SIMD lanes are used.
        repeats: If most of the work of an example is also work of others in its batch.
    """

    forward: float
    backward: float
    state_bytes: int
    batch_work: Callable[[int], list[float]]
    repeats: bool = False


@dataclass(frozen=True)
class Contraction:
    """The contraction of an example.

    Attributes:
        width: Logarithm (base 2) of the elements of the largest tensor.
        operations: Complex multiplications.
        elements: Elements of all tensors of the largest network.
    """

    width: int
    operations: int
    elements: int

    def bytes(self, machine: "Machine") -> int:
        """Return the bytes of a gradient: all tensors and their derivatives, in each thread."""
        return machine.threads * 2 * self.elements * 2 * machine.real_bytes * machine.lanes

    def __str__(self) -> str:
        return (
            f"tensor networks of width {self.width}, with {self.operations:,} complex"
            " multiplications per example"
        )


@dataclass(frozen=True)
class AnyProgram(abc.ABC):
    """A compiled circuit. Abstract.

    Attributes:
        inputs: Names of the data symbols, one value per example.
        parameters: Names of the trained symbols, shared by the batch.
        qubits: The qubits that are simulated, in Cirq's order.
        gates: Number of gates in the circuit, and number of factors left to simulate.
        subspace: If a batch may be computed from few states that span all of its states.
        method: Name of the method in `CompiledCircuit.method`.
        kind: Name of the things that are evolved or contracted, in the plural.
        has_states: If it evolves state vectors, which can be read, sampled and sharded.
        has_kernels: If a GPU can evolve it; only state vectors from states of the caller.
        takes_states: If each example starts at a state that the caller passes.
        checks_gradients: If a gradient needs memory that the engine does not check.
        has_hvp: If the engine has Hessian-vector products.
        hessian_advice: The way to second derivatives, where layers refuse these.
    """

    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    qubits: tuple[cirq.Qid, ...]
    gates: tuple[int, int]

    subspace = True
    method: ClassVar[str]
    kind: ClassVar[str]
    has_states: ClassVar[bool] = False
    has_kernels: ClassVar[bool] = False
    takes_states = False
    checks_gradients: ClassVar[bool] = False
    has_hvp: ClassVar[bool] = True
    hessian_advice: ClassVar[str] = ""

    @property
    @abc.abstractmethod
    def readouts(self) -> int:
        """K, the number of observables; 0 if the result is the state."""

    @abc.abstractmethod
    def with_inputs(self) -> Self:
        """Return the program with its parameters as further inputs, after the others."""

    @abc.abstractmethod
    def serialized(self, dtype: str) -> SerializedProgram:
        """Return the program in the form that the engine takes.

        Args:
            dtype: Of the states, "complex64" or "complex128".
        """

    @abc.abstractmethod
    def require_memory(self, machine: "Machine", states: int, processes: int = 1) -> None:
        """Check that an example fits into the free memory.

        Args:
            machine: The machine.
            states: States at a time: 1 for readouts, 2 for their gradient.
            processes: Processes on this machine that do the same.

        Raises:
            MemoryLimitError: The message states the needed and the free bytes.
        """

    @abc.abstractmethod
    def describe(self, machine: "Machine", batch: int, spanning: int | None = None) -> str:
        """Describe the program and its memory.

        Args:
            machine: The machine.
            batch: Number of examples.
            spanning: States that span the batch, 0 if these are not used; None if unknown.
        """

    @abc.abstractmethod
    def cost(self, machine: "Machine", angles: np.ndarray) -> ProgramCost:
        """Return the cost of an example.

        Args:
            machine: The machine.
            angles: [n, inputs] examples, for work that equal ones share.
        """

    def step_operations(self, dtype: str) -> float | None:
        """Return the floating-point operations of both passes of an example, for a prediction.

        Args:
            dtype: Of the states, "complex64" or "complex128".

        Returns:
            None if steps of this kind are not predicted.
        """
        return None

    @property
    def key(self) -> Hashable:
        """A value that is equal for programs of equal cost."""
        return self.method, len(self.qubits), self.readouts, str(self)

    @property
    def contraction(self) -> Contraction | None:
        """The contraction of an example, whose path was searched; None if states are evolved."""
        return None
