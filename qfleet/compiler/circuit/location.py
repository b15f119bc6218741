"""Operations in error messages."""

from dataclasses import dataclass
from typing import NoReturn

import cirq

from qfleet.compiler.circuit.synthesis import decompose_once
from qfleet.errors import CircuitError

MAX_ERROR_LENGTH = 200  # characters of an error of Cirq in another one
MAX_NAME_LENGTH = 80  # characters of a gate in an error message


@dataclass(frozen=True)
class Location:
    """The place of an operation that is lowered.

    Attributes:
        operation: The operation.
        moment: Its moment.
        qubit: For a phase; None in a circuit without qubits.
        allows_noise: If channels are allowed.
    """

    operation: cirq.Operation
    moment: int
    qubit: cirq.Qid | None
    allows_noise: bool

    def error(self, reason: str) -> CircuitError:
        """Return an error that names the operation."""
        return CircuitError(
            f"{describe_location(self.operation, self.moment)} cannot be simulated: {reason}"
        )

    def refuse(self, reason: str) -> NoReturn:
        """Refuse an operation that Cirq cannot decompose; its error, if there is one, follows."""
        try:
            decompose_once(self.operation)
        except Exception as error:
            raise self.error(f"{reason} ({describe_error(error)})") from error
        raise self.error(reason)


def describe_error(error: Exception) -> str:
    """Describe an error of Cirq, or of a class of the user, in one line."""
    text = " ".join(str(error).split())[:MAX_ERROR_LENGTH]
    is_plain = isinstance(error, ValueError | ArithmeticError) and text
    return text if is_plain else f"{type(error).__name__}: {text}".removesuffix(": ")


def describe_location(operation: cirq.Operation, moment: int) -> str:
    """Describe an operation for an error message: its gate, moment and qubits."""
    gate = operation.gate if operation.gate is not None else operation.untagged
    try:
        name = str(gate)
    except Exception:  # of the class of the gate
        name = ""
    if not name or "\n" in name or len(name) > MAX_NAME_LENGTH:
        name = type(gate).__name__
    qubits = ", ".join(str(qubit) for qubit in operation.qubits)
    return f"the gate {name} in moment {moment} on qubits {qubits}"
