"""The structure of a tape: what a compiled program depends on, and the values that it is fed with.

Two tapes with equal structure run the same program. The structure holds gates, wires, batched or
not, constant matrices and observables, but no angle. This module is the only code that visits every
operation at every step, so it avoids PennyLane's slower properties.
"""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.operation import Operator
from pennylane.ops import op_math
from pennylane.tape import QuantumScript
from pennylane.typing import TensorLike

from qfleet.errors import ArgumentError
from qfleet.pennylane import gates, interfaces

# Number of dimensions of a template's parameters without a batch; scalars otherwise.
_TENSORS = {
    qml.AngleEmbedding: 1,
    qml.BasicEntanglerLayers: 2,
    qml.StronglyEntanglingLayers: 3,
}
_PREPARATIONS = (qml.StatePrep, qml.AmplitudeEmbedding)
_PLAIN = frozenset(
    {*gates.FIXED, *gates.GENERATED, *gates.CONTROLLED, *gates.DECOMPOSED, qml.U2, qml.MultiRZ}
    | {qml.GlobalPhase}
) - set(_TENSORS)
CONSTANTS = (*gates.MATRICES, qml.BasisState, qml.BasisEmbedding, *_PREPARATIONS)
MAX_MATRIX_WIRES = gates.MATRIX_WIRES
NATIVE_GATES = (*_PLAIN, *_TENSORS, qml.PauliRot, qml.PCPhase, *gates.MATRICES)


@dataclass
class Structure:
    """The structure of a tape's operations, and their angles.

    Attributes:
        key: Hashable structure.
        angles: Parameters that are angles, each object once: scalars, or tensors of templates.
        batched: Whether each of them differs per example.
        shapes: Shape of each per example; None for scalars.
        places: Index into `angles` for each parameter of each operation.
        batch: Size of the batch; None without one.
        preparation: The first operation, if its states are no constant of the program.
    """

    key: list[object] = field(default_factory=list)
    angles: list[TensorLike] = field(default_factory=list)
    batched: list[bool] = field(default_factory=list)
    shapes: list[tuple[int, ...] | None] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    batch: int | None = None
    preparation: Operator | None = None
    _seen: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, angle: TensorLike, dimensions: int, op: Operator) -> None:
        """Add a parameter of an operation.

        Args:
            angle: The parameter.
            dimensions: Its dimensions without a batch.
            op: The operation, for an error message.

        Raises:
            ArgumentError: It is a list of differentiated numbers.
            ValueError: Its batch has another size than that of the operations before.
        """
        at = self._seen.get((id(angle), dimensions))
        if at is None:
            at = len(self.angles)
            # Numbers are often one object by chance, which must not change the structure.
            if type(angle) is not float:
                self._seen[id(angle), dimensions] = at
            if interfaces.is_list_of_trained(angle):
                raise ArgumentError(
                    f"{op.name} on wires {op.wires.tolist()} has a list of trained numbers: pass an"
                    " array, such as pennylane.numpy.stack of the list"
                )
            rank = getattr(angle, "ndim", 0)
            batched = rank > dimensions
            if batched:
                self._check_batch(angle.shape[0], op)
            else:
                batched = interfaces.mapped_over(angle)
            self.angles.append(angle)
            self.batched.append(batched)
            shape = tuple(angle.shape[rank - dimensions :]) if dimensions else None
            self.shapes.append(shape)
            self.key.append((batched, shape))
        self.places.append(at)
        self.key.append(at)

    def prepare(self, op: Operator) -> None:
        """Add a first operation that prepares states, one per example or one for all.

        Args:
            op: The operation.

        Raises:
            ValueError: As for `add`.
        """
        if op.batch_size is not None:
            self._check_batch(op.batch_size, op)
        self.preparation = op
        self.key += (type(op), op.wires.labels, op.batch_size is not None)

    @cached_property
    def frozen_key(self) -> tuple[object, ...]:
        """The key, when all operations are added."""
        return tuple(self.key)

    @property
    def sizes(self) -> list[int | None]:
        """Number of elements of each angle per example; None for scalars."""
        return [None if shape is None else math.prod(shape) for shape in self.shapes]

    def _check_batch(self, size: int, op: Operator) -> None:
        if self.batch is None:
            self.batch = int(size)
        elif self.batch != size:
            raise ValueError(
                f"{op.name} on wires {op.wires.tolist()} is broadcast over {size} examples, but"
                f" operations before it over {self.batch}: use one batch size per circuit"
            )


