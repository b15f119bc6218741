"""The device's last transform: from a native tape to a packed one."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias, TypeVar

import cachetools
import cirq
import numpy as np
import pennylane as qml
import sympy
from pennylane.devices.qubit.sampling import measure_with_samples
from pennylane.exceptions import DeviceError, DiagGatesUndefinedError
from pennylane.measurements import MeasurementProcess, Shots
from pennylane.operation import Operator
from pennylane.tape import QuantumScript
from pennylane.typing import Result, TensorLike
from pennylane.wires import Wires

from qfleet.pennylane import gates, interfaces, observables, structure
from qfleet.pennylane.circuit_program import CircuitProgram
from qfleet.pennylane.observables import Readouts
from qfleet.pennylane.packed import Packed, PackedCircuit, PackedResult
from qfleet.pennylane.structure import Structure

Angle: TypeAlias = sympy.Symbol | np.ndarray
"""A symbol, or the array of symbols of a tensor."""

CachedProgram = tuple[CircuitProgram, Wires, list[Hashable]]
"""A program, the wires of its tapes, and the same in the order of the bits of its states."""

ResultT = TypeVar("ResultT")

CACHED_PROGRAMS = 128  # of a device


class Packer:
    """Packs tapes, and caches the programs of their structures.

    Args:
        wires: Wires of the device; None for those of each tape.
        dtype: Of the states, "complex64" or "complex128".
    """

    def __init__(self, wires: Wires | None, dtype: str) -> None:
        self._wires = wires
        self._dtype = dtype
        self._validated = cachetools.LRUCache[Hashable, bool](CACHED_PROGRAMS)
        self._programs = cachetools.LRUCache[Hashable, CachedProgram](CACHED_PROGRAMS)

    def pack(self, tape: QuantumScript, found: Structure) -> tuple[QuantumScript, "Unpack"]:
        """Pack a tape.

        Args:
            tape: A tape of native operations, with measurements that the device supports.
            found: Its structure.

        Returns:
            The packed tape, and the function from its results to those of the tape.
        """
        readouts = None if tape.shots else observables.read(tape.measurements)
        positions = {} if readouts else self._positions(tape)
        key = (found.frozen_key, readouts.key if readouts else tuple(positions), readouts is None)
        cached = self._programs.get(key)
        if cached is None:
            cached = self._lower(tape, found, readouts, positions)
            self._programs[key] = cached
        program, wires, ordered = cached
        roles, data = _stack(found)
        preparation = found.preparation
        if preparation is not None:
            roles, data = (*roles, "states"), [*data, structure.state_rows(preparation, ordered)]
        has_rows = preparation is not None and preparation.batch_size is not None
        packed = Packed(program, found.batch, roles, tuple(data), batched_states=has_rows)
        with qml.QueuingManager.stop_recording():
            circuit = PackedCircuit(*data, wires=wires, packed=packed)
            result = PackedResult(program, wires)
        small = QuantumScript([circuit], [result], shots=tape.shots)
        return small, Unpack(tape.measurements, readouts, positions)

    def knows(self, tape: QuantumScript, found: Structure) -> bool:
        """Return True if a tape of this structure was validated before.

        Args:
            tape: A tape of native operations.
            found: Its structure.
        """
        return _validated_key(tape, found) in self._validated

    def validated(self, tape: QuantumScript, found: Structure) -> None:
        """Remember that a tape was validated and needs no other transform.

        Args:
            tape: As for `knows`.
            found: Its structure.
        """
        self._validated[_validated_key(tape, found)] = True

    def _positions(self, tape: QuantumScript) -> dict[Hashable, int]:
        """Return the position of each wire in the state: the device's order, or the tape's.

        Args:
            tape: The tape.
        """
        wires = list(structure.wires_of(tape))
        if self._wires is not None:
            ordered = sorted(wires, key=self._wires.index)
        elif (standard := tape._get_standard_wire_map()) is None:
            ordered = sorted(wires)
        else:
            ordered = sorted(wires, key=standard.__getitem__)
        return {wire: at for at, wire in enumerate(ordered)}

    def _lower(
        self,
        tape: QuantumScript,
        found: Structure,
        readouts: Readouts | None,
        positions: dict[Hashable, int],
    ) -> CachedProgram:
        wires = list(structure.wires_of(tape))
        order = positions or {wire: at for at, wire in enumerate(wires)}
        order = order or {0: 0}  # a global phase has no wire
        qubits = {wire: cirq.LineQubit(at) for wire, at in order.items()}
        names = _names(found)
        operations = list(tape.operations)
        by_position = sorted(order, key=order.__getitem__)
        initial_state, preparation = None, found.preparation
        if preparation is None and operations and structure.is_native_preparation(operations[0]):
            preparation = operations[0]
            initial_state = structure.initial_state(preparation, by_position)
        factors = [
            factor
            for op, data in _symbolic(operations, found, names)
            if op is not preparation
            for factor in gates.lower(op, data, qubits)
        ]
        flat = [
            (name, batched)
            for angle, batched in zip(names, found.batched, strict=True)
            for name in np.ravel(np.array(angle, object))
        ]
        program = CircuitProgram(
            factors,
            [str(name) for name, batched in flat if not batched],
            [str(name) for name, batched in flat if batched],
            None
            if readouts is None
            else list(observables.pauli_sums(readouts.observables, qubits)),
            qubits=sorted(qubits.values()),
            initial_state=initial_state,
            takes_states=found.preparation is not None,
            dtype=self._dtype,
        )
        return program, Wires(wires), by_position


def _validated_key(tape: QuantumScript, found: Structure) -> Hashable:
    """Return the key of what validation depends on: structure, measurements, and if with shots."""
    measured = tuple(
        (type(one), None if one.obs is None else type(one.obs), one.wires.labels)
        for one in tape.measurements
    )
    return found.frozen_key, measured, bool(tape.shots)


def _names(found: Structure) -> list[Angle]:
    """Return a symbol for each scalar angle, and an array of symbols for each tensor."""
    names: list[Angle] = []
    for at, shape in enumerate(found.shapes):
        if shape is None:
            names.append(sympy.Symbol(f"angle{at}"))
        else:
            array = np.empty(shape, object)
            for index in np.ndindex(shape):
                array[index] = sympy.Symbol(f"angle{at}_{'_'.join(map(str, index))}")
            names.append(array)
    return names


def _symbolic(
    operations: Sequence[Operator], found: Structure, names: Sequence[Angle]
) -> list[tuple[Operator, tuple[Angle, ...]]]:
    """Return each operation with the symbols of its angles."""
    places = iter(found.places)
    return [(op, tuple(names[next(places)] for _ in structure.angles_of(op))) for op in operations]


def _stack(found: Structure) -> tuple[tuple[str, ...], list[TensorLike]]:
    """Return the roles and the stacked angles that a tape has."""
    library = interfaces.name(found.angles)
    sizes = found.sizes
    roles, data = [], []
    for role, batched in (("parameters", False), ("inputs", True)):
        members = [at for at, one in enumerate(found.batched) if one is batched]
        if members:
            roles.append(role)
            data.append(
                interfaces.stack(
                    [found.angles[at] for at in members],
                    [sizes[at] for at in members],
                    found.batch if batched else None,
                    library,
                )
            )
    return tuple(roles), data


def _measured(
    measure: Callable[..., ResultT], measurement: object, *args: object, **options: object
) -> ResultT:
    """Return results of PennyLane's measurements, which have no message for some observables."""
    try:
        return measure(measurement, *args, **options)
    except (NotImplementedError, DiagGatesUndefinedError):
        raise DeviceError(
            f"{str(measurement)[:80]} cannot be measured, since PennyLane does not know the"
            " eigenvectors of the observable: use Pauli words, qml.Hermitian or qml.Projector"
        ) from None


