"""The device's transform: validates, decomposes and packs a tape.

A tape whose structure was seen before is packed at once. All other tapes go through PennyLane's own
transforms first.
"""

import operator
from collections.abc import Sequence

import pennylane as qml
from pennylane.devices.preprocess import (
    decompose,
    device_resolve_dynamic_wires,
    validate_device_wires,
    validate_measurements,
    validate_observables,
)
from pennylane.exceptions import DeviceError, QuantumFunctionError
from pennylane.measurements import MeasurementProcess, SampleMeasurement, StateMeasurement
from pennylane.operation import Operator
from pennylane.ops.functions import bind_new_parameters
from pennylane.tape import QuantumScript, QuantumScriptBatch
from pennylane.transforms import transform
from pennylane.typing import PostprocessingFn, Result, ResultBatch
from pennylane.wires import Wires

from qfleet.pennylane import interfaces, structure, symbolic
from qfleet.pennylane.packing import Packer, Unpack

NAME = "qfleet.qubit"
SHADOWS = (qml.measurements.ClassicalShadowMP, qml.measurements.ShadowExpvalMP)


@transform
def prepare(
    tape: QuantumScript, packer: Packer, wires: Wires | None, pack: bool
) -> tuple[QuantumScriptBatch, PostprocessingFn]:
    """Prepare a tape for the device.

    Args:
        tape: Any tape.
        packer: The device's programs.
        wires: The device's wires; None for any.
        pack: True to pack the tape, for gradients of the device.

    Returns:
        The prepared tapes and the function from their results to those of the tape.

    Raises:
        DeviceError: An operation or a measurement is not supported; such as a mixed state.
        WireError: The tape has a wire that the device lacks.
        QuantumFunctionError: A state that is not prepared first, or the matrix of several wires, is
            differentiated.
        ValueError: The batch sizes of two operations differ.
    """
    found = structure.read(tape)
    if found is not None and packer.knows(tape, found):
        if not pack:
            return (tape,), _first
        packed, finish = packer.pack(tape, found)
        return (packed,), finish
    if pack:
        tape = _without_trained_states(tape)
    tapes, finish = _standard(tape, wires)
    if found is not None and tapes == (tape,):
        packer.validated(tape, found)
    if not pack:
        return tapes, _Chain(finish)
    packed, unpack = zip(*(_pack(one, packer) for one in tapes), strict=True)
    return packed, _Chain(finish, unpack)


def _without_trained_states(tape: QuantumScript) -> QuantumScript:
    """Reject states and matrices that are differentiated: their angles have no derivative at 0.

    The states of a first operation are differentiated as they are.

    JAX reveals under jax.jit what is differentiated only when it differentiates it.
    """
    operations = [
        op if at == 0 and structure.is_native_preparation(op) else _not_trained(op)
        for at, op in enumerate(tape.operations)
    ]
    if all(map(operator.is_, operations, tape.operations)):
        return tape
    return tape.copy(operations=operations)


def _not_trained(op: Operator) -> Operator:
    """Return an operation whose state or matrix is not differentiated."""
    is_matrix = isinstance(op, qml.QubitUnitary) and len(op.wires) > 1
    if not (is_matrix or isinstance(op, qml.StatePrep)):
        return op
    error = QuantumFunctionError(
        f"{op.name} on wires {op.wires.tolist()} has a trainable"
        f" {'matrix' if is_matrix else 'state'}: {NAME} differentiates by angles and by"
        " coefficients of observables only"
    )
    (data,) = op.data
    if qml.math.is_abstract(data):
        return bind_new_parameters(op, [interfaces.not_differentiable(data, error)])
    if not is_matrix and qml.math.requires_grad(data):
        raise error
    return op


def _pack(tape: QuantumScript, packer: Packer) -> tuple[QuantumScript, Unpack]:
    found = structure.read(tape)
    assert found is not None, "decomposed tapes are native"
    return packer.pack(tape, found)


