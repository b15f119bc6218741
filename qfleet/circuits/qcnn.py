"""The quantum convolutional neural network (QCNN), for 2 qubits or more.

Cong, Choi and Lukin (arXiv:1810.03787), in the form of TensorFlow Quantum's tutorial, but with all
angles trained.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import cirq
import sympy

from qfleet.argument_checks import TEXT, checked, flag, integer, optional
from qfleet.circuits.blocks import POOL, TWO_QUBIT, two_qubit_pool, two_qubit_unitary
from qfleet.circuits.encoders import input_circuit, reupload_circuit
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.errors import CircuitError
from qfleet.placement import data_symbols

Pooling = Literal["halves", "neighbours"]
POOLINGS: tuple[str, ...] = get_args(Pooling)

SYMBOLS_PER_LAYER = TWO_QUBIT + POOL
HYBRID_READOUTS = 4


def after_pooling(active: int) -> int:
    """Return the number of qubits that a layer leaves active: the larger half."""
    return (active + 1) // 2


@checked(qubits=integer(1))
def full_layers(qubits: int) -> int:
    """Return the number of layers down to one qubit: ceil(log2(qubits)).

    Examples:
        >>> full_layers(8)
        3
    """
    return (qubits - 1).bit_length()


@checked(qubits=integer(1))
def hybrid_layers(qubits: int) -> int:
    """Return the layers of the hybrid model: down to at most 4 active qubits, at least one layer.

    Examples:
        >>> hybrid_layers(8), hybrid_layers(16)
        (1, 2)
    """
    layers, active = 1, after_pooling(qubits)
    while active > HYBRID_READOUTS:
        layers, active = layers + 1, after_pooling(active)
    return layers


def convolution(
    active: Sequence[cirq.Qid], symbols: Sequence[sympy.Expr], *, ring: bool = True
) -> cirq.Circuit:
    """Apply one two-qubit unitary to all neighbors: (0,1), (2,3), ..., then (1,2), ..., (last,0).

    For an odd number of qubits the closing pair (last,0) is omitted.

    Args:
        active: The layer's qubits, at least two.
        symbols: 15 angles in radians, the same for every pair.
        ring: False to omit the closing pair always.
    """
    even = zip(active[0::2], active[1::2], strict=False)
    closing = active[:1] if ring else ()
    odd = zip(active[1::2], [*active[2::2], *closing], strict=False)
    circuit = cirq.Circuit()
    for a, b in [*even, *odd]:
        circuit += two_qubit_unitary(a, b, symbols)
    return circuit


def pooling(
    active: Sequence[cirq.Qid], symbols: Sequence[sympy.Expr], kind: Pooling = "halves"
) -> tuple[cirq.Circuit, Sequence[cirq.Qid]]:
    """Pool half of the qubits into the others; an odd last qubit stays unchanged.

    Args:
        active: The layer's qubits, at least two.
        symbols: 6 angles in radians, the same for every pair.
        kind: "halves" pools the first half into the second, "neighbours" each even place into the
            next one, so that light cones stay narrow.

    Returns:
        The circuit, and the qubits that stay active.
    """
    half = len(active) // 2
    if kind == "halves":
        sources, remaining = active[:half], active[half:]
    else:
        odd_last = active[2 * half :]
        sources, remaining = active[0 : 2 * half : 2], [*active[1::2], *odd_last]
    circuit = cirq.Circuit()
    for source, sink in zip(sources, remaining, strict=False):
        circuit += two_qubit_pool(source, sink, symbols)
    return circuit, remaining


_COUNT = integer(0, 1 << 16)


@checked(
    qubits=_COUNT,
    layers=optional(_COUNT),
    encoder=TEXT,
    features=optional(_COUNT),
    prefix=TEXT,
    pool=TEXT,
    ring=flag,
)
def qcnn(
    qubits: int,
    *,
    layers: int | None = None,
    encoder: str = "cluster",
    features: int | None = None,
    prefix: str = "",
    pool: Pooling = "halves",
    ring: bool = True,
) -> ModelCircuit:
    """Build a QCNN with its encoder: 21 angles per layer, and Z on the remaining active qubits.

    Args:
        qubits: Width of the circuit, at least 2.
        layers: Number of layers; None for layers down to one qubit and one observable.
        encoder: "cluster" for rx(x_i) on the cluster state, "angle" for ry(x_i) on |0...0>,
            "reupload" for rotations by all features again before every layer, or "amplitude" for a
            circuit without data symbols that starts at a state per example.
        features: Number of data symbols; one per qubit unless given. For "amplitude", the number of
            amplitudes that are not always 0; all unless given.
        prefix: Prefix of the names of the trained symbols, so that several circuits can be part of
            one model. Data symbols are shared and keep their names.
        pool: "halves", or "neighbours" as of Cong et al.; see `pooling`.
        ring: If the first and the last qubit are neighbours, in each layer and in the cluster
            state. On an open chain with pooled neighbours, the cost of a tensor network grows as a
            power of the number of qubits.

    Returns:
        The circuit on `cirq.GridQubit(0, 0)` to `cirq.GridQubit(0, qubits - 1)`, with all angles in
        radians.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: There are too few qubits or features, too many layers, the features do not fit
            the encoder, or the pooling is unknown.

    Examples:
        >>> model = qcnn(8, encoder="angle")
        >>> len(model.inputs), len(model.parameters), len(model.observables)
        (8, 63, 1)
    """
    if qubits < 2:
        raise CircuitError(f"a QCNN of {qubits} qubits cannot pool: use at least 2 qubits")
    most = full_layers(qubits)
    layers = most if layers is None else layers
    if not 1 <= layers <= most:
        raise CircuitError(f"{layers} layers for a QCNN of {qubits} qubits: use 1 to {most} layers")
    if pool not in POOLINGS:
        raise CircuitError(f"unknown pooling {pool!r}: use one of {', '.join(POOLINGS)}")
    if features is not None and features < 1:
        raise CircuitError(f"{features} features for a QCNN: use at least 1 feature per example")

    line = cirq.GridQubit.rect(1, qubits)
    takes_states = encoder == "amplitude"
    if takes_states and features is not None and features > 2**qubits:
        raise CircuitError(
            f"{features} features are more than the {2**qubits} amplitudes of {qubits} qubits: use"
            f" {full_layers(features)} qubits"
        )
    inputs = data_symbols(0 if takes_states else qubits if features is None else features)
    names = tuple(
        tuple(f"{prefix}theta_{layer:02d}_{i:02d}" for i in range(SYMBOLS_PER_LAYER))
        for layer in range(layers)
    )
    circuit, active = input_circuit(line, inputs, encoder, ring=ring), line
    for layer in names:
        symbols = [sympy.Symbol(name) for name in layer]
        circuit += reupload_circuit(active, inputs, encoder)
        circuit += convolution(active, symbols[:TWO_QUBIT], ring=ring)
        pooled, active = pooling(active, symbols[TWO_QUBIT:], pool)
        circuit += pooled
    return ModelCircuit(
        # Packed into as few moments as possible: pairs of one layer share moments.
        circuit=cirq.Circuit(circuit.all_operations()),
        inputs=inputs,
        parameters=tuple(name for layer in names for name in layer),
        observables=tuple(cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in active),
        qubits=tuple(line),
        layers=names,
        initial_states=takes_states,
    )