def read(tape: QuantumScript) -> Structure | None:
    """Return the structure of a tape's operations.

    Args:
        tape: Any tape.

    Returns:
        The structure; None if an operation must be decomposed.

    Raises:
        ValueError: The batch sizes of two operations differ. The message names the operation.
    """
    structure = Structure()
    key, add = structure.key, structure.add
    for index, op in enumerate(tape.operations):
        kind = type(op)
        if kind in _PLAIN:
            key.append(kind)
            key.append(op.wires.labels)
            for angle in op.data:
                add(angle, 0, op)
        elif index == 0 and _varies(op):
            structure.prepare(op)
        elif (rest := _describe(op, first=index == 0)) is not None:
            key.append(rest)
            key.append(op.wires.labels)
            for angle in angles_of(op):
                add(angle, _TENSORS.get(kind, 0), op)
        else:
            return None
    return structure


def is_native(op: Operator) -> bool:
    """Return True if an operation needs no decomposition. A state preparation always does.

    Args:
        op: The operation.
    """
    return _describe(op, first=False) is not None


def is_native_preparation(op: Operator) -> bool:
    """Return True if an operation at the beginning of a tape is an initial state of a program.

    Args:
        op: The operation.
    """
    is_preparation = isinstance(op, _PREPARATIONS)
    return is_preparation and (_varies(op) or _describe(op, first=True) is not None)


def _varies(op: Operator) -> bool:
    """Return True if an operation prepares states that each call passes to the program."""
    if not isinstance(op, _PREPARATIONS) or hasattr(op.data[0], "toarray"):  # a sparse matrix
        return False
    return op.batch_size is not None or not interfaces.is_constant(op.data[0])


def angles_of(op: Operator) -> tuple[TensorLike, ...]:
    """Return the parameters of a native operation that are angles.

    Args:
        op: The operation.
    """
    while isinstance(op, op_math.SymbolicOp) and not isinstance(op, op_math.Pow):
        op = op.base
    return () if isinstance(op, CONSTANTS) else tuple(op.data)


def _describe(op: Operator, *, first: bool) -> object:
    """Return what a program depends on, besides wires and angles; None for a decomposition."""
    kind = type(op)
    if kind in _PLAIN:
        return kind
    if kind in _TENSORS:
        return kind, tuple(op.hyperparameters.values())
    if kind is qml.PauliRot:
        return kind, op.hyperparameters["pauli_word"]
    if kind is qml.PCPhase and len(op.wires) <= MAX_MATRIX_WIRES:
        return kind, int(op.hyperparameters["dimension"][0])
    if isinstance(op, CONSTANTS):
        return _describe_constant(op, first=first)
    if isinstance(op, op_math.Adjoint):
        base = None if type(op.base) in _TENSORS else _describe(op.base, first=False)
        return None if base is None else (op_math.Adjoint, base)
    if isinstance(op, op_math.Controlled) and len(op.wires) <= MAX_MATRIX_WIRES:
        base = None if type(op.base) in _TENSORS else _describe(op.base, first=False)
        values = tuple(map(bool, op.control_values))
        return None if base is None else (op_math.Controlled, op.base.wires.labels, base, values)
    return None


def _describe_constant(op: Operator, *, first: bool) -> object:
    value = op.data[0]
    if hasattr(value, "toarray") or op.batch_size is not None:  # a sparse matrix, or a batch
        return None
    if not interfaces.is_constant(value):
        return None
    if isinstance(op, _PREPARATIONS):
        if not first:
            return None
    elif isinstance(op, gates.MATRICES) and len(op.wires) > MAX_MATRIX_WIRES:
        return None
    array = np.asarray(qml.math.to_numpy(value))
    return type(op), array.shape, array.dtype.str, array.tobytes()


def initial_state(op: Operator, wires: list[Hashable]) -> np.ndarray:
    """Return the [2**N] state that a native preparation prepares.

    Args:
        op: The first operation of a tape.
        wires: All N wires; the first is the most significant bit.
    """
    state = qml.math.to_numpy(op.state_vector(wire_order=wires))
    return np.asarray(state, np.complex128).reshape(-1)


def state_rows(op: Operator, wires: list[Hashable]) -> TensorLike:
    """Return the states [2**N], or [B, 2**N], that a preparation passes to a program.

    They are a NumPy array unless they are differentiated.

    Args:
        op: The first operation of a tape.
        wires: All N wires; the first is the most significant bit.
    """
    lead = () if op.batch_size is None else (op.batch_size,)
    states = qml.math.reshape(op.state_vector(wire_order=wires), (*lead, -1))
    return qml.math.to_numpy(states) if interfaces.is_constant(states) else states


def wires_of(tape: QuantumScript) -> Iterator[Any]:
    """Yield the wire labels of a tape, operations first, each once.

    Args:
        tape: Any tape.
    """
    seen = dict.fromkeys(wire for op in tape.operations for wire in op.wires.labels)
    seen.update(dict.fromkeys(wire for one in tape.measurements for wire in one.wires.labels))
    return iter(seen)
