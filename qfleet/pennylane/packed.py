"""A whole circuit as one PennyLane operation and one measurement.

PennyLane copies every operation of a tape several times per step. The device's last transform
therefore stacks all angles into two arrays, within the user's array library, and replaces the tape
by one with a single operation. The device's core is called once per tape, whatever its batch.
"""

from dataclasses import dataclass

import numpy as np
import pennylane as qml
from pennylane.measurements import MeasurementProcess
from pennylane.operation import Operation
from pennylane.tape import QuantumScript
from pennylane.typing import TensorLike
from pennylane.wires import Wires

from qfleet.pennylane import interfaces
from qfleet.pennylane.circuit_program import CircuitProgram, States


@dataclass
class Packed:
    """The content of a packed operation besides its angles. Copies of the operation share it.

    Attributes:
        program: The program.
        batch: Size of the tape's own batch; None without one.
        roles: Which of "parameters", "inputs" and "states" the operation's data are.
        angles: The operation's data as the tape had them, which PennyLane converts to NumPy.
        batched_states: If the initial states have the tape's batch.
        states: The states of the last forward pass, for the gradient.
    """

    program: CircuitProgram
    batch: int | None
    roles: tuple[str, ...]
    angles: tuple[TensorLike, ...] = ()
    batched_states: bool = False
    states: States | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> "Packed":
        return self

    def __repr__(self) -> str:
        return f"<program {id(self.program)}>"


class PackedCircuit(Operation):
    """All operations of a tape.

    Its data are the stacked angles [P], and [I] or [B, I]; and initial states [2**N] or [B, 2**N].
    """

    num_wires = None
    grad_method = None

    def __init__(self, *angles: TensorLike, wires: Wires, packed: Packed) -> None:
        self._hyperparameters = {"packed": packed}
        super().__init__(*angles, wires=wires)

    @property
    def num_params(self) -> int:
        """Number of arrays."""
        return len(self.hyperparameters["packed"].roles)

    @property
    def ndim_params(self) -> tuple[int, ...]:
        """Dimensions of the arrays without a batch."""
        return (1,) * self.num_params

    @property
    def packed(self) -> Packed:
        """The program and its states."""
        packed: Packed = self.hyperparameters["packed"]
        return packed

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the parameters [..., P] and the inputs [..., I] as float64 arrays."""
        found = {
            role: interfaces.real_numbers(_to_numpy(value))
            for role, value in zip(self.packed.roles, self.data, strict=True)
            if role != "states"
        }
        return found.get("parameters", _EMPTY), found.get("inputs", _EMPTY)

    def initial_states(self) -> np.ndarray | None:
        """Return the initial states [..., 2**N]; None if the program has an own one."""
        if "states" not in self.packed.roles:
            return None
        return np.asarray(_to_numpy(self.data[-1]))


_EMPTY = np.zeros(0)


def _to_numpy(value: TensorLike) -> TensorLike:
    if type(value) is np.ndarray:
        return value
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    return qml.math.unwrap([value])[0]


class PackedResult(MeasurementProcess):
    """All results of a packed tape: values [K], or the state [2**N]."""

    _shortname = "qfleet"

    def __init__(self, program: CircuitProgram, wires: Wires) -> None:
        self.program = program
        super().__init__(wires=wires if len(wires) else None)

    @property
    def numeric_type(self) -> type:
        """float, or complex for the state."""
        return complex if self.program.is_state else float

    def shape(self, shots: int | None = None, num_device_wires: int = 0) -> tuple[int, ...]:
        """Return the shape of an unbatched result."""
        return (self.program.result_size,)


def packed_of(tape: QuantumScript) -> PackedCircuit | None:
    """Return the operation of a packed tape; None for any other tape.

    Args:
        tape: Any tape.
    """
    operations = tape.operations
    if len(operations) == 1 and isinstance(operations[0], PackedCircuit):
        return operations[0]
    return None
