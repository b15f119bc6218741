"""The circuits of the models that ship with qfleet, compiled. Without TensorFlow."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import cirq

from common.errors import SettingsError, SimulationError
from common.found_circuits import found_data_circuit
from common.settings.circuit_file import is_circuit
from common.settings.groups.experiment import (
    KERNEL,
    MODELS,
    NO_NOISE,
    PULSE,
    PULSE_MODELS,
    STATE_QUBITS,
    ModelSettings,
)
from qfleet.circuits import (
    ModelCircuit,
    add_noise,
    circuit_then_reverse,
    fold,
    hybrid_layers,
    pulse_layers,
    qcnn,
    zz_feature_map,
)
from qfleet.circuits.pulse_layers import Entangler
from qfleet.compiler.any_program import AnyProgram, Contraction
from qfleet.compiler.choose_method import compile_circuit_by
from qfleet.compiler.circuit.sampling import EXACT, Sampling
from qfleet.devices import add_device_noise, map_to_device
from qfleet.devices.calibration import INLINE
from qfleet.devices.lines import inline_calibration
from qfleet.engine import memory
from qfleet.engine.machine import Machine
from qfleet.noise_rates import parse_rates
from qfleet.placement import data_symbols

MAX_OPERATIONS = 10**10
"""Most complex multiplications of one example. With gradients, they take several seconds."""

FEW_LAYERS = {"halves": 3, "neighbours": 4}
"""Layers whose light cones can be contracted, whatever the width."""

KERNEL_LAYERS = 2
PULSE_LAYERS = 2

MAX_RECORDED_QUBITS = 64
"""Widest circuit in model.json: one of 1,024 qubits takes 20 MB; it is rebuilt from settings."""

_REAL_BYTES = 4  # complex64


class ModelProgram(NamedTuple):
    """A circuit, and its program; None where another simulator than qfleet's compiles it."""

    circuit: ModelCircuit
    program: AnyProgram | None


def model_circuits(model: ModelSettings, features: int, encoder: str) -> Iterator[ModelCircuit]:
    """Yield the circuits of a model of examples, in order; none for a user's model.

    A circuit that a search found for data is one. An ansatz of another task is not asked for.
    Each is built when it is asked for, since a wide one takes seconds.

    Args:
        model: Architecture and width.
        features: Angles or amplitudes per example.
        encoder: Entry point of the angles in the circuit, from the encoding of the data set.
    """
    circuits: Iterable[ModelCircuit]
    if is_circuit(model.model):
        circuits = [found_data_circuit(model, features)]
    elif model.model in PULSE_MODELS:
        circuits = [_driven_circuit(model, features, encoder)]
    elif model.model in MODELS:
        circuits = _convolutions(model, features, encoder)
    else:
        return
    is_noiseless = model.has_noiseless_gradient
    for one in circuits:
        yield with_noise(one, model.noise, noiseless_gradient=is_noiseless)


def _driven_circuit(model: ModelSettings, features: int, encoder: str) -> ModelCircuit:
    """Return the circuit whose pulses have the angles of an example."""
    return pulse_layers(
        model.qubits,
        model.layers or PULSE_LAYERS,
        inputs=data_symbols(features),
        encoder="reupload" if encoder == "reupload" else "angle",
        entangler=entangler_of(model),
    )


def entangler_of(model: ModelSettings) -> Entangler:
    """Return what joins qubits in the layers of a model of pulses."""
    return "pulse" if model.model == PULSE else "cz"


def _convolutions(model: ModelSettings, features: int, encoder: str) -> Iterator[ModelCircuit]:
    is_qcnn = model.model == "qcnn"
    for index in range(model.filters if model.model == "multi-filter" else 1):
        yield qcnn(
            model.qubits,
            layers=None if is_qcnn else model.layers or hybrid_layers(model.qubits),
            encoder=encoder,
            features=features,
            prefix=f"f{index}_" if index else "",
            pool=model.pooling,
            ring=not (is_qcnn and model.pooling == "neighbours"),
        )


def kernel_circuit(model: ModelSettings, features: int, bandwidth: float) -> ModelCircuit:
    """Return the feature map of MODEL=kernel, with a qubit per angle.

    Args:
        model: QUBITS and LAYERS are used.
        features: Angles per example.
        bandwidth: Factor of the angles.

    Raises:
        SettingsError: There are more angles than qubits.
    """
    if features > model.qubits:
        raise SettingsError(
            f"QUBITS={model.qubits} is less than the {features} features of the data set, but"
            f" MODEL={KERNEL} needs one for each: raise QUBITS, or set ENCODER=pca"
        )
    return zz_feature_map(features, model.layers or KERNEL_LAYERS, bandwidth=bandwidth)


