"""The circuits of the models that ship with qfleet, compiled. Without TensorFlow."""

import functools
from typing import NamedTuple

from common.errors import SimulationError
from common.settings.groups.experiment import ModelSettings
from qfleet.circuits import ModelCircuit, hybrid_layers, qcnn
from qfleet.compiler.methods import compile_circuit_by
from qfleet.compiler.network_program import NetworkProgram
from qfleet.compiler.program import Program
from qfleet.engine import memory
from qfleet.engine.network_memory import network_bytes

MAX_OPERATIONS = 10**10
"""Most complex multiplications of one example. With gradients, they take several seconds."""

STATE_QUBITS = 24
"""Width of a state that any machine simulates."""

FEW_LAYERS = {"halves": 3, "neighbours": 4}
"""Layers whose light cones can be contracted, whatever the width."""

MAX_RECORDED_QUBITS = 64
"""Widest circuit in model.json: one of 1,024 qubits takes 20 MB; it is rebuilt from settings."""

_REAL_BYTES = 4  # complex64


class ModelProgram(NamedTuple):
    """A circuit, and its program; None where another simulator than qfleet's compiles it."""

    circuit: ModelCircuit
    program: Program | NetworkProgram | None


def model_circuits(model: ModelSettings, features: int, encoder: str) -> list[ModelCircuit]:
    """Return the circuits of a model, in order; none for a user's model.

    Args:
        model: Architecture and width.
        features: Angles per example.
        encoder: Entry point of the angles in the circuit, from the encoding of the data set.
    """
    if ":" in model.model:
        return []
    is_qcnn = model.model == "qcnn"
    return [
        qcnn(
            model.qubits,
            layers=None if is_qcnn else model.layers or hybrid_layers(model.qubits),
            encoder=encoder,
            features=features,
            prefix=f"f{index}_" if index else "",
            pool=model.pooling,
            ring=not (is_qcnn and model.pooling == "neighbours"),
        )
        for index in range(model.filters if model.model == "multi-filter" else 1)
    ]


@functools.lru_cache(maxsize=2)
def compiled_circuits(
    model: ModelSettings, features: int, encoder: str, *, is_sharded: bool = False
) -> tuple[ModelProgram, ...]:
    """Return `model_circuits`, compiled by METHOD for SIMULATOR=qfleet.

    The result is kept: each initialization and each benchmark case builds the model again.

    Args:
        model: As for `model_circuits`.
        features: As for `model_circuits`.
        encoder: As for `model_circuits`.
        is_sharded: If states are sharded: then the simulator compiles the circuits.

    Raises:
        SimulationError: A contraction takes too long; the message states what does not.
        LibraryError: METHOD=tensor_network needs cotengra, which is not installed.
    """
    circuits = model_circuits(model, features, encoder)
    if model.simulator != "qfleet" or is_sharded:
        return tuple(ModelProgram(one, None) for one in circuits)
    compiled = tuple(ModelProgram(one, _compile(model, one)) for one in circuits)
    for _, program in compiled:
        if isinstance(program, NetworkProgram) and not _fits(program):
            raise SimulationError(_too_large(model, program))
    return compiled


def _compile(model: ModelSettings, circuit: ModelCircuit) -> Program | NetworkProgram:
    symbols = circuit.inputs, circuit.parameters
    return compile_circuit_by(model.method, circuit.circuit, *symbols, circuit.observables)


def _fits(program: NetworkProgram) -> bool:
    """Return True if one thread can contract a program in the time and memory that there are."""
    needed = network_bytes(program, _REAL_BYTES, 1)
    return program.operations <= MAX_OPERATIONS and needed <= memory.available_bytes()


def _too_large(model: ModelSettings, program: NetworkProgram) -> str:
    """Return the message for a model whose contraction is too large."""
    digits = len(str(program.operations)) - 1
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
        f" multiplications and a tensor of 2^{program.width} numbers: set {advice}"
    )
