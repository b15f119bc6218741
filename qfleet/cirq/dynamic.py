"""Circuits with measurements before the end, classical control, channels and resets, to be run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import cirq
import numpy as np
from numpy.typing import DTypeLike

from qfleet.cirq import fallback
from qfleet.cirq import measurements as terminal
from qfleet.compiler.any_program import Item
from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.channel import (
    ALWAYS,
    MAX_CHANNEL_QUBITS,
    NoiseChannel,
    RecordCondition,
    channel_of,
    measurement_of,
)
from qfleet.compiler.circuit.location import describe_location
from qfleet.compiler.noisy.trajectory_program import compile_measurements
from qfleet.engine.measured_program import MeasuredProgram

MAX_CONDITION_RECORDS = 12
"""Most measured qubits that a condition depends on (native/noisy/noisy_program.cc)."""


class NoForm(Exception):
    """The engine has no form for a circuit; the message is the reason, as a clause."""


@dataclass(frozen=True)
class _Measurement:
    """A measurement of a circuit.

    Attributes:
        operation: By `cirq.measure`, without controls.
        records: Numbers of the records of its qubits; None if it is at the end.
    """

    operation: cirq.Operation
    records: tuple[int, ...] | None


class DynamicCircuit:
    """A circuit whose measurements change what follows; each run draws them.

    Runs are trajectories of the engine: they share their states until they differ.

    Args:
        circuit: Without symbols and `CircuitOperation`, with measurements.
        qubits: Its qubits and further ones, in order.
        dtype: Of the states, complex64 or complex128.
        for_state: If it is for `final_state`, else for `run`.
        takes_state: If `final_state` gets an initial state; else it is |0...0>.

    Raises:
        NoForm: The engine has no form for an operation.
        CircuitError: An operation is not supported by any simulator.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        qubits: Sequence[cirq.Qid],
        dtype: DTypeLike,
        *,
        for_state: bool = False,
        takes_state: bool = False,
    ) -> None:
        if reason := fallback.reason_of_qubits(qubits):
            raise NoForm(reason)
        lowered = _Lowering(circuit, qubits, is_collapsed=for_state)
        self._qubits, self._measurements = qubits, lowered.measurements
        program = compile_measurements(lowered.items, qubits, takes_states=takes_state)
        self._program = MeasuredProgram(program, dtype)

    def run(self, repetitions: int, random: np.random.RandomState) -> dict[str, np.ndarray]:
        """Run the circuit.

        Args:
            repetitions: Number of runs.
            random: Source of the seed, and of the errors of confusion maps.

        Returns:
            uint8 records [repetitions, instances of the key, measured qubits] by key.
        """
        seed = int(random.randint(2**31 - 1))
        at_end = any(one.records is None for one in self._measurements)
        records, bits = self._program.run(repetitions, seed, samples=at_end)
        outcomes = []
        for one in self._measurements:
            if one.records is not None:
                outcomes.append(records[:, one.records])
            elif bits is not None:
                outcomes += terminal.outcomes_of([one.operation], bits, self._qubits)
        return terminal.records([one.operation for one in self._measurements], outcomes, random)

    def final_state(
        self, initial: np.ndarray | None, random: np.random.RandomState
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Run the circuit once.

        Args:
            initial: [2**N], of norm 1, if the circuit takes a state.
            random: As for `run`.

        Returns:
            Records [1, instances of the key, measured qubits] by key, and the state [2**N] after
            all measurements.
        """
        bits, state = self._program.final_state(int(random.randint(2**31 - 1)), initial)
        outcomes = [bits[None, list(one.records or ())] for one in self._measurements]
        operations = [one.operation for one in self._measurements]
        return terminal.records(operations, outcomes, random), state


class _Lowering:
    """The items of a circuit, and its measurements in order; the last ones may collapse, too."""

    def __init__(
        self, circuit: cirq.AbstractCircuit, qubits: Sequence[cirq.Qid], *, is_collapsed: bool
    ) -> None:
        self.items: list[Item] = []
        self.measurements: list[_Measurement] = []
        self.records = 0
        self._first = min(qubits, default=None)
        placed = [(op, at) for at, moment in enumerate(circuit) for op in _decomposed(moment)]
        at_end = set() if is_collapsed else _terminal([operation for operation, _ in placed])
        for number, (operation, moment) in enumerate(placed):
            self._where = describe_location(operation, moment)
            if any(qubit.dimension != 2 for qubit in operation.qubits):
                raise NoForm(f"{self._where} acts on qudits")
            if cirq.is_measurement(operation):  # Cirq puts none under classical control
                self._measure(operation, is_last=number in at_end)
            else:
                condition = self._condition(operation.classical_controls)
                self.items += self._lower(operation.without_classical_controls(), moment, condition)

    def _measure(self, operation: cirq.Operation, *, is_last: bool) -> None:
        if not isinstance(operation.gate, cirq.MeasurementGate):
            raise NoForm(f"{self._where} is a measurement other than cirq.measure")
        if is_last:
            self.measurements.append(_Measurement(operation, None))
            return
        numbers = tuple(range(self.records, self.records + len(operation.qubits)))
        self.records += len(numbers)
        pairs = zip(operation.qubits, numbers, strict=True)
        self.items += [measurement_of(qubit, number) for qubit, number in pairs]
        self.measurements.append(_Measurement(operation, numbers))

    def _lower(
        self, operation: cirq.Operation, moment: int, condition: RecordCondition
    ) -> Iterable[Item]:
        is_wide = len(operation.qubits) > MAX_CHANNEL_QUBITS and not cirq.has_unitary(operation)
        if is_wide and cirq.kraus(operation, None) is not None:
            raise NoForm(f"{self._where} is noise on more than {MAX_CHANNEL_QUBITS} qubits")
        found = lowering.lower_operation(operation, moment, self._first)
        return found if condition == ALWAYS else [_conditional(item, condition) for item in found]

    def _condition(self, controls: Iterable[cirq.Condition]) -> RecordCondition:
        """Return conditions as a table over the records of their last measurements."""
        conditions = sorted(controls, key=str)
        if not conditions:
            return ALWAYS
        known: dict[cirq.MeasurementKey, list[_Measurement]] = {}
        for one in self.measurements:
            known.setdefault(cirq.measurement_key_obj(one.operation), []).append(one)
        records: list[int] = []
        for one in conditions:
            for key in one.keys:
                records += self._records_of(known.get(key, []), getattr(one, "index", -1))
        records = list(dict.fromkeys(records))
        if len(records) > MAX_CONDITION_RECORDS:
            raise NoForm(f"{self._where} depends on more than {MAX_CONDITION_RECORDS} qubits")
        acts = []
        for number in range(2 ** len(records)):
            bits = {record: number >> at & 1 for at, record in enumerate(records)}
            store = _stored(known, bits)
            acts.append(all(one.resolve(store) for one in conditions))
        return RecordCondition(tuple(records), tuple(acts))

    def _records_of(self, instances: Sequence[_Measurement], index: int) -> tuple[int, ...]:
        """Return the records of an instance of a key."""
        if not -len(instances) <= index < len(instances):
            raise NoForm(f"{self._where} depends on a key that is not measured before")
        one = instances[index]
        if getattr(one.operation.gate, "confusion_map", None):
            raise NoForm(f"{self._where} depends on a measurement with a confusion map")
        return one.records or ()


def _stored(
    known: Mapping[cirq.MeasurementKey, Sequence[_Measurement]], bits: Mapping[int, int]
) -> cirq.ClassicalDataStoreReader:
    """Return the measurements by key as Cirq's conditions read them; other outcomes are 0."""
    store = cirq.ClassicalDataDictionaryStore()
    for key, instances in known.items():
        for one in instances:
            gate = one.operation.gate
            assert isinstance(gate, cirq.MeasurementGate)
            numbers = one.records if one.records is not None else (-1,) * len(one.operation.qubits)
            outcome = [bits.get(number, 0) for number in numbers]
            mask = gate.full_invert_mask()
            flipped = [bit ^ int(flip) for bit, flip in zip(outcome, mask, strict=True)]
            store.record_measurement(key, flipped, one.operation.qubits)
    return store


def _conditional(item: Item, condition: RecordCondition) -> NoiseChannel:
    """Return a fixed factor or a channel that acts only under a condition."""
    channel = item if isinstance(item, NoiseChannel) else channel_of(item.qubits, [item.matrix])
    return replace(channel, condition=condition)


def _decomposed(moment: cirq.Moment) -> Iterator[cirq.Operation]:
    """Yield operations, measurements of Pauli strings as gates and `cirq.measure`."""
    for operation in moment:
        untagged = operation.untagged
        if isinstance(untagged.gate, cirq.PauliMeasurementGate):
            yield from cirq.decompose_once(untagged)
        else:
            yield untagged


def _terminal(operations: Sequence[cirq.Operation]) -> set[int]:
    """Return the numbers of the measurements after which nothing depends on them."""
    touched: set[cirq.Qid] = set()
    needed: set[cirq.MeasurementKey] = set()
    found = set()
    for number in reversed(range(len(operations))):
        operation = operations[number]
        if (
            cirq.is_measurement(operation)
            and touched.isdisjoint(operation.qubits)
            and needed.isdisjoint(cirq.measurement_key_objs(operation))
        ):
            found.add(number)
        touched.update(operation.qubits)
        needed.update(cirq.control_keys(operation))
    return found