def _standard(
    tape: QuantumScript, wires: Wires | None
) -> tuple[QuantumScriptBatch, PostprocessingFn]:
    """Apply PennyLane's validation and decomposition."""
    _refuse_mixed_states(tape)
    pipeline = qml.CompilePipeline()
    pipeline.add_transform(validate_device_wires, wires, name=NAME)
    pipeline.add_transform(
        validate_measurements,
        analytic_measurements=is_analytic,
        sample_measurements=is_sampled,
        name=NAME,
    )
    pipeline.add_transform(validate_observables, stopping_condition=_has_matrix, name=NAME)
    if any(isinstance(one, SHADOWS) for one in tape.measurements):  # these read one state
        pipeline.add_transform(qml.transforms.broadcast_expand)
    if any(isinstance(op, qml.ops.MidMeasure) for op in tape.operations):
        pipeline.add_transform(_reject_postselection)
        pipeline.add_transform(qml.defer_measurements, allow_postselect=False)
    first = tape.operations[0] if tape.operations else None
    pipeline.add_transform(
        decompose,
        stopping_condition=structure.is_native,
        skip_initial_state_prep=first is not None and structure.is_native_preparation(first),
        decomposer=symbolic.decomposition,
        device_wires=wires,
        target_gates=GATES,
        name=NAME,
    )
    pipeline.add_transform(device_resolve_dynamic_wires, wires=wires, allow_resets=False)
    pipeline.add_transform(validate_device_wires, wires, name=NAME)
    prepared: tuple[QuantumScriptBatch, PostprocessingFn] = pipeline((tape,))
    return prepared


def _refuse_mixed_states(tape: QuantumScript) -> None:
    """Refuse density matrices; PennyLane's own message has all their numbers."""
    for op in tape.operations:
        if isinstance(op, qml.QubitDensityMatrix):
            raise DeviceError(
                f"QubitDensityMatrix on wires {op.wires.tolist()} is a mixed state, and {NAME}"
                " evolves state vectors: use default.mixed, or qfleet.compile with"
                ' method="density_matrix" and initial_states=True'
            )


GATES = {gate.__name__ for gate in structure.NATIVE_GATES}


@transform
def _reject_postselection(tape: QuantumScript) -> tuple[QuantumScriptBatch, PostprocessingFn]:
    for op in tape.operations:
        if isinstance(op, qml.ops.MidMeasure) and op.postselect is not None:
            raise DeviceError(
                f"the mid-circuit measurement of wires {op.wires.tolist()} has a postselection,"
                f" which {NAME} does not support: select examples after the measurement instead"
            )
    return (tape,), _first


def is_analytic(measurement: MeasurementProcess) -> bool:
    """Return True if a measurement without shots is supported.

    Args:
        measurement: Any measurement.
    """
    return isinstance(measurement, StateMeasurement)


def is_sampled(measurement: MeasurementProcess) -> bool:
    """Return True if a measurement with shots is supported.

    Args:
        measurement: Any measurement.
    """
    return isinstance(measurement, (SampleMeasurement, *SHADOWS))


def _has_matrix(observable: Operator) -> bool:
    return (
        observable.has_matrix
        or observable.pauli_rep is not None
        or isinstance(observable, qml.SparseHamiltonian)
    )


def _first(results: ResultBatch) -> Result:
    return results[0]


class _Chain:
    """Unpacks the results of packed tapes, then applies the postprocessing of transforms."""

    def __init__(self, finish: PostprocessingFn, unpack: Sequence[Unpack] = ()) -> None:
        self._finish, self._unpack = finish, unpack

    def __call__(self, results: ResultBatch) -> Result:
        if self._unpack:
            pairs = zip(self._unpack, results, strict=True)
            results = tuple(unpack((result,)) for unpack, result in pairs)
        return self._finish(results)[0]  # the results of one tape