class Unpack:
    """Results of a packed tape -> results of the tape.

    Args:
        measurements: The measurements of the tape.
        readouts: Its readouts; None if the result is the state.
        positions: Position of each wire in the state.
    """

    def __init__(
        self,
        measurements: Sequence[MeasurementProcess],
        readouts: Readouts | None,
        positions: dict[Hashable, int],
    ) -> None:
        self._measurements, self._readouts = measurements, readouts
        self._positions = positions

    def __call__(self, results: Sequence[TensorLike]) -> Result:
        """Return exact results.

        Args:
            results: One array of any library: values or states.
        """
        if self._readouts is not None:
            values = self._readouts.combine(results[0])
        else:
            state, batched = self._tensor(results[0])
            values = [
                _measured(qml.devices.qubit.measure, one, state, is_state_batched=batched)
                for one in self._moved()
            ]
        return values[0] if len(values) == 1 else tuple(values)

    def sample(self, states: np.ndarray, shots: Shots, rng: np.random.Generator) -> Result:
        """Return sampled results.

        Args:
            states: [2**N] or [B, 2**N].
            shots: The numbers of shots.
            rng: Random numbers.
        """
        state, batched = self._tensor(states)
        results = _measured(
            measure_with_samples,
            self._moved(), state, shots=shots, is_state_batched=batched, rng=rng,
        )  # fmt: skip
        if len(self._measurements) > 1:
            return results
        return tuple(one[0] for one in results) if shots.has_partitioned_shots else results[0]

    def _tensor(self, states: TensorLike) -> tuple[TensorLike, bool]:
        """Return states with an axis per wire, and whether they have a batch axis."""
        lead = tuple(states.shape[:-1])
        return states.reshape((*lead, *(2,) * max(len(self._positions), 1))), bool(lead)

    def _moved(self) -> list[MeasurementProcess]:
        return [one.map_wires(self._positions) for one in self._measurements]
