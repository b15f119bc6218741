"""The quantum convolutional neural network, for any number of qubits from 2 on.

Cong, Choi and Lukin (arXiv:1810.03787), in the form of TensorFlow Quantum's tutorial; unlike
there, every angle is trained.
"""

from collections.abc import Sequence

import cirq
import sympy

from common.errors import CircuitError
from qfleet.circuits.blocks import POOL, TWO_QUBIT, two_qubit_pool, two_qubit_unitary
from qfleet.circuits.encoders import input_circuit, reupload_circuit
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.placement import data_symbols

SYMBOLS_PER_LAYER = TWO_QUBIT + POOL
HYBRID_READOUTS = 4


def after_pooling(active: int) -> int:
    """How many of `active` qubits a layer leaves active: the larger half."""
    return (active + 1) // 2


def full_layers(qubits: int) -> int:
    """Layers down to one qubit: ceil(log2(qubits))."""
    return (qubits - 1).bit_length()


def hybrid_layers(qubits: int) -> int:
    """Layers of the hybrid model: until at most 4 qubits are active, at least one layer."""
    layers, active = 1, after_pooling(qubits)
    while active > HYBRID_READOUTS:
        layers, active = layers + 1, after_pooling(active)
    return layers


def convolution(active: Sequence[cirq.Qid], symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """One two-qubit unitary on all neighbours: (0,1), (2,3), ..., then (1,2), ..., (last,0).

    An odd number of qubits leaves out the closing pair (last,0).

    Args:
        active: The layer's qubits, at least two.
        symbols: 15 angles in radians, the same for every pair.
    """
    even = zip(active[0::2], active[1::2], strict=False)
    odd = zip(active[1::2], [*active[2::2], active[0]], strict=False)
    circuit = cirq.Circuit()
    for a, b in [*even, *odd]:
        circuit += two_qubit_unitary(a, b, symbols)
    return circuit


def pooling(active: Sequence[cirq.Qid], symbols: Sequence[sympy.Expr]) -> cirq.Circuit:
    """Pool the first half of the qubits into the second; of an odd number the last passes through.

    Args:
        active: The layer's qubits, at least two.
        symbols: 6 angles in radians, the same for every pair.
    """
    half = len(active) // 2
    circuit = cirq.Circuit()
    for source, sink in zip(active[:half], active[half:], strict=False):
        circuit += two_qubit_pool(source, sink, symbols)
    return circuit


def qcnn(
    qubits: int,
    *,
    layers: int | None = None,
    encoder: str = "cluster",
    features: int | None = None,
    prefix: str = "",
) -> ModelCircuit:
    """A QCNN with its encoder; each layer has 21 angles and reads Z on what stays active.

    Args:
        qubits: Width of the circuit, at least 2.
        layers: Layers before the readout; None goes down to one qubit and one readout.
        encoder: Where the data enters, one of `encoders.PLACEMENTS`.
        features: Data symbols; one a qubit unless given.
        prefix: Put before the names of the trained symbols, so that several circuits can stand
            side by side in one model. Data symbols are shared and keep their names.

    Raises:
        CircuitError: Too few qubits, more layers than there are, or an encoder that does not fit.
    """
    if qubits < 2:
        raise CircuitError(f"a QCNN of {qubits} qubits can't pool: use at least 2")
    most = full_layers(qubits)
    layers = most if layers is None else layers
    if not 1 <= layers <= most:
        raise CircuitError(f"a QCNN of {qubits} qubits has 1 to {most} layers, not {layers}")
    if features is not None and features < 1:
        raise CircuitError(f"a QCNN needs at least 1 feature per example, not {features}")

    line = cirq.GridQubit.rect(1, qubits)
    inputs = data_symbols(qubits if features is None else features)
    names = tuple(
        tuple(f"{prefix}theta_{layer:02d}_{i:02d}" for i in range(SYMBOLS_PER_LAYER))
        for layer in range(layers)
    )
    circuit, active = input_circuit(line, inputs, encoder), line
    for layer in names:
        symbols = [sympy.Symbol(name) for name in layer]
        circuit += reupload_circuit(active, inputs, encoder)
        circuit += convolution(active, symbols[:TWO_QUBIT])
        circuit += pooling(active, symbols[TWO_QUBIT:])
        active = active[len(active) // 2 :]
    return ModelCircuit(
        # Packed, so that the pairs of one layer stand side by side in the same moments.
        circuit=cirq.Circuit(circuit.all_operations()),
        inputs=inputs,
        parameters=tuple(name for layer in names for name in layer),
        observables=tuple(cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in active),
        qubits=tuple(line),
        layers=names,
    )
