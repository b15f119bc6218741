"""Circuits as PyTorch modules."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import cirq
import torch
from torch import Tensor, nn

from qfleet.argument_checks import function, optional
from qfleet.compiler.choose_method import Method
from qfleet.compiler.circuit.plain_operations import bind
from qfleet.compiler.circuit.sampling import SHOTS
from qfleet.engine.arguments import checked_observables, required_observables
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.errors import ArgumentError
from qfleet.torch import functional

_COMPLEX = {torch.float32: "complex64", torch.float64: "complex128"}

Initializer = Callable[[Tensor], object]
_INITIALIZER = optional(function(1, "a tensor, which it fills"))


class CircuitModule(nn.Module):
    """A circuit in a PyTorch model, with trained angles of its own. Abstract.

    It can be copied, pickled (for spawned processes, too) and saved by its state_dict, which holds
    the names of the angles, too: load_state_dict raises ArgumentError for angles of other names or
    of another order. `to(torch.float64)` compiles it again. `to("cuda")` moves the angles only: a
    call copies its tensors to the host's memory, and the result back.

    Args:
        circuit: Any Cirq circuit of unitary gates. Every symbol that is not an input is trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        parameters: Names of the trained symbols, in the order of `angles`; sorted by name unless
            given.
        initializer: Fills the tensor of angles in place, such as torch.nn.init.zeros_; uniform in
            [0, 2 pi) unless given.
        dtype: torch.float32 simulates in complex64, torch.float64 in complex128.
        initial_states: True for a module that takes a state per example after the inputs.
        method: How the circuit is evolved; see `qfleet.compile`. Mixed initial states, [..., 2**N,
            2**N], need "density_matrix", which circuits with noise have.

    Attributes:
        angles: The trained parameter [P], in the unit of the symbols.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: The circuit, its symbols or the observables are not supported.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Iterable[str] = (),
        *,
        observables: Iterable[cirq.PauliSum | cirq.PauliString],
        parameters: Iterable[str] | None = None,
        initializer: Initializer | None = None,
        dtype: torch.dtype = torch.float32,
        initial_states: bool = False,
        method: Method = "auto",
    ) -> None:
        super().__init__()
        _require_supported(dtype)
        self.observables = checked_observables(observables)
        self.compiled = compile_circuit(
            *(circuit, inputs, parameters, self.observables),
            dtype=_COMPLEX[dtype],
            initial_states=initial_states,
            method=method,
        )
        self.method = method
        self.circuit = circuit.unfreeze()  # a copy, since the caller may append gates
        self.inputs, self.parameter_names = self.compiled.inputs, self.compiled.parameters
        self.initializer = _INITIALIZER(initializer, "initializer")
        self.angles = nn.Parameter(torch.empty(len(self.parameter_names), dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the trained angles again."""
        with torch.no_grad():
            if self.initializer is None:
                self.angles.uniform_(0.0, 2 * torch.pi)
                return
            self.angles.fill_(torch.nan)  # what is not filled is found below
            self.initializer(self.angles)
            if not self.angles.isfinite().all():
                raise ArgumentError(
                    "initializer left angles that are not finite: pass a function that fills the"
                    " tensor in place, such as torch.nn.init.zeros_"
                )

    def bound_circuit(self) -> cirq.AbstractCircuit:
        """Return the circuit with its trained angles as numbers; the inputs stay symbols."""
        values = dict(zip(self.parameter_names, self.angles.tolist(), strict=True))
        return bind(self.circuit, values)

    def describe(self, batch: int | None = None) -> str:
        """Describe the compiled circuit and the engine's plan for a batch."""
        return self.compiled.describe(batch)

    def get_extra_state(self) -> Tensor:
        """Return the names of the angles for the state_dict: bytes of a JSON list, uint8."""
        names = json.dumps(self.parameter_names).encode()
        return torch.frombuffer(bytearray(names), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Do nothing: the names are compared before the angles are copied."""

    def _load_from_state_dict(
        self, state_dict: Mapping[str, object], prefix: str, *more: object
    ) -> None:
        if f"{prefix}angles" in state_dict:
            found = state_dict.get(f"{prefix}_extra_state")
            if found is None:
                raise ArgumentError(
                    f"state_dict has no names for {prefix}angles, so their order is unknown: save"
                    " it with this version of qfleet, or copy the tensor to the module's angles"
                )
            if not isinstance(found, Tensor) or not torch.equal(
                found.cpu(), self.get_extra_state()
            ):
                raise ArgumentError(
                    f"state_dict has {prefix}angles of other names or in another order than"
                    f" {', '.join(self.parameter_names)[:200]}: load it into a module with the"
                    " same parameters"
                )
        super()._load_from_state_dict(state_dict, prefix, *more)

    def __getstate__(self) -> dict[str, object]:
        # Cirq's sums can't be pickled.
        return self.__dict__ | {"observables": cirq.to_json(list(self.observables))}

    def __setstate__(self, state: dict[str, object]) -> None:
        observables = cirq.read_json(json_text=state["observables"])
        super().__setstate__(state | {"observables": tuple(observables)})

    def extra_repr(self) -> str:
        """Return the circuit's sizes for the representation of the model."""
        return (
            f"qubits={len(self.compiled.qubits)}, inputs={len(self.inputs)},"
            f" angles={len(self.parameter_names)}, observables={len(self.observables)}"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "CircuitModule":
        """Compile the circuit again if `to`, `double` or the like change the dtype."""
        _require_supported(fn(self.angles.detach()[:0]).dtype)
        super()._apply(fn, recurse)
        name = _COMPLEX[self.angles.dtype]
        if name != self.compiled.dtype.name:
            self.compiled = compile_circuit(
                *(self.circuit, self.inputs, self.parameter_names, self.observables),
                dtype=name,
                initial_states=self.compiled.takes_states,
                method=self.method,
            )
        return self


@final
class Expectation(CircuitModule):
    """Expectation values of a circuit with trained angles: [..., inputs] -> [..., observables].

    Twice differentiable by the inputs and by `angles`.

    Args:
        circuit: Any Cirq circuit of unitary gates and noise channels. Its symbols are inputs or
            trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: PauliSums or PauliStrings with real coefficients.
        options: `parameters`, `initializer`, `dtype`, `initial_states` and `method`; see
            CircuitModule.

    Examples:
        >>> import cirq, sympy, torch
        >>> from qfleet.torch import Expectation
        >>> qubit = cirq.LineQubit(0)
        >>> x, p = sympy.symbols("x p")
        >>> circuit = cirq.Circuit(cirq.rx(x).on(qubit), cirq.ry(p).on(qubit))
        >>> module = Expectation(circuit, ["x"], [cirq.Z(qubit)], initializer=torch.nn.init.zeros_)
        >>> module(torch.tensor([[0.0], [torch.pi]])).detach().round(decimals=3).tolist()
        [[1.0], [-1.0]]
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Iterable[str],
        observables: Iterable[cirq.PauliSum | cirq.PauliString],
        **options: Any,
    ) -> None:
        sums = required_observables(observables)
        super().__init__(circuit, inputs, observables=sums, **options)

    def forward(self, inputs: Tensor | None, initial_states: Tensor | None = None) -> Tensor:
        """Return values [..., K] for inputs [..., I] and initial states [..., 2**N]."""
        start = initial_states
        return functional.expectation(self.compiled, inputs, self.angles, initial_states=start)


@final
class State(CircuitModule):
    """State vectors of a circuit with trained angles: [..., inputs] -> amplitudes [..., 2**N].

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        options: `parameters`, `initializer`, `dtype` and `initial_states`; see CircuitModule.

    Examples:
        >>> import cirq, sympy, torch
        >>> from qfleet.torch import State
        >>> first, second = cirq.LineQubit.range(2)
        >>> circuit = cirq.Circuit(cirq.X(first) ** sympy.Symbol("x"), cirq.CNOT(first, second))
        >>> State(circuit, ["x"])(torch.tensor([[1.0]])).abs().round(decimals=3).tolist()
        [[0.0, 0.0, 0.0, 1.0]]
    """

    def __init__(
        self, circuit: cirq.AbstractCircuit, inputs: Iterable[str], **options: Any
    ) -> None:
        super().__init__(circuit, inputs, observables=(), **options)

    def forward(self, inputs: Tensor | None, initial_states: Tensor | None = None) -> Tensor:
        """Return amplitudes [..., 2**N], complex64 or complex128, for inputs [..., I]."""
        return functional.state(self.compiled, inputs, self.angles, initial_states=initial_states)


@final
class Samples(CircuitModule):
    """Measurements of all qubits: [..., inputs] -> bits uint8 [..., shots, N]. No gradient.

    Random numbers come from PyTorch's generator: torch.manual_seed makes them repeatable.

    Args:
        circuit: Any Cirq circuit of unitary gates. Its symbols are inputs or trained.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        shots: Measurements per example, at least 1.
        options: `parameters`, `initializer`, `dtype` and `initial_states`; see CircuitModule.

    Examples:
        >>> import cirq, torch
        >>> from qfleet.torch import Samples
        >>> circuit = cirq.Circuit(cirq.X(cirq.LineQubit(0)), cirq.I(cirq.LineQubit(1)))
        >>> Samples(circuit, [], shots=3)(torch.zeros(1, 0)).tolist()
        [[[1, 0], [1, 0], [1, 0]]]
    """

    def __init__(
        self, circuit: cirq.AbstractCircuit, inputs: Iterable[str], shots: int, **options: Any
    ) -> None:
        super().__init__(circuit, inputs, observables=(), **options)
        self.shots = SHOTS(shots, "shots")

    def forward(self, inputs: Tensor | None, initial_states: Tensor | None = None) -> Tensor:
        """Return bits uint8 [..., shots, N], the first qubit first, for inputs [..., I]."""
        options = {"shots": self.shots, "initial_states": initial_states}
        return functional.sample(self.compiled, inputs, self.angles, **options)


def _require_supported(dtype: torch.dtype) -> None:
    if dtype not in _COMPLEX:
        raise ArgumentError(f"dtype is {dtype}: use torch.float32 or torch.float64")
