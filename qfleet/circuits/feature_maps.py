"""Feature maps: circuits without trained angles, whose states encode the rows of a table."""

from typing import Literal, get_args

import cirq
import sympy

from qfleet.argument_checks import TEXT, checked, integer, number
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.errors import CircuitError
from qfleet.placement import data_symbols

Entanglement = Literal["linear", "full"]
ENTANGLEMENTS: tuple[str, ...] = get_args(Entanglement)

_COUNT = integer(1, 1 << 16)


@checked(features=_COUNT, layers=_COUNT, entanglement=TEXT, bandwidth=number)
def zz_feature_map(
    features: int,
    layers: int = 2,
    *,
    entanglement: Entanglement = "linear",
    bandwidth: float = 1.0,
) -> ModelCircuit:
    """Build the ZZ feature map, with one qubit per feature.

    Havlicek et al., "Supervised learning with quantum-enhanced feature spaces" (arXiv:1804.11326).
    A layer is a Hadamard gate and the phase 2 x_i of |1> on each qubit, and the phase
    2 (pi - x_i) (pi - x_j) of odd parity on each pair, where x_i is feature i times the bandwidth.

    Args:
        features: Number of features, and of qubits.
        layers: Repetitions of the layer.
        entanglement: "linear" for pairs of neighbours, "full" for all pairs.
        bandwidth: Factor of all features. With a small one, such as 0.25 for columns of variance 1,
            near rows have states with a large overlap (arXiv:2111.05451).

    Returns:
        The circuit on `cirq.GridQubit(0, 0)` to `cirq.GridQubit(0, features - 1)`, without
        parameters and observables.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: The entanglement is unknown.

    Examples:
        >>> zz_feature_map(3).inputs
        ('x_00', 'x_01', 'x_02')
    """
    if entanglement not in ENTANGLEMENTS:
        names = " or ".join(ENTANGLEMENTS)
        raise CircuitError(f"entanglement is {entanglement!r}: use {names}")
    qubits, inputs = cirq.GridQubit.rect(1, features), data_symbols(features)
    x = [bandwidth * sympy.Symbol(name) for name in inputs]
    reach = 1 if entanglement == "linear" else features
    pairs = [
        (i, j) for i in range(features) for j in range(i + 1, min(i + reach, features - 1) + 1)
    ]
    operations: list[cirq.Operation] = []
    for _ in range(layers):
        operations += cirq.H.on_each(*qubits)
        operations += [(cirq.Z ** (2 * x[i] / sympy.pi))(qubits[i]) for i in range(features)]
        for i, j in pairs:
            phase = 2 * (sympy.pi - x[i]) * (sympy.pi - x[j])
            operations.append((cirq.ZZ ** (phase / sympy.pi))(qubits[i], qubits[j]))
    return ModelCircuit(
        circuit=cirq.Circuit(operations),
        inputs=inputs,
        parameters=(),
        observables=(),
        qubits=tuple(qubits),
        layers=(),
    )
