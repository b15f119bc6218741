"""The result of a trained candidate, with the price of its circuit."""

import cirq

from qfleet.devices.calibration import Calibration
from qfleet.devices.fidelity import predict_fidelity
from qfleet.devices.mapping import map_to_device
from qfleet.devices.noise import circuit_duration
from qfleet.search.cost import circuit_cost
from qfleet.search.records import Candidate, Result
from qfleet.search.search_result import circuit_of
from qfleet.search.space import Space
from qfleet.search.training import Trained


def priced(
    space: Space,
    candidate: Candidate,
    trained: Trained,
    exact: float | None,
    calibration: Calibration | None,
    generation: int,
    size: int,
) -> Result:
    """Return the result of a candidate.

    Args:
        space: Its space.
        candidate: The candidate.
        trained: Its angles and energy.
        exact: The reference of errors.
        calibration: A device, for which the result has a fidelity and a duration.
        generation: Number of its generation.
        size: Candidates of the generation.

    Raises:
        CircuitError: A gate can't be decomposed.
        NoiseError: The device can't run the circuit.
    """
    done = candidate.trained(trained.angles)
    circuit = cirq.resolve_parameters(circuit_of(space, done), _sample_features(space))
    fidelity = duration = None
    if calibration is not None:
        mapped = map_to_device(circuit, calibration, qubits=space.qubits).circuit
        fidelity = predict_fidelity(mapped, calibration)
        duration = circuit_duration(mapped, calibration)
    error = trained.error
    if error is None:
        error = trained.energy - (exact or 0.0)
    return Result(
        done,
        trained.energy,
        error,
        *circuit_cost(circuit),
        fidelity,
        trained.evaluations,
        generation,
        size,
        trained.head,
        duration,
    )


def _sample_features(space: Space) -> dict[str, float]:
    """Return values of features that no circuit is simpler for, by which its price is counted."""
    names = sorted({gate.feature for gate in space.gates} - {""})
    return {name: 0.7 + 0.013 * at for at, name in enumerate(names)}


def require_device(space: Space, calibration: Calibration) -> None:
    """Check that a device can run a space: its qubits, and a gate of each kind.

    Raises:
        NoiseError: It can't.
    """
    kinds = {tuple(repr(type(one.gate)) for one in gate.operations): gate for gate in space.gates}
    every = cirq.I.on_each(*space.qubits)
    for gate in kinds.values():
        operations = gate.with_rotations([0.3] * len(gate.angles))
        circuit = cirq.Circuit(every, space.start, operations)
        map_to_device(circuit, calibration, qubits=space.qubits)