def with_noise(
    circuit: ModelCircuit,
    noise: str,
    *,
    factor: int = 1,
    readings: int | None = None,
    is_reversed: bool = False,
    noiseless_gradient: bool = False,
) -> ModelCircuit:
    """Return a circuit with NOISE after its gates, and before its readouts.

    With the calibration of a device, the circuit is mapped to it.

    Args:
        circuit: A circuit without noise.
        noise: NOISE.
        factor: Factor by which the circuit is folded.
        readings: How often each qubit has the readout error; `factor` unless given.
        is_reversed: If the circuit is followed by its reverse.
        noiseless_gradient: If the circuit without noise becomes the `gradient_circuit`.

    Raises:
        NoiseError: The circuit does not fit on the device.
    """
    if noise in ("", NO_NOISE):
        return replace(circuit, gradient_circuit=circuit.circuit if noiseless_gradient else None)

    readings = factor if readings is None else readings

    def scaled(gates: cirq.Circuit) -> cirq.Circuit:
        return circuit_then_reverse(gates) if is_reversed else fold(gates, factor)

    bare = circuit.circuit
    if noise.startswith(INLINE):
        device = inline_calibration(noise)
        mapped = map_to_device(bare, device, circuit.observables, circuit.qubits)
        # Native gates are folded, since a fold before the mapping would join gates at its ends.
        bare, native = mapped.circuit, scaled(mapped.circuit)
        noisy = add_device_noise(native, device, mapped.observables, readings=readings)
        circuit = replace(circuit, observables=mapped.observables, qubits=mapped.qubits)
    else:
        measured = {qubit for observable in circuit.observables for qubit in observable.qubits}
        noisy = add_noise(scaled(bare), parse_rates(noise), measured, readings=readings)
    return replace(circuit, circuit=noisy, gradient_circuit=bare if noiseless_gradient else None)


def sampling_of(model: ModelSettings, seed: int, number: int = 0) -> Sampling:
    """Return SHOTS and TRAJECTORIES. Each step of a training draws other random numbers.

    A sampler draws its own.

    Args:
        model: The settings.
        seed: SEED.
        number: Number of the circuit in the model, which draws numbers of its own.
    """
    if model.sampler or not model.is_noisy:
        return EXACT
    shots = int(model.shots) if model.has_shots else None
    trajectories = model.trajectories if model.has_noise else None
    return Sampling(trajectories, shots, seed * 1009 + number, fresh=True)


@functools.lru_cache(maxsize=2)
def compiled_circuits(
    model: ModelSettings,
    features: int,
    encoder: str,
    seed: int = 0,
    *,
    is_sharded: bool = False,
    is_elsewhere: bool = False,
) -> tuple[ModelProgram, ...]:
    """Return `model_circuits`, compiled by METHOD for SIMULATOR=qfleet.

    The result is kept: each initialization and each benchmark case builds the model again.

    Args:
        model: As for `model_circuits`.
        features: As for `model_circuits`.
        encoder: As for `model_circuits`.
        seed: SEED, of trajectories and shots.
        is_sharded: If states are sharded: then the simulator compiles the circuits, as it does
            with SAMPLER.
        is_elsewhere: If another machine evaluates them, whose memory is unknown.

    Raises:
        SimulationError: A contraction takes too long; the message states what does not.
        LibraryError: METHOD=tensor_network needs cotengra, which is not installed.
    """
    circuits = model_circuits(model, features, encoder)
    if model.simulator != "qfleet" or is_sharded or model.sampler:
        return tuple(ModelProgram(one, None) for one in circuits)
    compiled = []
    for number, circuit in enumerate(circuits):
        program = _compile(model, circuit, seed, number)
        contraction = program.contraction
        if contraction is not None and not _fits(contraction, is_elsewhere=is_elsewhere):
            raise SimulationError(_too_large(model, contraction))
        compiled.append(ModelProgram(circuit, program))
    return tuple(compiled)


def _compile(model: ModelSettings, circuit: ModelCircuit, seed: int, number: int) -> AnyProgram:
    symbols = circuit.inputs, circuit.parameters
    return compile_circuit_by(
        model.method,
        circuit.circuit,
        *symbols,
        circuit.observables,
        takes_states=circuit.initial_states,
        sampling=sampling_of(model, seed, number),
    )


def _fits(contraction: Contraction, *, is_elsewhere: bool) -> bool:
    """Return True if one thread can contract an example in the time and memory that there are."""
    needed = 0 if is_elsewhere else contraction.bytes(Machine(_REAL_BYTES, threads=1))
    return contraction.operations <= MAX_OPERATIONS and needed <= memory.available_bytes()


def _too_large(model: ModelSettings, contraction: Contraction) -> str:
    """Return the message for a model whose contraction is too large."""
    digits = len(str(contraction.operations)) - 1
    if model.model == "qcnn":
        layers = FEW_LAYERS["halves"]
        advice = f"QUBITS={STATE_QUBITS} or less, or MODEL=hybrid with LAYERS={layers}"
    else:
        layers = model.layers or hybrid_layers(model.qubits)
        advice = f"LAYERS={max(1, min(layers - 1, FEW_LAYERS[model.pooling]))}"
    if model.pooling == "halves":
        advice += ", or POOLING=neighbours"
    return (
        f"QUBITS={model.qubits} can't be simulated: the best plan for one example needs 1e{digits}"
        f" multiplications and a tensor of 2^{contraction.width} numbers: set {advice}"
    )
